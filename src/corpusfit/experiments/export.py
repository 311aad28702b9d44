"""Writes a recipe's results as Markdown, LaTeX, CSV and JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from corpusfit.core.artifacts import write_bytes
from corpusfit.evaluation.tables import Cell, Table, csv, latex, markdown, plain
from corpusfit.experiments.costs import Cost
from corpusfit.experiments.results import ScoredCells


def all_cells(scored: ScoredCells, costs: Sequence[Cost]) -> Table:
    """One row per cell with every figure and its cost, for programs."""
    pairs_by_cell = {(p.row, p.column): p for p in scored.pairs if not p.named}
    keys = [f.name for f in dataclasses.fields(scored.results[0].cell)]
    figures = ("mean", "sd", "low", "high", "dev")
    metrics = tuple(dict.fromkeys(m for r in scored.results for m in r.metrics))
    columns = (*keys, "column", "metric", *figures, *metrics, "scores", "gain", "p", "verdict")
    cost_names = [f.name for f in dataclasses.fields(Cost)]
    rows: list[tuple[Cell, ...]] = []
    for r, cost in zip(scored.results, costs, strict=True):
        pair = pairs_by_cell.get((r.cell.row, r.column))
        gain = (pair.comparison.difference, pair.adjusted, pair.verdict) if pair else (None,) * 3
        rows.append(
            (
                *(getattr(r.cell, key) for key in keys),
                r.column,
                r.metric,
                *(getattr(r, figure) for figure in figures),
                *(r.metrics.get(m) for m in metrics),
                " ".join(map(repr, r.scores)),
                *gain,
                *(getattr(cost, name) for name in cost_names),
                r.error,
            )
        )
    return Table("cells", (*columns, *cost_names, "error"), tuple(rows))


def write_tables(out: Path, tables: Sequence[Table], cells: Table, facts: dict[str, Any]) -> None:
    """Write `table.md`, `table.tex`, `table.csv` (one line per cell) and `table.json`."""
    printed = [{**dataclasses.asdict(table), "rows": plain(table)} for table in tables]
    everything = {**facts, "tables": printed}
    for name, text in (
        ("table.md", "\n".join(map(markdown, tables))),
        ("table.tex", "\n".join(map(latex, tables))),
        ("table.csv", csv(cells)),
        ("table.json", json.dumps(everything, indent=1, ensure_ascii=False)),
    ):
        write_bytes(out / name, text.encode(errors="backslashreplace"))
