"""A recipe's results as tables with titles, headings and notes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from corpusfit.contracts import write_bytes
from corpusfit.evaluation.points import POINTS, Mark, cell
from corpusfit.evaluation.significance import LEVEL, mark
from corpusfit_papers.experiments.config import BASE, Recipe
from corpusfit_papers.experiments.costs import Cost, Costs
from corpusfit_papers.experiments.inputs import RecipeInputs
from corpusfit_papers.experiments.rendering import (
    Cell,
    Score,
    Table,
    csv,
    latex,
    markdown,
    plain,
    with_best,
)
from corpusfit_papers.experiments.scoring import Result, ScoredCells

_MAX_CHARACTERS = 200


def tables_of(
    inputs: RecipeInputs,
    scored: ScoredCells,
    costs: Costs,
    adapted: Sequence[Mapping[str, Any]],
) -> list[Table]:
    """The tables that are printed."""
    recipe = inputs.recipe
    tables = [main_table(recipe, scored)]
    if scored.augmented:
        tables.append(augmented_table(recipe, scored))
    if scored.pairs:
        tables.append(_comparisons(recipe, scored))
    tables.append(data_table(inputs, scored))
    if adapted:
        tables.append(adapted_table(adapted))
    return [*tables, _costs(recipe, costs)]


def main_table(recipe: Recipe, scored: ScoredCells) -> Table:
    """Tasks in rows, selectors in columns; mean test scores in points (TADPOLE, Table 3)."""
    columns = list(dict.fromkeys(r.column for r in scored.results))
    marks = {(p.row, p.column): mark(p.comparison, p.adjusted) for p in scored.pairs if not p.named}
    cells = {(r.cell.row, r.column): r for r in scored.results}
    rows: list[tuple[Cell, ...]] = []
    for row in dict.fromkeys(r.cell.row for r in scored.results):
        keys = [(row, column) for column in columns]
        shown = [_cell_text(cells.get(key), marks.get(key, "")) for key in keys]
        first = next(r for r in scored.results if r.cell.row == row)
        metric = first.metric if first.unit == POINTS else first.metric.removeprefix("neg_")
        rows.append((row_name(recipe, row), metric, *shown))
        other_metrics = dict.fromkeys(
            m for r in scored.results if r.cell.row == row for m in r.beside
        )
        rows += [
            (row_name(recipe, row), other, *(_other(cells.get(key), other) for key in keys))
            for other in other_metrics
        ]
    for size in dict.fromkeys(g.size for g in scored.gains):
        gains = {g.column: Score(g.mean, g.sd) for g in scored.gains if g.size == size}
        name = "average gain" if size is None else f"average gain, {_examples(size)}"
        rows.append((name, None, *(gains.get(column) for column in columns)))
    table = Table(recipe.name, ("dataset", "metric", *columns), tuple(rows), _notes(recipe, scored))
    return with_best(table, "row")


def augmented_table(recipe: Recipe, scored: ScoredCells) -> Table:
    """Means over augmentations (TADPOLE, Table 3, Data-Aug)."""
    units = {r.cell.row: r.unit for r in scored.results}
    rows: list[tuple[Cell, ...]] = [
        (
            row_name(recipe, mean.row),
            mean.column,
            " and ".join(mean.kinds),
            Score(mean.mean, mean.sd, unit=units[mean.row]),
            _gain(mean.gain, units[mean.row]),
        )
        for mean in scored.augmented
    ]
    columns = ("dataset", "column", "augmentations", "mean", "gain")
    note = (
        "Points: means over the augmentations, then mean ± standard deviation over seeds. Gain: "
        "over the same column without augmentation."
    )
    notes = (note, *_in_other_units(recipe, scored))
    return Table("Mean of the augmentations", columns, tuple(rows), notes)


def _gain(gain: tuple[float, float | None] | None, unit: str) -> Cell:
    """A gain; that of an error is positive where the error falls, as in a verdict."""
    if gain is None:
        return None
    mean, sd = gain
    return Score(mean if unit == POINTS else -mean, sd, unit=unit)


def _in_other_units(recipe: Recipe, scored: ScoredCells) -> list[str]:
    """A note on the rows that are not in points, if any."""
    errors = {row_name(recipe, r.cell.row): r.unit for r in scored.results if r.unit != POINTS}
    if not errors:
        return []
    listed = "; ".join(f"{name}: {unit}" for name, unit in errors.items())
    return [f"Not in points, lower is better, in no average: {listed}."]


def _other(result: Result | None, metric: str) -> Cell:
    """The score of a metric that is shown in addition to the one that is compared."""
    value = None if result is None else result.metrics.get(metric)
    return None if value is None else Score(value)


def _notes(recipe: Recipe, scored: ScoredCells) -> tuple[str, ...]:
    """Notes for readers of the main table."""
    tested = sum(not p.named for p in scored.pairs)
    by_row = {row_name(recipe, r.cell.row): len(r.scores) for r in scored.results if not r.error}
    number = max(by_row.values(), default=recipe.seeds)
    seeds = f"{number} seeds" if number > 1 else "1 seed"
    models = (
        f"{recipe.adaptations} adapted models" if recipe.adaptations > 1 else "one adapted model"
    )
    # where no model is trained on a task's examples, a seed is an adapted model
    untrained = [name for name, of in by_row.items() if of < number]
    if untrained:
        seeds += f" (of {', '.join(untrained)}: over {models})"
    notes = [
        f"Test scores in points (higher is better), mean ± standard deviation over {seeds}.",
        *_in_other_units(recipe, scored),
    ]
    if tested:
        notes.append(
            f"* better and † worse than {recipe.compare} (p < {LEVEL} over seeds and over "
            f"examples, after Holm's correction for {tested} comparisons). No mark: no difference "
            "shown."
        )
    unlike = dict.fromkeys(p.column for p in scored.pairs if not p.alike)
    if unlike:
        notes.append(
            f"{', '.join(unlike)}: compared with a {recipe.compare} that trains other weights "
            "(all, or another adapter) or has another augmentation, so the difference includes "
            "that effect."
        )
    if scored.gains:
        notes.append(
            f"Average gain: mean over tasks of the difference from {recipe.compare}, ± its "
            "standard deviation over seeds."
        )
    if recipe.adaptations < number and any(s.strategy != BASE for s in recipe.selectors):
        notes.append(
            f"The {number} seeds of a cell fine-tune {models}, so they are not independent: "
            "the deviation and the tests underestimate the variation between adaptations."
        )
    constants = dict.fromkeys(
        f"{row_name(recipe, r.cell.row)} {cell(r.constant, None, r.unit)}"
        for r in scored.results
        if r.constant is not None
    )
    if constants:
        scores = "; ".join(constants)
        notes.append(f"The most frequent class as the answer to every test text: {scores}.")
    one_answer = [
        f"{r.one_answer} of {r.column} on {row_name(recipe, r.cell.row)}"
        for r in scored.results
        if r.one_answer
    ]
    if one_answer:
        notes.append(
            "Fine-tunings and prompts that give one answer to every test text, which need more "
            f"epochs, another rate or more examples: {'; '.join(one_answer)}."
        )
    notes += [f"{metric}: {signature}." for metric, signature in scored.signatures.items()]
    if scored.failed:
        notes.append("The folder failures has the full errors.")
    return tuple(notes)


def row_name(recipe: Recipe, row: tuple[str, int, str]) -> str:
    """A row's name: task, with size and model where a recipe has several."""
    task, size, model = row
    parts = [task]
    if recipe.train_sizes:
        parts.append(_examples(size))
    if len(recipe.models) > 1:
        parts.append(Path(model).name)
    return ", ".join(parts)


def _examples(size: int) -> str:
    return f"{size:,} examples" if size else "all examples"


def _cell_text(result: Result | None, shown: Mark) -> Cell:
    if result is None:
        return None
    if result.mean is None:
        return f"failed: {result.error[:_MAX_CHARACTERS]}"
    return Score(result.mean, result.sd, shown, unit=result.unit)


def _comparisons(recipe: Recipe, scored: ScoredCells) -> Table:
    rows: list[tuple[Cell, ...]] = []
    units = list(dict.fromkeys(pair.unit for pair in scored.pairs))
    for pair in scored.pairs:
        c = pair.comparison
        scale, digits = (100, 1) if pair.unit == POINTS else (1, 4)
        interval = f"{scale * c.low:+.{digits}f} to {scale * c.high:+.{digits}f}"
        interval += f" {pair.unit}" * (len(units) > 1)
        name = row_name(recipe, pair.row)
        figures = (interval, c.p_seeds, c.p_items)
        rows.append((name, pair.column, pair.base, *figures, pair.verdict))
    columns = (
        "dataset",
        "column",
        "compared with",
        f"95 % interval{f', {units[0]}' * (len(units) == 1)}",
        "p (seeds)",
        "p (examples)",
        "verdict",
    )
    notes = (
        "The verdict uses the larger p after Holm's correction. Comparisons with "
        f"{recipe.compare} are corrected together, and so are those of the recipe's pairs.",
    )
    return Table("Comparisons", columns, tuple(rows), notes)


def data_table(inputs: RecipeInputs, scored: ScoredCells) -> Table:
    """Training, dev and test examples of each row."""
    rows: list[tuple[Cell, ...]] = []
    for row in dict.fromkeys(r.cell.row for r in scored.results):
        task = inputs.tasks[row[:2]]
        counts = [r.truncated for r in scored.results if r.cell.row == row and r.truncated]
        truncated = max((counts_of.get("test", 0) for counts_of in counts), default=None)
        name = row_name(inputs.recipe, row)
        rows.append((name, task.examples, *task.splits, task.copies, truncated))
    columns = ("dataset", "train", "dev", "test", "test texts in train", "truncated test texts")
    notes = ["Numbers of examples. Truncated: longer than the maximum length of the model."]
    fewer = [
        f"{task.name} ({task.examples:,} of {size:,})"
        for (_, size), task in inputs.tasks.items()
        if task.examples < size
    ]
    if fewer:
        notes.append(
            f"Tasks with fewer training examples than the recipe asks for: {', '.join(fewer)}."
        )
    if inputs.recipe.search is not None and inputs.found:
        settings = "; ".join(
            f"{name}: {', '.join(f'{k} {v}' for k, v in best.items())}"
            for (name, _), best in inputs.found.items()
        )
        notes.append(
            f"Fine-tuning settings found on dev with {inputs.recipe.search.selector}: {settings}."
        )
    return Table("Data", columns, tuple(rows), tuple(notes))


def adapted_table(adapted: Sequence[Mapping[str, Any]]) -> Table:
    """How each adapted model was trained, and how many contaminated texts were left out."""
    rows: list[tuple[Cell, ...]] = []
    for model in adapted:
        guard = model["guard"]
        training = model["training"]
        left_out = None
        if guard:
            left_out = sum(guard[r]["holders"] for r in ("data", "replay") if r in guard)
        amounts = (*_amounts(training), model["tokens"])
        rows.append((model["label"], *amounts, left_out, model["device"], model["precision"]))
    columns = ("adapted", "steps", "batch", "length", "tokens", "left out", "device", "precision")
    notes = [
        "Tokens: of the text to train on. Left out: texts that contain a dev or test text of the "
        "task; for a model of all tasks, of any task."
    ]
    if len({_amounts(model["training"]) for model in adapted}) > 1:
        notes.append("The models differ in their training: steps, batch or length.")
    return Table("Adapted models", columns, tuple(rows), tuple(notes))


def _amounts(training: Mapping[str, Any]) -> tuple[int, int, int]:
    """Steps, batch and length."""
    return training["max_steps"], training["batch"], training["length"]


def _costs(recipe: Recipe, costs: Costs) -> Table:
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            column,
            round(cost.select_s),
            round(cost.adapt_s),
            round(cost.tune_s),
            round(cost.cpu_s),
            cost.watt_hours,
        )
        for column, cost in costs.columns.items()
    )
    times = ("select, s", "adapt, s", "fine-tune, s", "processor, s")
    notes = [
        f"Energy is an estimate: {recipe.watts:g} W per busy core, and {recipe.gpu_watts:g} W "
        "while a GPU trains a model. It leaves out memory, cooling, stopped attempts and, on Ray, "
        "the cores of the selections (Strubell et al. 2019; Lacoste et al. 2019). A step that "
        "several columns share counts in each of them, and once in all steps."
    ]
    if costs.unrecorded:
        notes.append(f"{costs.unrecorded} finished steps have no record and count as zero.")
    for name, versions in costs.differing.items():
        notes.append(f"Steps ran with different versions of {name}: {', '.join(versions)}.")
    return Table("Cost", ("column", *times, "energy, Wh"), rows, tuple(notes))


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
