"""Many small files against one file of the same texts: `select` with `moore_lewis`, two workers.

Both sides read the same texts of about 1 kB, as JSON lines or as plain text, in folders of 1,000
files, and select the same share. `moore_lewis` costs little for each text, so that the ratio is an
upper bound for other methods. The caches of the file system are warm.

Run: python benchmarks/small_files.py [FILES]
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path

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


def main(files: int = 10_000) -> None:
    """Time both kinds of small files against the one file."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        target = write(folder, files)

        def select(corpus: str) -> int:
            shutil.rmtree(folder / "out", ignore_errors=True)
            machine = corpusfit.Machine(workers=2)
            corpusfit.select(
                target=target,
                corpus=folder / corpus,
                out=folder / "out",
                method="moore_lewis",
                machine=machine,
            )
            return len(list((folder / "out" / "scores").iterdir()))

        for kind in ("jsonl", "txt"):
            parts = {"parts": select(kind), "parts of one file": select("one.jsonl")}
            paired(
                f"small_files_{kind}",
                partial(select, kind),
                partial(select, "one.jsonl"),
                runs=3,
                note=f"{files:,} {kind} files of 1 kB against one file, two workers",
                work=files,
                unit="texts",
                extra=parts,
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
