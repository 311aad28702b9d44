"""Processor seconds and memory of the search for copies, by the number of documents.

Each document has a random key, a tenth of them that of another document; documents are in parts of
100,000, so scores and keys are files as `select` writes them. The search runs in worker processes.

Run: .venv/bin/python benchmarks/copies.py FOLDER [MILLIONS…] [--workers 2]
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from corpusfit.core.artifacts import remove, write_arrays
from corpusfit.core.engine import LocalEngine
from corpusfit.kernels.chance import place_keys
from corpusfit.scoring import table
from corpusfit.selection.copies import EXACT, Copies, Search, find_copies, keys_path

PART = 100_000


def main() -> None:
    """Print a line for each number of documents."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("millions", type=int, nargs="*", default=[2, 8, 32])
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    before = 0.0
    for millions in asked.millions:
        search = Search(
            asked.folder / "scores", asked.folder / "keys", (EXACT,), asked.folder / "work", ()
        )
        remove(asked.folder)
        sizes = make(search, millions * 1_000_000)
        with LocalEngine(asked.workers) as engine:
            began, busy = time.perf_counter(), time.process_time()
            found = find_copies(
                engine.map, search, sizes, "exact", asked.folder / "marks", Copies()
            )
            wall, driver = time.perf_counter() - began, time.process_time() - busy
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        busy_workers = used.ru_utime + used.ru_stime - before
        before += busy_workers
        print(
            f"{millions} M documents: {wall:.1f} s, {busy_workers / asked.workers:.1f} s of a core "
            f"in each worker and {driver:.2f} s here, "
            f"{found.counts['exact']:,} copies, at most {used.ru_maxrss / 1024:.0f} MB in a worker",
            flush=True,
        )
    remove(asked.folder)


def make(search: Search, n: int) -> dict[int, int]:
    """Write scores and keys of n documents; returns the sizes of the parts."""
    rng = np.random.default_rng(0)
    sizes = {}
    for part, first in enumerate(range(0, n, PART)):
        size = min(PART, n - first)
        keys = rng.integers(0, 2**64, size, np.uint64)
        copied = rng.integers(0, size, size // 10)
        keys[copied] = place_keys(0, 0, PART)[copied]  # the same in every part
        write_arrays(keys_path(search.keys, part), {EXACT: keys}, {})
        columns = {
            "score": pa.array(rng.random(size, np.float32)),
            "segment": pa.array(np.zeros(size, np.int32)),
        }
        table.write_parquet(table.part_path(search.scores, part), pa.table(columns))
        sizes[part] = size
    return sizes


if __name__ == "__main__":
    main()
