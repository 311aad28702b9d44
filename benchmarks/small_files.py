"""Many small files against one file of the same texts, for each command that reads a corpus.

Both sides read the same texts of about 1 kB, as JSON lines or (`select`) as plain text, in folders
of 1,000 files, with two workers. Little is done with each text (`select` with `moore_lewis`, two
steps of `adapt` on all texts read, by one thread), so that the ratio is an upper bound. Times are
processor seconds of the command and its workers. After the warm-up the caches of the file system
and of corpusfit (surveys, token ids) have what they keep.

Run: python benchmarks/small_files.py [FILES [RUNS [COMMAND …]]]
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import corpusfit
from encode import docstrings
from harness import paired

WORDS = 150


def write(folder: Path, n: int) -> Path:
    """Write n texts as files of both kinds and as one file; returns the file of the target."""
    words = " ".join(docstrings()).split()
    chosen = random.Random(0)
    with (folder / "one.jsonl").open("w", encoding="utf-8") as one:
        for i in range(n):
            begin = chosen.randrange(len(words) - WORDS)
            text = " ".join(words[begin : begin + WORDS])
            line = json.dumps({"text": text}) + "\n"
            for kind, content in (("txt", text), ("jsonl", line)):
                path = folder / kind / f"{i // 1000:04d}" / f"{i:07d}.{kind}"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content, encoding="utf-8")
            one.write(line)
    target = folder / "target.jsonl"
    lines = [json.dumps({"text": " ".join(words[i : i + 50])}) for i in range(0, 5_000, 50)]
    target.write_text("\n".join(lines), encoding="utf-8")
    return target


def commands(folder: Path, target: Path, files: int) -> dict[str, Callable[[str], object]]:
    """What is run, by name, each on a corpus in the folder."""
    shared = {"workers": 2, "cache": folder / "cache"}

    def out(command: str) -> dict[str, Any]:
        # a run of the other side in this folder would be compared and cleared, which takes time
        shutil.rmtree(folder / f"out-{command}", ignore_errors=True)
        return {"out": folder / f"out-{command}", **shared}

    def compose(corpus: str) -> object:
        recipe = folder / f"{corpus}.toml"
        recipe.write_text(
            f'composition = "E_D"\nbudget = {files}\n[[sources]]\nname = "corpus"\n'
            f'kind = "specific"\nlanguage = "en"\npath = {json.dumps(str(folder / corpus))}\n'
        )
        return corpusfit.compose(recipe, **out("compose"))

    def contamination(corpus: str) -> object:
        return corpusfit.contamination(task=target, data=folder / corpus, **shared)

    def adapt(corpus: str) -> object:
        size = {"init": "tiny", "max_steps": 2, "batch": 2, "length": 64}
        return corpusfit.adapt(data=folder / corpus, **size, **out("adapt"))

    def select(corpus: str) -> object:
        method = {"target": target, "method": "moore_lewis"}
        return corpusfit.select(corpus=folder / corpus, **method, **out("select"))

    def split(corpus: str) -> object:
        return corpusfit.split(data=folder / corpus, dev=0.01, test=0.01, **out("split"))

    every = (select, split, compose, contamination, adapt)
    return {command.__name__: command for command in every}


def used(run: Callable[[str], object], corpus: str) -> float:
    """Processor seconds of a command and its workers."""
    before = os.times()
    run(corpus)
    return sum(os.times()[:4]) - sum(before[:4])


def main(files: int = 10_000, runs: int = 3, *wanted: str) -> None:
    """Time small files against the one file."""
    os.environ["OMP_NUM_THREADS"] = "1"  # threads that wait for others spin, which would count
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        target = write(folder, files)
        for command, run in commands(folder, target, files).items():
            if wanted and command not in wanted:
                continue
            for kind in ("jsonl", "txt") if command == "select" else ("jsonl",):
                paired(
                    f"small_files_{command}_{kind}",
                    partial(used, run, kind),
                    partial(used, run, "one.jsonl"),
                    runs=runs,
                    note=f"{files:,} {kind} files of 1 kB against one file, two workers",
                    work=files,
                    unit="texts",
                )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]), *sys.argv[3:])
