"""A recipe's results as tables with titles, headings and notes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from corpusfit.evaluation.significance import LEVEL, Correlation, Within, mark
from corpusfit.evaluation.tables import Cell, Mark, Score, Table, with_best
from corpusfit.experiments.config import Recipe
from corpusfit.experiments.correlation import EQUAL, Correlations
from corpusfit.experiments.costs import Costs
from corpusfit.experiments.entries import BASE
from corpusfit.experiments.nodes import RecipeInputs
from corpusfit.experiments.results import Result, ScoredCells

_LONGEST = 200


def tables_of(
    inputs: RecipeInputs,
    scored: ScoredCells,
    correlations: Correlations,
    costs: Costs,
    adapted: Sequence[Mapping[str, Any]],
) -> list[Table]:
    """The tables that are printed."""
    recipe = inputs.recipe
    found = [main_table(recipe, scored)]
    if scored.augmented:
        found.append(augmented_table(recipe, scored))
    if scored.pairs:
        found.append(_comparisons(recipe, scored))
    if correlations.links:
        found.append(_predictors(recipe, correlations))
    found.append(data_table(inputs, scored))
    if adapted:
        found.append(adapted_table(adapted))
    return [*found, _costs(recipe, costs)]


def main_table(recipe: Recipe, scored: ScoredCells) -> Table:
    """Tasks in rows, selectors in columns; mean test scores in points (TADPOLE, Table 3)."""
    columns = list(dict.fromkeys(r.column for r in scored.results))
    marks = {(p.row, p.column): mark(p.comparison, p.adjusted) for p in scored.pairs if not p.named}
    cells = {(r.cell.row, r.column): r for r in scored.results}
    rows: list[tuple[Cell, ...]] = []
    for row in dict.fromkeys(r.cell.row for r in scored.results):
        own = [(row, column) for column in columns]
        shown = [_cell_text(cells.get(key), marks.get(key, "")) for key in own]
        metric = next(r.metric for r in scored.results if r.cell.row == row)
        rows.append((row_name(recipe, row), metric, *shown))
        beside = dict.fromkeys(m for r in scored.results if r.cell.row == row for m in r.beside)
        rows += [
            (row_name(recipe, row), other, *(_other(cells.get(key), other) for key in own))
            for other in beside
        ]
    for size in dict.fromkeys(g.size for g in scored.gains):
        gains = {g.column: Score(g.mean, g.sd) for g in scored.gains if g.size == size}
        name = "average gain" if size is None else f"average gain, {_examples(size)}"
        rows.append((name, None, *(gains.get(column) for column in columns)))
    table = Table(recipe.name, ("dataset", "metric", *columns), tuple(rows), _notes(recipe, scored))
    return with_best(table, "row")


def augmented_table(recipe: Recipe, scored: ScoredCells) -> Table:
    """Means over augmentations (TADPOLE, Table 3, Data-Aug)."""
    rows: list[tuple[Cell, ...]] = [
        (
            row_name(recipe, of.row),
            of.column,
            " and ".join(of.kinds),
            Score(of.mean, of.sd),
            None if of.gain is None else Score(*of.gain),
        )
        for of in scored.augmented
    ]
    columns = ("dataset", "column", "augmentations", "mean", "gain")
    note = (
        "Points: means over the augmentations, then mean ± standard deviation over seeds. Gain: "
        "over the same column without augmentation."
    )
    return Table("Mean of the augmentations", columns, tuple(rows), (note,))


def _other(result: Result | None, metric: str) -> Cell:
    """A cell of a metric that is shown beside the one that is compared."""
    found = None if result is None else result.metrics.get(metric)
    return None if found is None else Score(found)


def _notes(recipe: Recipe, scored: ScoredCells) -> tuple[str, ...]:
    """Notes for readers of the main table."""
    tested = sum(not p.named for p in scored.pairs)
    number = recipe.adaptations if _answered(scored) else recipe.seeds
    seeds = f"{number} seeds" if number > 1 else "1 seed"
    notes = [f"Test scores in points (higher is better), mean ± standard deviation over {seeds}."]
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
        models = (
            f"{recipe.adaptations} adapted models"
            if recipe.adaptations > 1
            else "one adapted model"
        )
        notes.append(
            f"The {number} seeds of a cell fine-tune {models}, so they are not independent: "
            "the deviation and the tests underestimate the variation between adaptations."
        )
    constants = {
        r.cell.task: f"{r.cell.task} {100 * r.constant:.2f}"
        for r in scored.results
        if r.constant is not None
    }
    if constants:
        scores = ", ".join(constants.values())
        notes.append(f"The most frequent class as the answer to every test text: {scores}.")
    alike = [
        f"{r.one_answer} of {r.column} on {r.cell.task}" for r in scored.results if r.one_answer
    ]
    if alike:
        notes.append(
            "Fine-tunings and prompts that give one answer to every test text, which need more "
            f"epochs, another rate or more examples: {', '.join(alike)}."
        )
    notes += [f"{metric}: {signature}." for metric, signature in scored.signatures.items()]
    if scored.failed:
        notes.append("The folder failures has the full errors.")
    return tuple(notes)


def _answered(scored: ScoredCells) -> bool:
    """Whether all tasks are of kinds that train no model, so that a seed is an adapted model."""
    results = [r for r in scored.results if not r.error]
    return bool(results) and all(r.beside for r in results)


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
        return f"failed: {result.error[:_LONGEST]}"
    return Score(result.mean, result.sd, shown)


def _comparisons(recipe: Recipe, scored: ScoredCells) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for pair in scored.pairs:
        c = pair.comparison
        interval = f"{100 * c.low:+.1f} to {100 * c.high:+.1f}"
        name = row_name(recipe, pair.row)
        figures = (interval, c.p_seeds, c.p_items)
        rows.append((name, pair.column, pair.base, *figures, pair.verdict))
    columns = (
        *("dataset", "column", "compared with", "95 % interval, points"),
        *("p (seeds)", "p (examples)", "verdict"),
    )
    notes = (
        "The verdict uses the larger p after Holm's correction. Comparisons with "
        f"{recipe.compare} are corrected together, and so are those of the recipe's pairs.",
    )
    return Table("Comparisons", columns, tuple(rows), notes)


def _predictors(recipe: Recipe, correlations: Correlations) -> Table:
    """Predictors and gain of each adapted model."""
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            row_name(recipe, row.row),
            row.column,
            None if row.kl is None else f"{row.kl:+.3f}",
            f"{row.loss:.3f}",
            f"{row.falls:+.3f}",
            f"{100 * row.gain:+.2f}",
        )
        for row in correlations.links
    )
    columns = ("dataset", "column", "KL reduction", "loss", "loss reduction", "gain")
    notes = (
        "KL reduction: divergence of the task's n-grams from the corpus minus that from the "
        "selection, in nats (higher is nearer to the task), at the size of the smallest of a row's "
        "selections: the same selection has another value in a table of other columns. Loss: of "
        "the adapted model on the task's training texts, in nats per token (lower is better). Loss "
        f"reduction: loss of the base minus this loss. Gain: over {BASE}, in points (higher is "
        "better).",
        "Loss reduction and gain: "
        f"{_correlation_text(correlations.loss, correlations.pooled_loss)}",
        *_equal_text(correlations),
        f"KL reduction and gain: {_correlation_text(correlations.kl, correlations.pooled_kl)}",
    )
    return Table("Predictors known before fine-tuning", columns, rows, notes)


def _equal_text(correlations: Correlations) -> Iterator[str]:
    """The note on models of equal loss on general text, if there are several."""
    if correlations.equal is not None:
        text = _correlation_text(correlations.equal, None)
        yield (
            "Loss reduction and gain of models whose losses on general text are within "
            f"{EQUAL} nats of each other (TADPOLE, Figure 3): {text}"
        )


def _correlation_text(within: Within | None, pooled: Correlation | None) -> str:
    """Correlations in words."""
    if within is None:
        text = "too few cells for a correlation within tasks, or no variation"
    else:
        text = (
            f"within tasks Pearson's r = {within.pearson:.2f} (p = {within.p:.3f}, "
            f"{within.n} cells in {within.groups} row{'s' * (within.groups > 1)})"
        )
    if pooled is not None:
        text += f"; over all tasks together r = {pooled.pearson:.2f}, not tested"
    return f"{text}."


def data_table(inputs: RecipeInputs, scored: ScoredCells) -> Table:
    """Training, dev and test examples of each row."""
    rows: list[tuple[Cell, ...]] = []
    for row in dict.fromkeys(r.cell.row for r in scored.results):
        task = inputs.tasks[row[:2]]
        counts = [r.truncated for r in scored.results if r.cell.row == row and r.truncated]
        truncated = max((found.get("test", 0) for found in counts), default=None)
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
            f"{name}: {', '.join(f'{k} {v}' for k, v in found.items())}"
            for (name, _), found in inputs.found.items()
        )
        notes.append(
            f"Fine-tuning settings found on dev with {inputs.recipe.search.selector}: {settings}."
        )
    return Table("Data", columns, tuple(rows), tuple(notes))


def adapted_table(adapted: Sequence[Mapping[str, Any]]) -> Table:
    """How each adapted model was trained, and how many contaminated texts were left out."""
    rows: list[tuple[Cell, ...]] = []
    for found in adapted:
        guard, training = found["guard"], found["training"]
        own = [guard[role] for role in ("data", "replay") if role in guard] if guard else []
        left_out = sum(counts["holders"] for counts in own) if guard else None
        steps = training["steps"], training["batch"], training["length"], found["tokens"]
        rows.append((found["label"], *steps, left_out, found["device"], found["precision"]))
    columns = ("adapted", "steps", "batch", "length", "tokens", "left out", "device", "precision")
    notes = [
        "Tokens: of the text to train on. Left out: texts that contain a dev or test text of the "
        "task; for a model of all tasks, of any task."
    ]
    amounts = dict.fromkeys(
        tuple(found["training"][name] for name in ("steps", "batch", "length")) for found in adapted
    )
    if len(amounts) > 1:
        notes.append("The models differ in their training: steps, batch or length.")
    return Table("Adapted models", columns, tuple(rows), tuple(notes))


def _costs(recipe: Recipe, costs: Costs) -> Table:
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            column,
            *(round(s) for s in (cost.select_s, cost.adapt_s, cost.tune_s, cost.look_s)),
            round(cost.cpu_s),
            cost.watt_hours,
        )
        for column, cost in costs.columns.items()
    )
    times = ("select, s", "adapt, s", "fine-tune, s", "predictors, s", "processor, s")
    notes = [
        f"Energy is an estimate: {recipe.watts:g} W per busy core, and {recipe.gpu_watts:g} W "
        "while a GPU trains a model. It leaves out memory, cooling, stopped attempts and, on Ray, "
        "the cores of the selections (Strubell et al. 2019; Lacoste et al. 2019). A step that "
        "several columns share counts in each of them, and once in all steps."
    ]
    if costs.unrecorded:
        notes.append(f"{costs.unrecorded} finished steps have no record and count as zero.")
    for name, found in costs.differing.items():
        notes.append(f"Steps ran with different versions of {name}: {', '.join(found)}.")
    return Table("Cost", ("column", *times, "energy, Wh"), rows, tuple(notes))
