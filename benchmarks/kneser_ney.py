"""Training an n-gram model and scoring with it: corpusfit, KenLM's lmplz and its Python module.

One half of a text trains a model of order 3, the other half is scored sentence by sentence;
training, scoring, and both in turn are timed in pairs. Both sides read the same file of lower-
cased words between single spaces. corpusfit still searches for words in it, on one thread; KenLM
splits at spaces, and lmplz uses several threads and 1 GB, with which it is faster than with its
default of 80 % of the memory. KenLM must load the ARPA file that lmplz wrote; both in turn is
timed with and without that.

Needs KenLM's programs `lmplz` and `build_binary` on PATH or in the folder of --programs (built
with cmake from KenLM's source) and its Python module (`pip install kenlm`).

Run: python benchmarks/kneser_ney.py CORPUS.jsonl… [--programs FOLDER] [--order N] [--megabytes N]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import kenlm
import numpy as np

from corpusfit.kernels.backoff import log_probabilities
from corpusfit.kernels.characters import table as characters
from corpusfit.kernels.kneser_ney import estimate, number_words
from corpusfit.kernels.tokens import reference
from harness import paired

SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
RUNS = 5


def sentences(files: list[str], megabytes: float) -> list[str]:
    """Sentences from the field `text` of JSON lines, as words between spaces, in random order."""
    out: list[str] = []
    for file in files:
        left = megabytes * 1e6 / len(files)
        with open(file, encoding="utf-8") as f:
            while left > 0 and (line := f.readline()):
                for part in SENTENCE.split(json.loads(line)["text"]):
                    words = " ".join(reference(part)) if part.isascii() else ""
                    if words:
                        out.append(words)
                        left -= len(words) + 1
    random.Random(0).shuffle(out)
    return out


def lines_of(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """A file's bytes and the offset of each line, as in an Arrow array of its lines."""
    data = np.fromfile(path, np.uint8)
    return data, np.append(0, np.flatnonzero(data == ord("\n")) + 1)


def train(path: Path, order: int) -> np.ndarray:
    """corpusfit's model of a file."""
    return estimate(*number_words(*lines_of(path), characters(), False), order)


def score(path: Path, table: np.ndarray, order: int) -> np.ndarray:
    """corpusfit's log10 probability of every line."""
    return log_probabilities(table, order, *lines_of(path), characters(), False)[0]


def lmplz(program: str, path: Path, order: int) -> Path:
    """KenLM's model of a file, as ARPA."""
    out = path.with_suffix(".arpa")
    command = [program, "-o", str(order), "-S", "1G", "-T", str(path.parent), "--discount_fallback"]
    with open(path, "rb") as text, open(out, "wb") as arpa:
        subprocess.run(command, stdin=text, stdout=arpa, stderr=subprocess.DEVNULL, check=True)
    return out


def binary(program: str, arpa: Path) -> Path:
    """The same as a binary file, which KenLM loads fastest."""
    out = arpa.with_suffix(".bin")
    command = [program, str(arpa), str(out)]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return out


def query(path: Path, model: Path) -> np.ndarray:
    """KenLM's log10 probability of every line."""
    loaded = kenlm.Model(str(model))
    return np.array([loaded.score(line) for line in path.read_text("utf-8").splitlines()])


def compare(lines: list[str], order: int, programs: dict[str, str], folder: Path) -> None:
    """Time both parts, separately and in turn."""
    half = len(lines) // 2
    known, new = folder / "train.txt", folder / "score.txt"
    known.write_text("\n".join(lines[:half]) + "\n", "utf-8")
    new.write_text("\n".join(lines[half:]) + "\n", "utf-8")
    table = train(known, order)
    arpa = lmplz(programs["lmplz"], known, order)
    start = time.perf_counter()
    model = binary(programs["build_binary"], arpa)
    extra = {"lines": len(lines), "build_binary_s": time.perf_counter() - start}
    difference = np.abs(score(new, table, order) - query(new, model))
    extra["largest_difference_log10"] = float(difference.max())
    extra["median_difference_log10"] = float(np.median(difference))
    mb = [p.stat().st_size / 1e6 for p in (known, new)]
    note = f"order {order}, {mb[0]:.0f} MB to train on, {mb[1]:.0f} MB to score; "

    def pair(part: str, ours: Any, peer: Any, what: str, work: float) -> None:
        name = f"kneser_ney_{part}_o{order}"
        paired(name, ours, peer, runs=RUNS, note=note + what, work=work, unit="MB", extra=extra)

    pair(
        "train",
        lambda: train(known, order),
        lambda: lmplz(programs["lmplz"], known, order),
        "text to model: ours on one thread against lmplz on its threads",
        mb[0],
    )
    pair(
        "score",
        lambda: score(new, table, order),
        lambda: query(new, model),
        "scoring lines with a model at hand: ours against the Python module kenlm, one thread each",
        mb[1],
    )
    pair(
        "all",
        lambda: score(new, train(known, order), order),
        lambda: query(new, lmplz(programs["lmplz"], known, order)),
        "training and scoring: ours against lmplz and the Python module, which loads the ARPA",
        sum(mb),
    )
    pair(
        "all_loaded",
        lambda: score(new, train(known, order), order),
        lambda: (lmplz(programs["lmplz"], known, order), query(new, model)),
        "the same, KenLM's query with a binary model made beforehand, its making not counted",
        sum(mb),
    )
    print("   ", extra)


def main() -> None:
    """Read the command line and compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("corpus", nargs="+", help="JSON lines with a field `text`")
    parser.add_argument(
        "--programs", default=os.environ.get("PATH"), help="folder of lmplz (default: PATH)"
    )
    parser.add_argument("--order", type=int, default=3)
    parser.add_argument(
        "--megabytes", type=float, default=52.0, help="MB of text in both halves (default: 52)"
    )
    args = parser.parse_args()
    found = {name: shutil.which(name, path=args.programs) for name in ("lmplz", "build_binary")}
    programs = {name: path for name, path in found.items() if path}
    if missing := sorted(found.keys() - programs.keys()):
        parser.error(f"{' and '.join(missing)} not found; build KenLM and set --programs FOLDER")
    with tempfile.TemporaryDirectory() as folder:
        compare(sentences(args.corpus, args.megabytes), args.order, programs, Path(folder))


if __name__ == "__main__":
    main()
