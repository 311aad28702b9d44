"""Fuzz what reads bytes, guided by coverage (atheris), from the small cases that are kept."""

from __future__ import annotations

import base64
import re
import resource
import subprocess
import sys
from collections import Counter
from pathlib import Path

from commands import environment
from ledger import Outcome

CASES = Path(__file__).parent / "cases"
SECONDS = 60
_TARGETS = Path(__file__).with_name("targets.py")
_MEGABYTES, _SLOW = 3000, 20  # of memory, and seconds for one input, above which it is a defect


def fuzz(seed: int, root: Path, only: str | None) -> Outcome:
    """A case: one target for `SECONDS`; what libFuzzer finds new is kept in `root` for later cases.

    Args:
        seed: of libFuzzer's random numbers; the target is the next of all.
        root: folder of the cases that were found.
        only: name of the target, instead of the next.
    """
    targets = sorted(folder.name for folder in CASES.iterdir())
    name = only or targets[seed % len(targets)]
    outcome = Outcome(Counter(), name)
    found, broken = root / "found" / name, root / "broken" / name
    for folder in (found, broken, CASES / name):
        folder.mkdir(parents=True, exist_ok=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [
            *(sys.executable, str(_TARGETS), name, str(found), str(CASES / name)),
            *(f"-seed={seed + 1}", f"-max_total_time={SECONDS}", "-max_len=4096"),
            *(f"-rss_limit_mb={_MEGABYTES}", f"-timeout={_SLOW}", f"-artifact_prefix={broken}/"),
        ],
        capture_output=True, text=True, errors="replace", env=environment(), check=False,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    outcome.counts["processor seconds"] = round(spent)
    tried = re.findall(r"^#(\d+)", done.stderr, re.M)
    outcome.counts["inputs"] = int(tried[-1]) if tried else 0
    if done.returncode:
        told = [line for line in done.stderr.splitlines() if line and not line.startswith("#")]
        files = sorted(broken.iterdir())
        inputs = [f"{f.name}: {base64.b64encode(f.read_bytes()).decode()}" for f in files]
        outcome.broken += inputs or ["\n".join(told[-20:])]
        outcome.broken += [line[:300] for line in told if "Error" in line][-1:]
        for file in files:
            file.rename(found.parent / f"{name}-{file.name}")
    return outcome
