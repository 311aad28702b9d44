"""Resident memory of `select` on ten times the text.

Runs the command on 100 MB and on 1 GB of text with the same settings (static embeddings) and
compares the peak memory of all processes. Resident sets are summed, so shared pages count several
times in both.

Run: .venv/bin/python benchmarks/memory.py [METHOD]
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from corpusfit.demo import FAMILIES, docstrings
from harness import RESULTS, machine

LIMIT_MB = 100
SIZES_MB = (100, 1000)


def main(method: str) -> None:
    """Measure both sizes and write the result."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        target = folder / "task.jsonl"
        texts = sorted({t for m in FAMILIES.values() for t in docstrings(m.split())})
        target.write_text("".join(json.dumps({"text": t}) + "\n" for t in texts[:300]))
        peaks = {}
        write_corpus(folder / "1.jsonl", texts, 1)
        run(folder, 1, target, method)  # compiles the kernels
        for size in SIZES_MB:
            write_corpus(folder / f"{size}.jsonl", texts, size)
            seconds, peaks[size] = run(folder, size, target, method)
            print(
                f"{size:5d} MB of text: {peaks[size]:7.0f} MB resident, {seconds:6.0f} s",
                flush=True,
            )
    small, large = (peaks[s] for s in SIZES_MB)
    result = {
        "name": "memory",
        "note": f"peak resident MB of all processes: select --embedder static --method {method}",
        "peak_mb": peaks,
        "growth_mb": large - small,
        "limit_mb": LIMIT_MB,
        "machine": machine(),
    }
    (RESULTS / "memory.json").write_text(json.dumps(result, indent=1) + "\n")
    print(f"growth {large - small:.0f} MB (at most {LIMIT_MB} wanted)")


def write_corpus(path: Path, texts: list[str], size_mb: int) -> None:
    """Documents of a few docstrings each, drawn with a seed, up to a size."""
    chance = random.Random(0)
    written = 0
    with path.open("w") as out:
        while written < size_mb * 1_000_000:
            text = "\n\n".join(chance.choices(texts, k=chance.randint(1, 8)))
            written += out.write(json.dumps({"text": text}) + "\n")


def run(folder: Path, size: int, target: Path, method: str) -> tuple[float, float]:
    """Seconds and peak resident MB of one run."""
    command = [sys.executable, "-m", "corpusfit", "select", "--target", str(target)]
    command += ["--corpus", str(folder / f"{size}.jsonl"), "--out", str(folder / f"out-{size}")]
    command += ["--embedder", "static", "--method", method, "--fraction", "0.1"]
    command += ["--cache", str(folder / "cache")]
    return peak_of(command)


def peak_of(command: list[str]) -> tuple[float, float]:
    """Seconds of a command and peak resident MB of all its processes."""
    started = time.perf_counter()
    peak = 0.0
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while process.poll() is None:
        peak = max(peak, sum(map(resident_mb, family(process.pid))))
        time.sleep(0.1)
    if process.returncode:
        raise SystemExit(f"corpusfit ended with {process.returncode}")
    return time.perf_counter() - started, peak


def family(pid: int) -> list[int]:
    """A process and all its descendants."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = stat.read_text().rsplit(")", 1)[1].split()[1]
        except OSError:
            continue
        parents.setdefault(int(parent), []).append(int(stat.parent.name))
    found = []
    new = [pid]
    while new:
        found += new
        new = [child for p in new for child in parents.get(p, [])]
    return found


def resident_mb(pid: int) -> float:
    """Resident set of one process."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 1e6
    except (OSError, IndexError):
        return 0.0


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "isolation_forest")
