"""A recipe's results as tables.

What: the table of means with marks, the comparisons in words, what went with the scores, what was
learned from, how models were adapted, and what it cost.
Why: a mean is read rightly only beside what it is made of.
Trade-off: notes are the same whatever the table is written as, so they name no markup.
Reference: TADPOLE, Table 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from corpusfit.evaluate.correlation import Within
from corpusfit.evaluate.significance import LEVEL, Correlation, mark
from corpusfit.evaluate.tables import Cell, Mark, Score, Table, with_best
from corpusfit.pipeline.recipes.config import BASE, Recipe
from corpusfit.pipeline.recipes.correlation import Correlations
from corpusfit.pipeline.recipes.costs import Costs
from corpusfit.pipeline.recipes.nodes import RecipeInputs
from corpusfit.pipeline.recipes.results import Judged, Result

_LONGEST = 200


def tables_of(
    inputs: RecipeInputs,
    judged: Judged,
    links: Correlations,
    costs: Costs,
    adapted: Sequence[Mapping[str, Any]],
) -> list[Table]:
    """The tables as they are printed.

    Args:
        inputs: what the steps were made of.
        judged: every figure.
        links: what was known beforehand.
        costs: what steps took.
        adapted: what is known of each adapted model.
    """
    recipe = inputs.recipe
    found = [main_table(recipe, judged)]
    if judged.pairs:
        found.append(_comparisons(recipe, judged))
    if links.links:
        found.append(_forecasts(recipe, links))
    found.append(data_table(inputs, judged))
    if adapted:
        found.append(adapted_table(adapted))
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
    unlike = dict.fromkeys(p.column for p in judged.pairs if not p.alike)
    if unlike:
        notes.append(
            f"{', '.join(unlike)}: held against {recipe.compare} that was fine-tuned in another "
            "way, with another adapter or none, so the difference is of that too."
        )
    if judged.gains:
        notes.append(
            f"Average gain over {recipe.compare}: of the mean over tasks, ± its standard deviation "
            "over seeds."
        )
    if recipe.adaptations < recipe.seeds and any(s.name != BASE for s in recipe.selectors):
        models = (
            f"{recipe.adaptations} adapted models"
            if recipe.adaptations > 1
            else "one adapted model"
        )
        notes.append(
            f"The {recipe.seeds} seeds of a cell fine-tune {models}, so they are not independent: "
            "the deviation and the tests say too little of how adaptations differ."
        )
    if judged.failed:
        notes.append(
            "Options that an error names are settings of the recipe: --rate is rate in "
            "[adapt.train] or [evaluate.tune], and so on; see the folder failures."
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


def _forecasts(recipe: Recipe, links: Correlations) -> Table:
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
        f"The fall of the loss and the gain: {_together(links.loss, links.pooled_loss)}",
        f"The KL reduction and the gain: {_together(links.kl, links.pooled_kl)}",
    )
    return Table("What was known beforehand", columns, rows, notes)


def _together(within: Within | None, pooled: Correlation | None) -> str:
    """Correlations in words."""
    if within is None:
        words = "within tasks nothing can be said, of so few or so alike"
    else:
        words = (
            f"within tasks Pearson's r = {within.pearson:.2f} (p = {within.p:.3f}, "
            f"{within.n} cells of {within.groups} rows)"
        )
    if pooled is not None:
        words += f"; over all, whose tasks differ in both, r = {pooled.pearson:.2f}"
    return f"{words}."


def data_table(inputs: RecipeInputs, judged: Judged) -> Table:
    """What each row was learned from and judged on."""
    rows: list[tuple[Cell, ...]] = []
    for row in dict.fromkeys(r.cell.row for r in judged.results):
        task = inputs.tasks[row[:2]]
        cut = [r.truncated for r in judged.results if r.cell.row == row and r.truncated]
        most = max((found.get("test", 0) for found in cut), default=None)
        name = _row_name(inputs.recipe, row)
        rows.append((name, task.examples, *task.splits, task.copies, most))
    columns = ("dataset", "train", "dev", "test", "test texts in train", "test texts cut off")
    notes = ["Examples of each split; cut off: longer than the model takes."]
    fewer = [
        f"{task.name} ({task.examples:,} of {size:,})"
        for (_, size), task in inputs.tasks.items()
        if task.examples < size
    ]
    if fewer:
        notes.append(f"Fewer training examples than the row asks for: {', '.join(fewer)}.")
    return Table("Data", columns, tuple(rows), tuple(notes))


def adapted_table(adapted: Sequence[Mapping[str, Any]]) -> Table:
    """How each adapted model was trained, and what of dev and test was kept out of its text."""
    rows: list[tuple[Cell, ...]] = []
    for found in adapted:
        guard, training = found["guard"], found["training"]
        own = [guard[role] for role in ("data", "replay") if role in guard] if guard else []
        left_out = sum(counts["holders"] for counts in own) if guard else None
        steps = training["steps"], training["batch"], training["length"], found["tokens"]
        rows.append((found["label"], *steps, left_out, found["device"], found["precision"]))
    columns = ("adapted", "steps", "batch", "length", "tokens", "left out", "device", "precision")
    notes = [
        "Tokens: of the text there was to train on. Left out: its texts that hold a dev or test "
        "text of the task, or, of a model for all tasks, of any."
    ]
    amounts = dict.fromkeys(
        tuple(found["training"][name] for name in ("steps", "batch", "length")) for found in adapted
    )
    if len(amounts) > 1:
        notes.append("Not all models were trained alike: steps, batch or length differ.")
    return Table("Adapted models", columns, tuple(rows), tuple(notes))


def _costs(recipe: Recipe, costs: Costs) -> Table:
    """What each column took."""
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            column,
            *(round(s) for s in (cost.select_s, cost.adapt_s, cost.tune_s, cost.look_s)),
            round(cost.cpu_s),
            cost.watt_hours,
        )
        for column, cost in costs.columns.items()
    )
    times = ("select s", "adapt s", "fine-tune s", "forecast s", "core s")
    notes = [
        f"Energy is an estimate: {recipe.watts:g} W for each busy core, and on a GPU "
        f"{recipe.gpu_watts:g} W while a model is trained; without memory, cooling, what stopped "
        "attempts took, and on Ray the cores that selected (Strubell et al. 2019; Lacoste et al. "
        "2019). A step that several columns share is in each of them, and once in all steps."
    ]
    if costs.unrecorded:
        notes.append(f"{costs.unrecorded} finished steps have no record and count as nothing.")
    for name, found in costs.differing.items():
        notes.append(f"Steps were made with different {name}: {', '.join(found)}.")
    return Table("Cost", ("column", *times, "Wh (estimate)"), rows, tuple(notes))
