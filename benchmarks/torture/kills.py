"""Kill a command at random instants, go on, and compare its files with those of a whole run."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

from commands import COMMANDS, Command, digests, environment, make_world
from ledger import Outcome

WORLDS = 8
"""Inputs that are drawn; each command's whole run on one of them is made once."""
KILLS = 6
_LONGEST, _GRACE = 600.0, 20.0  # seconds after which a command hangs, and its workers outlive it


def kill(seed: int, root: Path, only: str | None) -> Outcome:
    """A case: one command on one world, interrupted `KILLS` times, then run to its end.

    A signal goes to the command, to one of its workers, or to its whole group; most are SIGKILL.

    Args:
        seed: draws command, world, workers, instants and signals.
        root: folder with `base/model`, where whole runs are kept.
        only: name of the command, instead of a drawn one.
    """
    chance = random.Random(f"kill {seed}")
    name = only or chance.choice(sorted(COMMANDS))
    world_seed, command, counts = chance.randrange(WORLDS), COMMANDS[name], Counter[str]()
    world = root / "worlds" / str(world_seed)
    if not world.exists():
        make_world(world, world_seed, root / "base/model")
    outcome = Outcome(counts, name)
    whole, seconds = _whole(root, world, name)
    out = root / "killed"
    shutil.rmtree(out, ignore_errors=True)
    for _ in range(KILLS):
        workers = chance.choice((1, 2))
        process = _start(command, world, out, workers)
        time.sleep(seconds * chance.random())
        counts[_send(process, chance)] += 1
        code, said, left = _end(process)
        if code is None:
            outcome.broken.append("it hangs after a signal")
        if left:
            outcome.broken.append(f"{left} processes outlive it")
        if "Traceback" in said:
            outcome.broken.append(f"a traceback: {said[-300:]}")
    process = _start(command, world, out, chance.choice((1, 2)))
    code, said, _ = _end(process)
    counts["resumed"] += 1
    if code != 0:
        outcome.broken.append(f"it does not go on: code {code}, {said[-300:]}")
    elif digests(out, command.kept) != whole:
        outcome.broken.append("its files are not those of a whole run")
    return outcome


def _whole(root: Path, world: Path, name: str) -> tuple[dict[str, str], float]:
    """The files of an uninterrupted run, and its seconds."""
    out, command = root / "whole" / world.name / name, COMMANDS[name]
    took = out.with_suffix(".seconds")
    if not took.exists():
        shutil.rmtree(out, ignore_errors=True)
        began = time.monotonic()
        code, said, _ = _end(_start(command, world, out, 2))
        if code != 0:
            raise RuntimeError(f"{name} fails on world {world.name}: {said}")
        took.write_text(str(time.monotonic() - began))
    found = digests(out, command.kept)
    if not found:
        raise RuntimeError(f"{name} writes none of {', '.join(command.kept)}")
    return found, float(took.read_text())


def _start(command: Command, world: Path, out: Path, workers: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command.line(world, out, workers),
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True, env=environment(), start_new_session=True,
    )  # fmt: skip


def _send(process: subprocess.Popen[str], chance: random.Random) -> str:
    """Send a drawn signal to a drawn part; returns the name of what was done."""
    kind = chance.choices(
        ("kill", "kill a worker", "kill all", "terminate", "interrupt twice", "hang up", "stop"),
        (6, 2, 4, 1, 1, 1, 1),
    )[0]
    with contextlib.suppress(ProcessLookupError):
        if kind == "kill":
            process.kill()
        elif kind == "kill all":
            os.killpg(process.pid, signal.SIGKILL)
        elif kind == "kill a worker":
            workers = sorted(filter(_is_worker, _group(process.pid)))
            os.kill(chance.choice(workers) if workers else process.pid, signal.SIGKILL)
        elif kind == "terminate":
            process.terminate()
        elif kind == "hang up":
            process.send_signal(signal.SIGHUP)
        elif kind == "interrupt twice":
            for _ in range(2):
                os.killpg(process.pid, signal.SIGINT)  # as a terminal does
                time.sleep(chance.random() / 5)
        else:
            os.killpg(process.pid, signal.SIGSTOP)
            time.sleep(3)
            os.killpg(process.pid, signal.SIGCONT)
            time.sleep(chance.random())
            process.kill()
    return f"signal: {kind}"


def _end(process: subprocess.Popen[str]) -> tuple[int | None, str, int]:
    """The exit status, None if it hangs, what it said, and how many processes outlive it."""
    try:
        _, said = process.communicate(timeout=_LONGEST)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return None, process.communicate()[1], 0
    until = time.monotonic() + _GRACE
    while (left := len(_group(process.pid))) and time.monotonic() < until:
        time.sleep(0.1)
    if left:
        os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, said, left


def _group(leader: int) -> list[int]:
    """Ids of the living processes of a command's group (Linux)."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
            if os.getpgid(int(entry.name)) == leader and state != "Z":
                found.append(int(entry.name))
    return found


def _is_worker(pid: int) -> bool:
    """Whether a process runs jobs; Python's own resource tracker runs none."""
    with contextlib.suppress(OSError):
        return b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False
