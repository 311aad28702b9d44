"""Make the papers' tables from real data, with one command.

Measures the parts of each table on a few processes and writes NAME.json and NAME.md in
papers/results; of tables of no paper, NAME.json and a part of selectors.md.
Texts are truncated and samples small, so that all tables take minutes on two cores.
`from_recipes.py` makes those that are recipes.

Run: .venv/bin/python papers/tables/run.py TASKS PILE [--only NAME,…] [--seeds 3] [--finetune]
With --keep FOLDER the same command goes on after a stop; another version needs another folder.
TASKS has TASK/{train,dev,test}.jsonl.zst (text, label), PILE has DOMAIN_*.jsonl(.zst) (text).
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import ast
import json
import multiprocessing
import re
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(1, str(Path(__file__).parents[2] / "benchmarks"))

import data
from corpusfit.core.artifacts import write_bytes
from corpusfit.core.manifest import digest
from data import ENCODERS, Setting
from harness import machine, put
from report import Report

TABLES = {
    "selectors": "Which method finds the domain",
    "rare": "Which method finds a rare domain",
    "shift": "Which method finds a domain of another style",
    "table5": "Unsupervised Domain Clusters, Table 5: pre-ranking",
    "table7": "Unsupervised Domain Clusters, Table 7: precision and recall of the selection",
    "moore_lewis": "Unsupervised Domain Clusters, appendix A.5: Moore-Lewis as published",
    "textgram": "TextGram, Algorithm 1: sentences that join once or for each bigram",
}
ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "papers" / "results"
OURS = ("selectors", "rare", "shift")
"""Tables of no paper, which are parts of one page."""


def main() -> None:
    """Encode, measure, write."""
    asked = arguments()
    s = Setting(
        *(p.resolve() for p in (asked.tasks, asked.pile, asked.parallel)),
        asked.documents,
        asked.target,
        asked.background,
        asked.seeds,
        asked.finetune,
    )
    names = asked.only.split(",") if asked.only else list(TABLES)
    work = [(name, s, p, asked.keep) for name in names for p in table_of(name).pieces(s)]
    found: dict[str, dict[Any, Any]] = {name: {} for name in names}
    left = {name: sum(n == name for n, *_ in work) for name in names}
    started = time.perf_counter()
    with multiprocessing.get_context("spawn").Pool(asked.processes) as pool:
        needed = {e for name in names for e in getattr(table_of(name), "EMBEDS", ENCODERS)}
        encoding = [(s, source, e) for e in sorted(needed) for source in data.source_files(s)]
        for source, embedder in pool.imap_unordered(encode, encoding):
            tell(started, f"{source} is encoded by {embedder}")
        for done, (name, piece, result) in enumerate(pool.imap_unordered(measure, work), 1):
            tell(started, f"{done} of {len(work)}: {name} {piece}")
            found[name][piece] = result
            left[name] -= 1
            if not left[name]:
                order = [p for n, _, p, _ in work if n == name]
                report = table_of(name).report(s, {p: found[name][p] for p in order})
                write(asked.out, name, s, report)
    for name in names:
        if not found[name]:
            tell(started, f"{name} left out: its data is missing")


def table_of(name: str) -> Any:
    """The module that makes a table: `pieces` to measure, `measure` for one, `report` for all.

    It has `EMBEDS` if it does not use the vectors of every encoder.
    """
    return import_module(f"make_{name}")


def arguments() -> argparse.Namespace:
    """The command line's arguments."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("tasks", type=Path, metavar="TASKS")
    parser.add_argument("pile", type=Path, metavar="PILE")
    parser.add_argument(
        "--parallel", type=Path, help="folder of DOMAIN/dev.en (default: beside TASKS)"
    )
    parser.add_argument(
        "--only", default="", help=f"tables to make, of {', '.join(TABLES)} (default: all)"
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--finetune", action="store_true", help="also measure domain_finetune, which is slow"
    )
    parser.add_argument(
        "--documents",
        type=int,
        default=1_500,
        help="most documents of each source (default: 1,500)",
    )
    parser.add_argument(
        "--target", type=int, default=500, help="most texts of a target (default: 500)"
    )
    parser.add_argument(
        "--background", type=int, default=10_000, help="most background documents (default: 10,000)"
    )
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="folder of measured pieces (default: none)")
    parser.add_argument(
        "--out", type=Path, default=RESULTS, help="folder of all tables (default: papers/results)"
    )
    asked = parser.parse_args()
    if wrong := set(filter(None, asked.only.split(","))) - set(TABLES):
        parser.error(f"--only must name some of {', '.join(TABLES)}; got {', '.join(wrong)}")
    if asked.parallel is None:
        asked.parallel = asked.tasks.resolve().parent / "parallel" / "koehn_knowles"
    return asked


def encode(piece: tuple[Setting, str, str]) -> tuple[str, str]:
    """Encode a source's documents, once for all tables."""
    s, source, embedder = piece
    data.vectors(data.source_texts(s, source), embedder)
    return source, embedder


def measure(work: tuple[str, Setting, Any, Path | None]) -> tuple[str, Any, Any]:
    """Measure a piece of a table, or find what was measured: plain values, written as in Python."""
    name, s, piece, keep = work
    kept = keep and keep / f"{name}-{digest([repr(s), repr(piece)])}.txt"
    if kept and kept.exists():
        return name, piece, ast.literal_eval(kept.read_text("utf-8"))
    result = table_of(name).measure(s, piece)
    if kept:
        write_bytes(kept, repr(result).encode())
    return name, piece, result


def write(out: Path, name: str, s: Setting, report: Report) -> None:
    """Write a table's figures and its text."""
    sizes = {k: getattr(s, k) for k in ("documents", "target", "background", "seeds", "finetune")}
    here = machine()
    said = {"conclusion": report.conclusion, "machine": here}
    content = {"name": name, "setting": sizes, **report.figures, **said}
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    made = f"Measured on {here['cpu']}, at commit {here['commit'][:9]}, {here['date'][:10]}."
    text = f"# {TABLES[name]}\n\n**{report.conclusion}**\n\n{report.text}\n\n{made}\n"
    if name in OURS:
        put(out / "selectors.md", re.sub(r"^#", "##", text, flags=re.M))
    else:
        (out / f"{name}.md").write_text(text, encoding="utf-8")


def tell(started: float, what: str) -> None:
    """A line of progress."""
    print(f"{time.perf_counter() - started:7.0f} s  {what}", flush=True)


if __name__ == "__main__":
    main()
