"""Scores a recipe's cells: means with intervals over seeds, significance tests, average gains."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from corpusfit.contracts import write_bytes
from corpusfit.embed.contract import file_digest
from corpusfit.evaluation.points import POINTS
from corpusfit.evaluation.significance import (
    Comparison,
    Metric,
    compare,
    holm,
    interval,
    spread,
    verdict,
)
from corpusfit.evaluation.task import Outcome, Task, load_task
from corpusfit.evaluation.tasks import load
from corpusfit_papers.experiments.config import Recipe
from corpusfit_papers.experiments.fingerprints import step
from corpusfit_papers.experiments.graph import StepGraph
from corpusfit_papers.experiments.grid import Cell, columns_of
from corpusfit_papers.experiments.inputs import RecipeInputs


@dataclass(frozen=True)
class Result:
    """The scores of a cell's fine-tunings, or its error."""

    cell: Cell
    column: str
    metric: str  # the metric that is compared
    scores: list[float] = field(default_factory=list)  # test scores by seed, in [0, 1]
    mean: float | None = None  # mean of the test scores
    sd: float | None = None  # their standard deviation; None with one seed
    low: float | None = None  # lower end of the mean's 95 % interval over seeds and examples
    high: float | None = None  # upper end of that interval
    # mean of every metric on the test split
    metrics: dict[str, float] = field(default_factory=dict)
    beside: tuple[str, ...] = ()  # metrics to show beside the one that is compared
    dev: float | None = None  # mean of the metric on the dev split; None without one
    # number of truncated examples by split, of the first seed
    truncated: dict[str, int] = field(default_factory=dict)
    one_answer: int = 0  # number of fine-tunings that give one answer to every test text
    # score of a constant answer; None where that is meaningless
    constant: float | None = None
    error: str = ""  # error of a failed cell; empty otherwise
    unit: str = POINTS  # of the scores, or of the error that they negate


@dataclass(frozen=True)
class Pair:
    """A comparison of two columns in a row."""

    row: tuple[str, int, str]  # task, training examples (0: all) and model
    column: str  # the column that is compared
    base: str  # the column that it is compared with
    # whether it is from the recipe's `pairs`; otherwise `base` is the `compare` column
    named: bool
    # whether the comparison is fair: both train the same weights (all, or the same adapter's),
    # and `base` has no augmentation that `column` lacks
    alike: bool
    comparison: Comparison  # the figures
    adjusted: float  # p after Holm's correction over all comparisons of the same kind
    verdict: str  # the result in words
    unit: str  # of the difference


@dataclass(frozen=True)
class Gain:
    """A column's average gain over the column that all are compared with."""

    column: str
    size: int | None  # training examples of the rows; None for all rows
    mean: float  # mean over the rows, in [-1, 1]
    # standard deviation over seeds (n - 1) of the mean over rows; None with one seed
    sd: float | None
    rows: int  # number of rows, all in points


@dataclass(frozen=True)
class AugmentedMean:
    """The mean over several augmentations of a column."""

    row: tuple[str, int, str]  # task, training examples (0: all) and model
    column: str  # name of the column without augmentation
    kinds: tuple[str, ...]  # the augmentations
    scores: list[float]  # means over the augmentations, by seed
    mean: float  # their mean
    sd: float | None  # their standard deviation; None with one seed
    # mean difference from the column without augmentation, with its deviation over seeds;
    # None without such a column
    gain: tuple[float, float | None] | None


@dataclass(frozen=True)
class ScoredCells:
    """A recipe's results."""

    results: list[Result]  # all cells, in the table's order
    pairs: list[Pair]  # all comparisons
    gains: list[Gain]  # average gains of the columns that every row has
    # means over augmentations, where a column has several
    augmented: list[AugmentedMean] = field(default_factory=list)
    # by metric, the published signature of how it is computed
    signatures: dict[str, str] = field(default_factory=dict)

    @property
    def failed(self) -> list[Result]:
        """Failed cells."""
        return [r for r in self.results if r.error]


Failed: TypeAlias = Mapping[str, str]
"""By digest, the error of a failed step."""


def score_cells(inputs: RecipeInputs, graph: StepGraph, failed: Failed) -> ScoredCells:
    """Score and compare all cells.

    The answers of one task are in memory at a time, with those of the `compare` column.

    Reference: TADPOLE, Table 3 and Figure 3.
    """
    recipe = inputs.recipe
    results: list[Result] = []
    signatures: dict[str, str] = {}
    compared: list[tuple[Cell, Cell, bool, Comparison]] = []
    rows: dict[tuple[str, int, str], dict[Cell, list[str]]] = {}
    for cell, tunings in graph.cells.items():
        rows.setdefault(cell.row, {})[cell] = [tuning.name for tuning in tunings]
    for key, cells in rows.items():
        row = _RowScorer(inputs, key, (graph, failed))
        results += [row.result(cell) for cell in cells]
        signatures |= row.signatures()
        for ours, base, from_pairs in comparison_pairs(recipe, cells):
            if not row.error(ours) and not row.error(base):
                compared.append((ours, base, from_pairs, row.compare(ours, base)))
    columns = columns_of(graph.cells)
    units = {result.cell: result.unit for result in results}
    pairs = [
        p
        for from_pairs in (False, True)
        for p in adjusted_pairs(compared, columns, units, named=from_pairs)
    ]
    means = augmented_means(results)
    return ScoredCells(results, pairs, average_gains(recipe, results), means, signatures)


class _RowScorer:
    """Scores the cells of one row; comparisons are cached in files, as resampling takes seconds."""

    def __init__(
        self, inputs: RecipeInputs, row: tuple[str, int, str], context: tuple[StepGraph, Failed]
    ) -> None:
        self._stored = inputs.tasks[row[:2]]
        self._folder = inputs.folder
        (self._graph, self._failed), self._metric = context, self._stored.metric
        self._columns = columns_of(self._graph.cells)
        self._base: tuple[Cell, list[NDArray[Any]]] | None = None

    @cached_property
    def _task(self) -> Task:
        return load_task(self._folder.task(self._stored.key))

    @property
    def _score(self) -> Metric:
        return partial(load(self._stored.kind).score, self._metric)

    @property
    def _unit(self) -> str:
        return load(self._stored.kind).unit_of(self._metric)

    def _outcome_ids(self, cell: Cell) -> list[str]:
        """The outcomes of a cell, by name and content."""
        return [f"{t.name} {file_digest(t.out)}" for t in self._graph.cells[cell]]

    def error(self, cell: Cell) -> str:
        names = (tuning.name for tuning in self._graph.cells[cell])
        return next((self._failed[name] for name in names if name in self._failed), "")

    def result(self, cell: Cell) -> Result:
        """The scores of a cell's fine-tunings, or its error."""
        column = self._columns[cell]
        error = self.error(cell)
        if error:
            return Result(cell, column, self._metric, error=error, unit=self._unit)
        outcomes = [Outcome.read(tuning.out) for tuning in self._graph.cells[cell]]
        scores = [o.scores["test"][self._metric] for o in outcomes]
        # one outcome may stand for all seeds, and then has no deviation
        several = len({tuning.name for tuning in self._graph.cells[cell]}) > 1
        mean, sd = spread(scores if several else scores[:1])
        low, high = self._cached(
            ["interval", self._outcome_ids(cell)],
            lambda: list(interval(self._tallies(cell), self._score, seed=0)),
        )
        on_dev = [o.scores["dev"][self._metric] for o in outcomes if "dev" in o.scores]
        names = outcomes[0].scores["test"]
        return Result(
            cell,
            column,
            self._metric,
            scores,
            mean,
            sd,
            low,
            high,
            metrics={m: float(np.mean([o.scores["test"][m] for o in outcomes])) for m in names},
            beside=tuple(m for m in load(self._stored.kind).also_shown if m != self._metric),
            dev=float(np.mean(on_dev)) if on_dev else None,
            truncated=outcomes[0].truncated,
            one_answer=sum(o.one_answer for o in outcomes),
            constant=self._constant,
            unit=self._unit,
        )

    @cached_property
    def _constant(self) -> float | None:
        return load(self._stored.kind).constant(self._task).get(self._metric)

    def signatures(self) -> dict[str, str]:
        """Signatures by metric."""
        task_type = load(self._stored.kind)
        return task_type.signatures(self._task.labels) if task_type.also_shown else {}

    def compare(self, ours: Cell, base: Cell) -> Comparison:
        def compute() -> dict[str, Any]:
            if self._base is None or self._base[0] != base:
                self._base = base, self._tallies(base)
            comparison = compare(self._tallies(ours), self._base[1], self._score, seed=0)
            return dataclasses.asdict(comparison)

        return Comparison(
            **self._cached(["compare", self._outcome_ids(ours), self._outcome_ids(base)], compute)
        )

    def _cached(self, outcomes: list[Any], compute: Callable[[], Any]) -> Any:
        """The cached result for the same outcomes, or a new one."""
        key = step("judge", of=outcomes, metric=self._metric)
        path = self._folder.comparisons / f"{key}.json"
        if not path.exists():
            write_bytes(path, json.dumps(compute()).encode())
        return json.loads(path.read_bytes())

    def _tallies(self, cell: Cell) -> list[NDArray[Any]]:
        outcomes = [Outcome.read(step.out) for step in self._graph.cells[cell]]
        task_type = load(self._stored.kind)
        return [task_type.sums_of(self._task, outcome) for outcome in outcomes]


def comparison_pairs(
    recipe: Recipe, steps: Mapping[Cell, list[str]]
) -> Iterator[tuple[Cell, Cell, bool]]:
    """The comparisons of a row: ours, the other, and whether `pairs` asks for it.

    Every column is compared with the column of `compare` without augmentation (T + Data-Aug
    against T), and each pair of the recipe's `pairs`. A pair compares two selectors, so both cells
    have the same augmentation and adapter. Where the other selector has several columns, the one
    that differs least is used. Every further comparison would weaken all tests, so nothing else is
    compared. `steps` names each cell's fine-tunings: cells with the same ones are one model, as
    where mDAPT's model of one language is the base, and are not compared either.

    Reference: TADPOLE, Table 3.
    """
    base = [c for c in steps if c.selector == recipe.compare]
    if base:
        for cell in steps:
            other = _nearest(cell, base, augment="")
            if steps[other] != steps[cell]:
                yield cell, other, False
    for ours, theirs in recipe.pairs:
        for cell in (c for c in steps if c.selector == ours):
            same = cell.augment, cell.adapter
            others = [c for c in steps if c.selector == theirs and (c.augment, c.adapter) == same]
            if others:
                other = _nearest(cell, others, augment=cell.augment)
                if steps[other] != steps[cell]:
                    yield cell, other, True


def _nearest(cell: Cell, others: list[Cell], augment: str) -> Cell:
    """The cell that differs least: by augmentation, then adapter, weights and fraction."""

    def differing(other: Cell) -> tuple[bool, ...]:
        return (
            other.augment != augment,
            other.adapter != cell.adapter,
            other.weights != cell.weights,
            other.fraction != cell.fraction,
        )

    return min(others, key=differing)


def adjusted_pairs(
    compared: list[tuple[Cell, Cell, bool, Comparison]],
    columns: Mapping[Cell, str],
    units: Mapping[Cell, str],
    *,
    named: bool,
) -> list[Pair]:
    """The comparisons of one kind, with p adjusted over them (Holm, 1979)."""
    same_kind = [c for c in compared if c[2] == named]
    pairs = []
    for (ours, base, _, figures), p in zip(
        same_kind, holm([c[3].p for c in same_kind]), strict=True
    ):
        adjusted = figures.p if p is None else p  # never None: every comparison has a p
        names = columns[ours], columns[base]
        alike = ours.adapter == base.adapter and base.augment in ("", ours.augment)
        unit = units[ours]
        text = verdict(figures, adjusted, unit=unit)
        pairs.append(Pair(ours.row, *names, named, alike, figures, adjusted, text, unit))
    return pairs


def average_gain(
    ours: Sequence[Sequence[float]], base: Sequence[Sequence[float]]
) -> tuple[float, float | None]:
    """Mean gain over several tasks, and its standard deviation over seeds."""
    # Gains are averaged over tasks first, so the deviation is over seeds and not over tasks.
    # TADPOLE's Table 3 has another, the deviation "in the estimate of the average gain".
    seeds = min(len(scores) for scores in (*ours, *base))
    gains = [np.subtract(a[:seeds], b[:seeds]) for a, b in zip(ours, base, strict=True)]
    return spread(np.mean(gains, axis=0).tolist())


def average_gains(recipe: Recipe, results: list[Result]) -> list[Gain]:
    """Average gains of the columns that all rows in points have, for each of several sizes."""
    results = [r for r in results if r.unit == POINTS]
    sizes = list(dict.fromkeys(r.cell.size for r in results))
    gains = []
    for size in sizes if len(sizes) > 1 else [None]:
        rows = list(dict.fromkeys(r.cell.row for r in results if size in (None, r.cell.size)))
        for column in dict.fromkeys(r.column for r in results):
            pairs = [_scores(recipe, results, row, column) for row in rows]
            both = [pair for pair in pairs if pair]
            if len(both) == len(rows):
                ours, base = zip(*both, strict=True)
                gains.append(Gain(column, size, *average_gain(ours, base), len(rows)))
    return gains


def augmented_means(results: list[Result]) -> list[AugmentedMean]:
    """The mean over the augmentations of a column, where there are several.

    Scores are averaged over augmentations seed by seed first, so the deviation is over seeds; it is
    compared with the same cell without augmentation.

    Reference: TADPOLE, section 4.1 and Table 3 (Data-Aug: the mean of two augmentations).
    """
    groups: dict[Cell, list[Result]] = {}
    for result in results:
        plain = dataclasses.replace(result.cell, augment="")
        groups.setdefault(plain, []).append(result)
    means = []
    names = columns_of(groups)
    for plain, group in groups.items():
        augmented = [r for r in group if r.cell.augment]
        if len(augmented) < 2 or any(r.error for r in group):
            continue
        mean = np.mean([r.scores for r in augmented], axis=0).tolist()
        base = next((r.scores for r in group if not r.cell.augment), None)
        gain = None if base is None else average_gain([mean], [base])
        kinds = tuple(r.cell.augment for r in augmented)
        means.append(AugmentedMean(plain.row, names[plain], kinds, mean, *spread(mean), gain))
    return means


def _scores(
    recipe: Recipe, results: list[Result], row: tuple[str, int, str], column: str
) -> tuple[list[float], list[float]] | None:
    """The scores in a row of a column and of the column that it is compared with, or None."""
    by_cell = {r.cell: r for r in results if r.cell.row == row}
    ours = next((r for r in by_cell.values() if r.column == column), None)
    base = [cell for cell in by_cell if cell.selector == recipe.compare]
    if ours is None or not base:
        return None
    other = by_cell[_nearest(ours.cell, base, augment="")]
    if other is ours or other.error or ours.error:
        return None
    return ours.scores, other.scores
