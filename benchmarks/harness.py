"""Paired timings of corpusfit and a peer, stored with hardware and versions.

Both run in turn, A B A B, after one warm-up each; results are medians and the median of paired
ratios. On a shared machine the speed drifts by tens of per cent, and neighboring runs share the
drift, so the ratio of a pair is steadier than the ratio of two averages. A handful of wall times:
good for factors, not for per cents.
Reference: Kalibera and Jones (2013), Rigorous Benchmarking in Reasonable Time.
"""

from __future__ import annotations

import datetime as dt
import json
import multiprocessing as mp
import os
import platform
import re
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
LIBRARIES = (
    "corpusfit",
    "numpy",
    "numba",
    "pyarrow",
    "scikit-learn",
    "isotree",
    "torch",
    "transformers",
    "accelerate",
    "sentence-transformers",
)


def paired(
    name: str,
    ours: Callable[[], Any],
    peer: Callable[[], Any],
    *,
    runs: int = 7,
    note: str = "",
    work: float = 0.0,
    peer_work: float = 0.0,
    unit: str = "rows",
    extra: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Run corpusfit and the peer in turn, write `results/NAME.json`, print one line.

    Args:
        name: of the comparison, and of the file.
        ours: runs corpusfit once; a returned number replaces the measured seconds.
        peer: runs the other side once, on the same input.
        runs: pairs after one warm-up each.
        note: what is compared, on what, with how many threads.
        work: amount of work of one run; 0 reports no rates.
        peer_work: amount of work of one run of the peer, if less than `work`; the ratio is then one
            of rates.
        unit: of `work`.
        extra: more results to store, such as agreement of the outputs.

    Returns:
        What was written. `ratio` is the peer's time for the same work over ours: above 1 means ours
        is faster.
    """
    ours(), peer()
    pairs = [(_seconds(ours), _seconds(peer)) for _ in range(runs)]
    ours_s, peer_s = zip(*pairs, strict=True)
    mine = _summary(ours_s, work, unit)
    theirs = _summary(peer_s, peer_work or work, unit)
    scale = work / peer_work if peer_work else 1.0
    ratios = [b * scale / a for a, b in pairs]
    result = {
        "name": name,
        "note": note,
        "runs": runs,
        "ours": mine,
        "peer": theirs,
        "ratio": {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios)},
        "work": {"amount": work, "unit": unit},
        "extra": dict(extra or {}),
        "machine": machine(),
    }
    store(result)
    print(_line(result))
    return result


def store(result: Mapping[str, Any]) -> None:
    """Write a result, which has a name, to `results/NAME.json`."""
    text = json.dumps(result, indent=1) + "\n"
    (RESULTS / f"{result['name']}.json").write_text(text, encoding="utf-8")


def seconds(run: Callable[[], Any]) -> float:
    """Processor seconds of one run, which other work on the machine disturbs less."""
    start = time.process_time()
    run()
    return time.process_time() - start


class Side:
    """One side's process, which runs one block of work at a time on request.

    Args:
        work: function to run, with a pipe as its last argument. It sends (wall seconds, processor
            seconds) after each block, waits for a message before the next, and sends its result at
            the end.
        given: other arguments of `work`.

    Attributes:
        busy: processor seconds of each block so far.
    """

    def __init__(self, work: Callable[..., None], *given: Any) -> None:
        start = mp.get_context("spawn")
        self.pipe, theirs = start.Pipe()
        self.process = start.Process(target=work, args=(*given, theirs))
        self.process.start()
        theirs.close()  # so that the end of a failed side is noticed
        self.busy: list[float] = []

    def __call__(self) -> float:
        """Seconds of the next block; the first one includes loading and is not counted."""
        if self.busy:
            self.pipe.send(None)
        seconds, busy = self.pipe.recv()
        self.busy.append(busy)
        return seconds

    def finish(self) -> dict[str, Any]:
        """The result of the process."""
        result: dict[str, Any] = self.pipe.recv()
        self.process.join()
        return result


def put(page: Path, part: str) -> None:
    """Put a part, which begins with its heading, into a page in place of its last version."""
    parts = re.split(r"\n(?=## )", page.read_text("utf-8")) if page.exists() else []
    heading = part.partition("\n")[0]
    last = [i for i, found in enumerate(parts) if found.startswith(f"{heading}\n")] or [len(parts)]
    parts[last[0] : last[0] + 1] = [part]
    page.write_text("\n".join(parts), "utf-8")


def machine() -> dict[str, Any]:
    """Hardware, versions, commit and date of this run."""
    return {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "libraries": {name: v for name in LIBRARIES if (v := _version(name))},
        "commit": _git("rev-parse", "HEAD"),
        "changed": bool(_git("status", "--porcelain", "--untracked-files=no", "--", "src")),
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    }


def _seconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    said = run()
    return said if isinstance(said, float) else time.perf_counter() - start


def _summary(seconds: tuple[float, ...], work: float, unit: str) -> dict[str, float]:
    median = statistics.median(seconds)
    out = {"median_s": median, "min_s": min(seconds), "max_s": max(seconds)}
    if work:
        out[f"{unit}_per_s"] = work / median
    return out


def _line(result: dict[str, Any]) -> str:
    unit = result["work"]["unit"]
    ratio = result["ratio"]
    cells = [f"{result['name']:32s}"]
    for side in ("ours", "peer"):
        part = result[side]
        rate = part.get(f"{unit}_per_s")
        cells.append(f"{side} {rate:,.0f} {unit}/s" if rate else f"{side} {part['median_s']:.3f} s")
    cells.append(f"ratio {ratio['median']:.2f} ({ratio['min']:.2f} to {ratio['max']:.2f})")
    return " | ".join(cells)


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _git(*words: str) -> str:
    done = subprocess.run(
        ["git", *words],
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip()
