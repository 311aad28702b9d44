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
from collections.abc import Iterator
from pathlib import Path

from commands import COMMANDS, digests
from ledger import Outcome
from running import drawn, end, group, start, whole, words_of

KILLS = 16
WORLDS = 2
"""Inputs that are drawn; each command's whole run on one of them is made once."""
_EARLY = 0.5
"""The part of a whole run in which signals come; what resumes has its later work there."""
_FINISHED = "holds a selection"
"""What `choose --out` says of a folder that it has finished."""


def kill(seed: int, root: Path, only: str | None) -> Outcome:
    """A case: one command on one world, interrupted `KILLS` times, and run to its end in between.

    A signal goes to the command, to one of its workers, or to its whole group; most are SIGKILL.
    A run that ends before its signal is compared with a whole one, and another one begins.

    Args:
        seed: number of the command; draws world, workers, instants and signals.
        root: folder with `base/model`, where whole runs are kept.
        only: name of the command, instead of a drawn one.
    """
    chance = random.Random(f"kill {seed}")
    name, world = drawn(seed, chance, root, only, WORLDS)
    command = COMMANDS[name]
    outcome = Outcome(Counter(), name)
    kept, longest = whole(world, name)
    out = root / "killed"
    cache = root / "killed-cache"
    left = KILLS
    begun = False
    while left or begun:
        if not begun:
            for folder in (out, cache):
                shutil.rmtree(folder, ignore_errors=True)
        began = time.monotonic()
        process = start(command, world, out, chance.choice((1, 2)), {"CORPUSFIT_CACHE": str(cache)})
        instant = _EARLY * longest * chance.random()
        kind = _interrupted(process, instant, chance) if left else ""
        if kind:
            outcome.counts[f"signal: {kind}"] += 1
            left -= 1
        code, said, outlive = end(process)
        done = code == 0 or _FINISHED in said
        outcome.broken += _broken(code, said, outlive)
        if done:
            outcome.counts["resumed"] += begun
            if digests(out, command.kept) != kept:
                outcome.broken.append("its files are not those of a whole run")
        elif not kind:
            outcome.broken.append(f"it does not go on: code {code}, {said[-300:]}")
            break
        if not (begun or kind):
            longest = time.monotonic() - began
        begun = not done
    return outcome


def _broken(code: int | None, said: str, outlive: int) -> Iterator[str]:
    if code is None:
        yield "it hangs after a signal"
    if outlive:
        yield f"{outlive} processes outlive it"
    if "Traceback" in said:
        yield f"a traceback: {said[-300:]}"


def _interrupted(process: subprocess.Popen[str], instant: float, chance: random.Random) -> str:
    """Send a drawn signal to a drawn part at an instant; returns what was done, if it lived."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(instant)
        return ""
    return _send(process, chance)


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
            workers = sorted(filter(_is_worker, group(process.pid)))
            os.kill(chance.choice(workers) if workers else process.pid, signal.SIGKILL)
        elif kind == "terminate":
            process.terminate()
        elif kind == "hang up":
            os.killpg(process.pid, signal.SIGHUP)  # as a terminal that is closed does
        elif kind == "interrupt twice":
            for _ in range(2):
                os.killpg(process.pid, signal.SIGINT)  # as a terminal does
                time.sleep(chance.random() / 5)
        else:
            os.killpg(process.pid, signal.SIGSTOP)
            time.sleep(chance.choice((3, 3, 60)))
            os.killpg(process.pid, signal.SIGCONT)
            if chance.random() < 0.5:  # else it goes on to its end
                time.sleep(chance.random())
                process.kill()
    return kind


def _is_worker(pid: int) -> bool:
    """Whether a process runs jobs, of this machine's engine or of Ray's."""
    words = words_of(pid)
    return b"spawn_main" in words or words.startswith(b"ray::")
