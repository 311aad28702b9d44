"""A recipe's results as tables, and the files that they are written to.

What: the table of means with marks, the comparisons in words, what it cost, what went with the
scores; as Markdown, LaTeX, CSV and JSON.
Why: a paper wants LaTeX, a page Markdown, a notebook JSON, and all must say the same.
Trade-off: the CSV is one line for each cell with every figure, not the table as it is printed.
Reference: TADPOLE, Table 3.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from corpusfit.artifacts import write_bytes
from corpusfit.evaluate.plan import METRICS
from corpusfit.evaluate.significance import Correlation, mark
from corpusfit.evaluate.tables import Cell, Mark, Score, Table, csv, latex, markdown, with_best
from corpusfit.pipeline.recipes.judging import Judged, Result
from corpusfit.pipeline.recipes.linking import Links
from corpusfit.pipeline.recipes.recipe import BASE, Recipe
from corpusfit.pipeline.recipes.reckoning import Cost

__all__ = ["all_cells", "main_table", "tables_of", "write_tables"]

LEVEL = 0.05
_LONGEST = 200


def tables_of(recipe: Recipe, judged: Judged, links: Links, costs: Sequence[Cost]) -> list[Table]:
    """The tables as they are printed."""
    found = [main_table(recipe, judged)]
    if judged.pairs:
        found.append(_comparisons(recipe, judged))
    if links.links:
        found.append(_forecasts(recipe, links))
    return [*found, _costs(recipe, costs)]


def main_table(recipe: Recipe, judged: Judged) -> Table:
    """Rows of tasks, columns of selectors; means over seeds in points, with deviations."""
    columns = list(dict.fromkeys(r.column for r in judged.results))
    marks = {(p.row, p.column): mark(p.comparison, p.adjusted) for p in judged.pairs if not p.named}
    cells = {(r.cell.row, r.column): r for r in judged.results}
    rows: list[tuple[Cell, ...]] = []
    for row in dict.fromkeys(r.cell.row for r in judged.results):
        own = [(row, column) for column in columns]
        shown = [_shown(cells.get(key), marks.get(key, "")) for key in own]
        metric = next(r.metric for r in judged.results if r.cell.row == row)
        rows.append((_row_name(recipe, row), metric, *shown))
    for size in dict.fromkeys(g.size for g in judged.gains):
        gains = {g.column: Score(g.mean, g.sd) for g in judged.gains if g.size == size}
        name = "average gain" if size is None else f"average gain, {_examples(size)}"
        rows.append((name, None, *(gains.get(column) for column in columns)))
    table = Table(recipe.name, ("dataset", "metric", *columns), tuple(rows), _notes(recipe, judged))
    return with_best(table, "row")


def _notes(recipe: Recipe, judged: Judged) -> tuple[str, ...]:
    """What has to be known to read the table."""
    tested = sum(not p.named for p in judged.pairs)
    seeds = f"{recipe.seeds} seeds" if recipe.seeds > 1 else "1 seed"
    notes = [f"Test scores in points, mean ± standard deviation over {seeds}."]
    if tested:
        notes.append(
            f"* better and † worse than {recipe.compare} (p < {LEVEL} over seeds and over examples "
            f"after Holm's correction for {tested} comparisons); no mark: no difference shown."
        )
    if judged.gains:
        notes.append(
            f"Average gain over {recipe.compare}: of the mean over tasks, ± its standard deviation "
            "over seeds."
        )
    if recipe.seeds > 1 and recipe.adaptations == 1 and len(recipe.selectors) > 1:
        notes.append(
            "All seeds of a cell fine-tune one adapted model, so the deviation and the tests say "
            "nothing of how adaptations differ."
        )
    return tuple(notes)


def _row_name(recipe: Recipe, row: tuple[str, int, str]) -> str:
    """Task, and what else tells rows apart."""
    task, size, model = row
    parts = [task]
    if recipe.train_sizes:
        parts.append(_examples(size))
    if len(recipe.models) > 1:
        parts.append(Path(model).name)
    return ", ".join(parts)


def _examples(size: int) -> str:
    return f"{size:,} examples" if size else "all examples"


def _shown(result: Result | None, shown: Mark) -> Cell:
    if result is None:
        return None
    if result.mean is None:
        return f"failed: {result.error[:_LONGEST]}"
    return Score(result.mean, result.sd, shown)


def _comparisons(recipe: Recipe, judged: Judged) -> Table:
    """Every comparison, in words."""
    rows: list[tuple[Cell, ...]] = []
    for pair in judged.pairs:
        c = pair.comparison
        interval = f"{100 * c.low:+.1f} to {100 * c.high:+.1f}"
        name = _row_name(recipe, pair.row)
        figures = (interval, c.p_seeds, c.p_items)
        rows.append((name, pair.column, pair.base, *figures, pair.verdict))
    columns = ("dataset", "ours", "against", "95 % interval", "p seeds", "p examples", "verdict")
    notes = (
        "The p of a verdict is the larger of both, after Holm's correction: over the whole table "
        f"for comparisons with {recipe.compare}, and over the recipe's pairs for these.",
    )
    return Table("Comparisons", columns, tuple(rows), notes)


def _forecasts(recipe: Recipe, links: Links) -> Table:
    """What was known of each adapted model, and what came of it."""
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            _row_name(recipe, link.row),
            link.column,
            None if link.kl is None else f"{link.kl:+.3f}",
            f"{link.loss:.3f}",
            f"{link.falls:+.3f}",
            f"{100 * link.gain:+.2f}",
        )
        for link in links.links
    )
    columns = ("dataset", "column", "KL reduction", "loss", "its fall", "gain")
    notes = (
        "KL reduction: of the task's n-grams, from the corpus to the selection, in nats; loss: of "
        "the adapted model on the task's training texts, in nats a token, and its fall from the "
        f"base; gain over {BASE} in points.",
        f"The fall of the loss and the gain: {_together(links.loss)}",
        f"The KL reduction and the gain: {_together(links.kl)}",
    )
    return Table("What was known beforehand", columns, rows, notes)


def _together(found: Correlation | None) -> str:
    """A correlation in words."""
    if found is None:
        return "too few to say."
    return (
        f"Pearson's r = {found.pearson:.2f} (p = {found.pearson_p:.3f}), Spearman's rho = "
        f"{found.spearman:.2f} (p = {found.spearman_p:.3f}), over {found.n} cells of all tasks."
    )


def _costs(recipe: Recipe, costs: Sequence[Cost]) -> Table:
    """What each column took."""
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            cost.column,
            *(round(s) for s in (cost.select_s, cost.adapt_s, cost.tune_s, cost.cpu_s)),
            cost.watt_hours,
        )
        for cost in costs
    )
    columns = ("column", "select s", "adapt s", "fine-tune s", "core s", "Wh (estimate)")
    notes = (
        f"Energy is an estimate: {recipe.watts:g} W for each busy core, and on a GPU "
        f"{recipe.gpu_watts:g} W while a model is trained; without memory, cooling and what "
        "stopped attempts took (Strubell et al. 2019; Lacoste et al. 2019). A step that several "
        "columns share is in each of them, and once in all steps.",
    )
    return Table("Cost", columns, rows, notes)


def all_cells(judged: Judged) -> Table:
    """One row for each cell with every figure, for programs."""
    against = {(p.row, p.column): p for p in judged.pairs if not p.named}
    keys = [f.name for f in dataclasses.fields(judged.results[0].cell)]
    figures = ("mean", "sd", "low", "high", "dev")
    columns = (*keys, "column", "metric", *figures, *METRICS, "scores", "gain", "p", "verdict")
    rows: list[tuple[Cell, ...]] = []
    for r in judged.results:
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
                r.error,
            )
        )
    return Table("cells", (*columns, "error"), tuple(rows))


def write_tables(out: Path, tables: Sequence[Table], judged: Judged, facts: dict[str, Any]) -> None:
    """Write `table.md`, `table.tex`, `table.csv` and `table.json`.

    Args:
        out: the folder.
        tables: as they are printed.
        judged: every figure.
        facts: what else the JSON says.
    """
    write_bytes(out / "table.md", "\n".join(map(markdown, tables)).encode())
    write_bytes(out / "table.tex", "\n".join(map(latex, tables)).encode())
    write_bytes(out / "table.csv", csv(all_cells(judged)).encode())
    plain = {**facts, **dataclasses.asdict(judged)}
    write_bytes(out / "table.json", json.dumps(plain, indent=1, ensure_ascii=False).encode())
