"""The files that a recipe's results are written to.

What: the tables as Markdown and LaTeX, every cell as a line of CSV, everything as JSON.
Why: a paper wants LaTeX, a page Markdown, a notebook JSON, and all must say the same.
Trade-off: the CSV is one line for each cell with every figure, not the table as it is printed.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from corpusfit.artifacts import write_bytes
from corpusfit.evaluate.plan import METRICS
from corpusfit.evaluate.tables import Cell, Table, csv, latex, markdown, plain
from corpusfit.pipeline.recipes.costs import Cost, Costs
from corpusfit.pipeline.recipes.results import Judged


def all_cells(judged: Judged, costs: Sequence[Cost]) -> Table:
    """One row for each cell with every figure and what it cost, for programs."""
    against = {(p.row, p.column): p for p in judged.pairs if not p.named}
    keys = [f.name for f in dataclasses.fields(judged.results[0].cell)]
    figures = ("mean", "sd", "low", "high", "dev")
    columns = (*keys, "column", "metric", *figures, *METRICS, "scores", "gain", "p", "verdict")
    took = [f.name for f in dataclasses.fields(Cost)]
    rows: list[tuple[Cell, ...]] = []
    for r, cost in zip(judged.results, costs, strict=True):
        pair = against.get((r.cell.row, r.column))
        gain = (pair.comparison.difference, pair.adjusted, pair.verdict) if pair else (None,) * 3
        rows.append(
            (
                *(getattr(r.cell, key) for key in keys),
                r.column,
                r.metric,
                *(getattr(r, figure) for figure in figures),
                *(r.metrics.get(m) for m in METRICS),
                " ".join(map(repr, r.scores)),
                *gain,
                *(getattr(cost, name) for name in took),
                r.error,
            )
        )
    return Table("cells", (*columns, *took, "error"), tuple(rows))


def write_tables(
    out: Path, tables: Sequence[Table], judged: Judged, costs: Costs, facts: dict[str, Any]
) -> None:
    """Write `table.md`, `table.tex`, `table.csv` and `table.json`.

    Args:
        out: the folder.
        tables: as they are printed.
        judged: every figure.
        costs: what steps took.
        facts: what else the JSON says.
    """
    printed = [{**dataclasses.asdict(table), "rows": plain(table)} for table in tables]
    everything = {**facts, **dataclasses.asdict(judged), "tables": printed}
    for name, text in (
        ("table.md", "\n".join(map(markdown, tables))),
        ("table.tex", "\n".join(map(latex, tables))),
        ("table.csv", csv(all_cells(judged, costs.cells))),
        ("table.json", json.dumps(everything, indent=1, ensure_ascii=False)),
    ):
        write_bytes(out / name, text.encode(errors="backslashreplace"))
