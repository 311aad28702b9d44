"""Which selections raise the score? A study with power that grows over days and machines.

For each setting, task, column (a method) and seed (a third of the corpus, the target's texts and
the training): equally many words are selected, a model is adapted, and measured on a ladder from
cheap to costly: bits of the selection and a score. Every finished rung is stored at once,
so the command resumes after any stop, and a later run, on any machine, adds what is missing. The
order is such that what is finished is a balanced table: all columns of a task before the next task,
all tasks before the next seed.

Run: .venv/bin/python benchmarks/score.py DATA MODELS WORK [--cells FOLDER] [--settings …]
     [--tasks …] [--columns random,cynical,…] [--seeds 3] [--rungs …] [--again COLUMN,…]
or benchmarks/score.py --table [--cells FOLDER] [--out FOLDER], which writes score_bleu.md from the
cells. What word vectors know of a selection is benchmarks/score_study.py.
DATA has pile/, tasks/, ner/ and parallel/; MODELS has bert-mini-wiki; WORK keeps corpora,
selections and models. A column is a method's name, with settings after @ and the share of general
text after +, such as cynical@method.rounds=80+0.25. --again selects again what other commits
selected: where the text is the same, nothing else is computed again.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Iterator
from pathlib import Path

from corpusfit.core.errors import CorpusfitError
from harness import machine
from score_cells import (
    BASE,
    RANDOM,
    SETTINGS,
    TASKS,
    Cells,
    Pairs,
    Piece,
    Pile,
    Study,
    pieces_of,
)

HERE = Path(__file__).parent
COLUMNS = f"{BASE},{RANDOM},cynical,cynical+0.25,moore_lewis,dsir,bm25,consensus".split(",")
EARLIER = "auto"
"""The default method of before: the tables have its cells, and no more are made."""
RUNGS = ("select", "adapt", "probe", "bleu")


def main() -> None:
    """Compute what is missing, and write after every piece."""
    asked = arguments()
    cells = Cells(asked.cells)
    if asked.table:
        from score_tables import write

        write(cells, asked.out, list(pieces(asked)))
        return
    pile = Pile(asked.data, asked.models, asked.work, 0)
    pairs = Pairs(asked.data, asked.models, asked.work / "pairs", 0)
    study = Study(pile, pairs, asked.models, cells)
    commit = machine()["commit"]
    failed: set[tuple[str, ...]] = set()
    for piece in pieces(asked):
        cell = (piece.setting, piece.task, piece.column, str(piece.seed))
        if cell in failed:
            continue
        record = study.found(piece)
        old = record is not None and record["made"]["commit"] != commit
        if record and not (piece.rung == "select" and piece.column in asked.again and old):
            continue
        try:
            made = study.compute(piece)
        except (CorpusfitError, ValueError, RuntimeError, OSError) as e:
            failed.add(cell)  # the others go on; a later run tries it again
            print("failed", *cell, piece.rung, type(e).__name__, e, flush=True)
            continue
        spent = f"{made['seconds']:.0f} s ({made['cpu_seconds']:.0f} s of a core)"
        print(time.strftime("%m-%d %H:%M"), *cell, piece.rung, spent, flush=True)


def pieces(asked: argparse.Namespace) -> Iterator[Piece]:
    """What the study is made of, in the order of computing."""
    for seed, setting in itertools.product(range(asked.seeds), asked.settings):
        known = SETTINGS[setting]
        own = [r for r in RUNGS if r in asked.rungs and r in ("select", "adapt", *known.rungs)]
        for task in asked.tasks:
            if TASKS[task].kind in known.kinds:
                yield from pieces_of(setting, task, asked.columns, seed, own)


def arguments() -> argparse.Namespace:
    """The command line's arguments."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    folders = {"nargs": "?", "type": lambda given: Path(given).resolve()}
    for name in ("data", "models", "work"):
        parser.add_argument(name, **folders)
    listed = {"type": lambda given: given.split(",")}
    parser.add_argument("--cells", type=Path, default=HERE / "results" / "score")
    parser.add_argument("--out", type=Path, default=HERE)
    parser.add_argument("--settings", **listed, default=list(SETTINGS))
    parser.add_argument("--tasks", **listed, default=list(TASKS))
    parser.add_argument("--columns", **listed, default=None)
    parser.add_argument("--rungs", **listed, default=list(RUNGS))
    parser.add_argument("--again", **listed, default=[])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--table", action="store_true")
    asked = parser.parse_args()
    if asked.columns is None:
        asked.columns = [*COLUMNS[:2], EARLIER, *COLUMNS[2:]] if asked.table else COLUMNS
    known = {"settings": SETTINGS, "tasks": TASKS, "rungs": RUNGS}
    for name, allowed in known.items():
        if wrong := set(getattr(asked, name)) - set(allowed):
            parser.error(f"--{name} must name some of {', '.join(allowed)}; got {', '.join(wrong)}")
    if asked.work is None and not asked.table:
        parser.error("DATA, MODELS and WORK are required, unless --table is given")
    return asked


if __name__ == "__main__":
    main()
