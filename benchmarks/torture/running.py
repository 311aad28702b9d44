"""Run a command as a user does, and keep the files of its whole runs to compare others with."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from commands import COMMANDS, Command, digests, environment, make_world

_LONGEST = 600.0  # seconds after which a command hangs, and its workers outlive it
_GRACE = 20.0
_CURE = re.compile(
    r"\b(again|make room|free|choose|pass|use|raise|set|check|install|give|restore)\b", re.I
)
_RAYS = re.compile(rb"ray\b.*agent", re.I)


def drawn(
    seed: int, chance: random.Random, root: Path, only: str | None, worlds: int
) -> tuple[str, Path]:
    """The next command unless one is given, and a drawn folder of inputs, made if it is new."""
    name = only or sorted(COMMANDS)[seed % len(COMMANDS)]
    number = chance.randrange(worlds)
    world = root / "worlds" / str(number)
    if not world.exists():
        make_world(world, number, root / "base/model")
    return name, world


def whole(world: Path, name: str) -> tuple[dict[str, str], float]:
    """The files of an uninterrupted run, made once, and its seconds.

    Args:
        world: folder of inputs, in which `whole/NAME` is that of the run.
        name: the command.
    """
    command = COMMANDS[name]
    out = world / "whole" / name
    took = out.with_suffix(".seconds")
    if not took.exists():
        shutil.rmtree(out, ignore_errors=True)
        began = time.monotonic()
        cache = {"CORPUSFIT_CACHE": str(world / "cache")}
        code, said, _ = end(start(command, world, out, 2, cache))
        if code != 0:
            raise RuntimeError(f"{name} fails on world {world.name}: {said}")
        took.write_text(str(time.monotonic() - began))
    found = digests(out, command.kept)
    if not found:
        raise RuntimeError(f"{name} writes none of {', '.join(command.kept)}")
    return found, float(took.read_text())


def start(
    command: Command,
    world: Path | str,
    out: Path | str,
    workers: int,
    also: Mapping[str, str] | None = None,
) -> subprocess.Popen[str]:
    """Start a command in a group of its own; `also` is added to its environment."""
    prepare(command, world, out)
    return subprocess.Popen(
        command.line(world, out, workers),
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True, env={**environment(), **(also or {})}, start_new_session=True,
    )  # fmt: skip


def prepare(command: Command, world: Path | str, out: Path | str) -> None:
    """Make the runs that a command reads, and the folder that it begins in."""
    for name in command.before:
        whole(Path(world), name)
    if command.copied and not Path(out).exists():
        shutil.copytree(Path(world) / "whole" / command.copied, out)


def end(process: subprocess.Popen[str]) -> tuple[int | None, str, int]:
    """The exit status, None if it hangs, what it said, and how many processes outlive it."""
    try:
        _, said = process.communicate(timeout=_LONGEST)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return None, process.communicate()[1], 0
    until = time.monotonic() + _GRACE
    while (left := _ours(process.pid)) and time.monotonic() < until:
        time.sleep(0.1)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, said, left


def _ours(leader: int) -> int:
    """How many processes of a group live, but for Ray's agents, which end a minute after it."""
    return sum(not _RAYS.search(words_of(pid)) for pid in group(leader))


def words_of(pid: int) -> bytes:
    """The command line of a process, empty if it is gone (Linux)."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def broken(code: int | None, said: str, left: int) -> Iterator[str]:
    """What is wrong with an end: a hang, no plain message with a cure, what it leaves."""
    if code is None:
        yield "it hangs"
    elif "Traceback" in said or code < 0:
        yield f"code {code}, {said[-1500:]}"
    elif code and not _CURE.search(said.rpartition("Error: ")[2]):
        yield f"no cure: {said[-300:]}"
    if left:
        yield f"{left} processes outlive it"


def group(leader: int) -> list[int]:
    """Ids of the living processes of a command's group (Linux)."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
            if os.getpgid(int(entry.name)) == leader and state != "Z":
                found.append(int(entry.name))
    return found


LARGE = "size=4g"


@contextlib.contextmanager
def disk(folder: Path, size: str) -> Iterator[bool]:
    """An empty folder, a file system of its own if that is permitted; says whether it is one."""
    subprocess.run(["umount", "-l", folder], stderr=subprocess.DEVNULL, check=False)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    mounted = not subprocess.run(
        ["mount", "-t", "tmpfs", "-o", size, "tmpfs", folder], check=False
    ).returncode  # fmt: skip
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "-l", folder], check=True)
