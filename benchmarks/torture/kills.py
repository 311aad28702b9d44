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

from commands import COMMANDS, digests
from ledger import Outcome
from running import WORLDS, drawn, end, group, start, whole

KILLS = 6


def kill(seed: int, root: Path, only: str | None) -> Outcome:
    """A case: one command on one world, interrupted `KILLS` times, then run to its end.

    A signal goes to the command, to one of its workers, or to its whole group; most are SIGKILL.

    Args:
        seed: draws command, world, workers, instants and signals.
        root: folder with `base/model`, where whole runs are kept.
        only: name of the command, instead of a drawn one.
    """
    chance = random.Random(f"kill {seed}")
    name, world = drawn(chance, root, only, WORLDS)
    command, counts = COMMANDS[name], Counter[str]()
    outcome = Outcome(counts, name)
    kept, seconds = whole(root / "whole" / world.name / name, world, name)
    out = root / "killed"
    shutil.rmtree(out, ignore_errors=True)
    for _ in range(KILLS):
        workers = chance.choice((1, 2))
        process = start(command, world, out, workers)
        time.sleep(seconds * chance.random())
        counts[_send(process, chance)] += 1
        code, said, left = end(process)
        if code is None:
            outcome.broken.append("it hangs after a signal")
        if left:
            outcome.broken.append(f"{left} processes outlive it")
        if "Traceback" in said:
            outcome.broken.append(f"a traceback: {said[-300:]}")
    process = start(command, world, out, chance.choice((1, 2)))
    code, said, _ = end(process)
    counts["resumed"] += 1
    if code != 0:
        outcome.broken.append(f"it does not go on: code {code}, {said[-300:]}")
    elif digests(out, command.kept) != kept:
        outcome.broken.append("its files are not those of a whole run")
    return outcome


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


def _is_worker(pid: int) -> bool:
    """Whether a process runs jobs; Python's own resource tracker runs none."""
    with contextlib.suppress(OSError):
        return b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False
