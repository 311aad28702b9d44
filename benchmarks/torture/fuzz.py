"""Fuzz what reads bytes, guided by coverage (atheris), from the small cases that are kept."""

from __future__ import annotations

import base64
import os
import re
import resource
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from commands import environment
from ledger import Outcome

CASES = Path(__file__).parent / "cases"
CORES = os.cpu_count() or 1
SECONDS = 60
_TARGETS = Path(__file__).with_name("targets.py")
_MEGABYTES = 3000  # of memory, and seconds for one input, above which it is a defect
_SLOW = 20


def fuzz(seed: int, root: Path, only: str | None) -> Outcome:
    """A case: one target for `SECONDS` on every core; what is found new is kept for later cases.

    libFuzzer's processes share the folder of cases, so each goes on from what the others found.

    Args:
        seed: of libFuzzer's random numbers; the target is the next of all.
        root: folder of the cases that were found.
        only: name of the target, instead of the next.
    """
    targets = sorted(folder.name for folder in CASES.iterdir())
    name = only or targets[seed % len(targets)]
    outcome = Outcome(Counter(), name)
    found = root / "found" / name
    broken = root / "broken" / name
    for folder in (found, broken, CASES / name):
        folder.mkdir(parents=True, exist_ok=True)
    checked = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(root / "kernels")}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    processes = [
        subprocess.Popen(
            [
                *(sys.executable, str(_TARGETS), name, str(found), str(CASES / name)),
                *(f"-seed={seed * CORES + core + 1}", f"-max_total_time={SECONDS}"),
                *("-max_len=4096", f"-rss_limit_mb={_MEGABYTES}", f"-timeout={_SLOW}"),
                f"-artifact_prefix={broken}/",
            ],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            env=environment() | checked,
        )
        for core in range(CORES)
    ]  # fmt: skip
    with ThreadPoolExecutor(CORES) as threads:  # so that no pipe is full while another is read
        said = list(threads.map(lambda process: process.communicate()[0], processes))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    outcome.counts["processor seconds"] = round(spent)
    for process, words in zip(processes, said, strict=True):
        tried = re.findall(r"^#(\d+)", words, re.M)
        outcome.counts["inputs"] += int(tried[-1]) if tried else 0
        if process.returncode:
            lines = [line for line in words.splitlines() if line and not line.startswith("#")]
            outcome.broken.append("\n".join(lines[-20:])[:2000])
    for file in sorted(broken.iterdir()):
        outcome.broken.append(f"{file.name}: {base64.b64encode(file.read_bytes()).decode()}")
        file.rename(found.parent / f"{name}-{file.name}")
    return outcome
