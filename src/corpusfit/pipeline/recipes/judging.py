"""From the outcomes of a recipe's fine-tunings to its tables, with significance.

What: means and deviations over seeds, comparisons with one column and of pairs, average gains,
what each cell cost, and how losses on the task's text went with the scores.
Why: a mean without a test is not a result, and "no difference shown" is one.
Trade-off: one task's answers are in memory at a time, so those of the column that all are compared
with are kept while its row is judged.
Reference: TADPOLE, Table 3 and Figure 3.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from corpusfit.artifacts import write_bytes
from corpusfit.evaluate.metrics import tallies
from corpusfit.evaluate.outcome import Outcome
from corpusfit.evaluate.plan import METRICS
from corpusfit.evaluate.significance import (
    Comparison,
    average_gain,
    compare,
    holm,
    interval,
    spread,
    verdict,
)
from corpusfit.evaluate.task import Task, load_task
from corpusfit.manifest import digest
from corpusfit.pipeline.recipes.cells import Cell, columns_of
from corpusfit.pipeline.recipes.recipe import Recipe
from corpusfit.pipeline.recipes.work import Made, Tuning, Work

__all__ = ["Gain", "Judged", "Pair", "Result", "judged"]

Failed: TypeAlias = Mapping[str, str]
"""By digest, why a step failed."""


@dataclass(frozen=True)
class Result:
    """What the fine-tunings of a cell came to.

    Attributes:
        cell: which one.
        column: its name in the table.
        metric: what is compared.
        scores: of the test split by seed, in [0, 1].
        mean: of them.
        sd: their standard deviation; None with one seed.
        low: lower end of the mean's 95 % interval over seeds and examples.
        high: its upper end.
        metrics: the mean of every metric.
        dev: the metric's mean on the dev split.
        error: why there is nothing of all that.
    """

    cell: Cell
    column: str
    metric: str
    scores: list[float] = field(default_factory=list)
    mean: float | None = None
    sd: float | None = None
    low: float | None = None
    high: float | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    dev: float | None = None
    error: str = ""


@dataclass(frozen=True)
class Pair:
    """One column against another in a row.

    Attributes:
        row: task, training examples (0: all) and model.
        column: ours.
        base: the other.
        named: whether the recipe's `pairs` ask for it; else it is of the table.
        comparison: the figures.
        adjusted: p after Holm's correction over all of the same kind.
        verdict: in words.
    """

    row: tuple[str, int, str]
    column: str
    base: str
    named: bool
    comparison: Comparison
    adjusted: float
    verdict: str


@dataclass(frozen=True)
class Gain:
    """A column's average gain over the column that all are compared with.

    Attributes:
        column: ours.
        size: training examples of the rows; None for all rows.
        mean: over the rows, in [-1, 1].
        sd: of it over seeds; None with one seed.
        rows: how many rows.
    """

    column: str
    size: int | None
    mean: float
    sd: float | None
    rows: int


@dataclass(frozen=True)
class Judged:
    """A recipe's results.

    Attributes:
        results: of all cells, in the table's order.
        pairs: all comparisons.
        gains: of the columns that every row has.
    """

    results: list[Result]
    pairs: list[Pair]
    gains: list[Gain]

    @property
    def failed(self) -> list[Result]:
        """Cells without a result."""
        return [r for r in self.results if r.error]


def judged(made: Made, work: Work, failed: Failed) -> Judged:
    """Judge all cells.

    Args:
        made: what the steps were made of.
        work: the steps; all are there but for those that failed.
        failed: by digest, why a step failed.

    Raises:
        MissingDependencyError: scipy is not installed.
    """
    recipe = made.recipe
    results: list[Result] = []
    compared: list[tuple[Cell, Cell, bool, Comparison]] = []
    rows: dict[tuple[str, int, str], list[Cell]] = {}
    for cell in work.cells:
        rows.setdefault(cell.row, []).append(cell)
    for key, cells in rows.items():
        row = _Row(made, key, (work, failed))
        results += [row.result(cell) for cell in cells]
        for ours, base, named in _opposites(recipe, cells):
            if not row.error(ours) and not row.error(base):
                compared.append((ours, base, named, row.compare(ours, base)))
    columns = columns_of(work.cells)
    pairs = [p for named in (False, True) for p in _corrected(compared, columns, named=named)]
    return Judged(results, pairs, _gains(recipe, results))


class _Row:
    """One task: what is right, and what was answered, read as it is needed.

    What is compared once is kept in a file by what it is made of: drawing anew takes seconds.
    """

    def __init__(self, made: Made, row: tuple[str, int, str], under: tuple[Work, Failed]) -> None:
        self._stored, self._folder = made.tasks[row[:2]], made.folder
        (self._work, self._failed), self._metric = under, self._stored.metric
        self._columns = columns_of(self._work.cells)
        self._base: tuple[Cell, list[NDArray[np.int64]]] | None = None

    @cached_property
    def _task(self) -> Task:
        return load_task(self._folder.task(self._stored.key))

    def _names(self, cell: Cell) -> list[str]:
        return [f"{t.key}-{t.seed}" for t in self._work.cells[cell]]

    def error(self, cell: Cell) -> str:
        """Why a cell has no result, if it has none."""
        return next((self._failed[s] for s in self._names(cell) if s in self._failed), "")

    def result(self, cell: Cell) -> Result:
        """What a cell's fine-tunings came to."""
        column = self._columns[cell]
        error = self.error(cell)
        if error:
            return Result(cell, column, self._metric, error=error)
        outcomes = list(_outcomes(self._work.cells[cell]))
        scores = [o.scores["test"][self._metric] for o in outcomes]
        mean, sd = spread(scores)
        low, high = self._kept(
            ["interval", self._names(cell)],
            lambda: list(interval(self._tallies(cell), self._metric, seed=0)),
        )
        return Result(
            cell,
            column,
            self._metric,
            scores,
            mean,
            sd,
            low,
            high,
            {m: float(np.mean([o.scores["test"][m] for o in outcomes])) for m in METRICS},
            float(np.mean([o.scores["dev"][self._metric] for o in outcomes])),
        )

    def compare(self, ours: Cell, base: Cell) -> Comparison:
        """Hold a cell against another."""

        def make() -> dict[str, Any]:
            if self._base is None or self._base[0] != base:
                self._base = base, self._tallies(base)
            found = compare(self._tallies(ours), self._base[1], self._metric, seed=0)
            return dataclasses.asdict(found)

        return Comparison(**self._kept(["compare", self._names(ours), self._names(base)], make))

    def _kept(self, of: list[Any], make: Callable[[], Any]) -> Any:
        """What was made before of the same outcomes, or what is made now."""
        path = self._folder.comparisons / f"{digest([*of, self._metric])}.json"
        if not path.exists():
            write_bytes(path, json.dumps(make()).encode())
        return json.loads(path.read_bytes())

    def _tallies(self, cell: Cell) -> list[NDArray[np.int64]]:
        task = self._task
        return [
            tallies(
                task.kind,
                task.labels,
                task.test.flat,
                np.asarray(outcome.predicted["test"], np.int32),
                task.test.lengths,
            )
            for outcome in _outcomes(self._work.cells[cell])
        ]


def _outcomes(tunings: list[Tuning]) -> Iterator[Outcome]:
    """What fine-tunings gave, one at a time."""
    return (Outcome.read(tuning.out) for tuning in tunings)


def _opposites(recipe: Recipe, cells: list[Cell]) -> Iterator[tuple[Cell, Cell, bool]]:
    """The comparisons of a row: ours, the other, and whether `pairs` asks for it."""
    base = [c for c in cells if c.selector == recipe.compare]
    if base:
        for cell in cells:
            other = _nearest(cell, base, augment="")
            if other != cell:
                yield cell, other, False
    for ours, theirs in recipe.pairs:
        others = [c for c in cells if c.selector == theirs]
        for cell in (c for c in cells if c.selector == ours):
            yield cell, _nearest(cell, others, augment=cell.augment), True


def _nearest(cell: Cell, others: list[Cell], augment: str) -> Cell:
    """The cell that differs least: in augmentation, then adapter, weights and fraction."""

    def differing(other: Cell) -> tuple[bool, ...]:
        return (
            other.augment != augment,
            other.adapter != cell.adapter,
            other.weights != cell.weights,
            other.fraction != cell.fraction,
        )

    return min(others, key=differing)


def _corrected(
    compared: list[tuple[Cell, Cell, bool, Comparison]], columns: Mapping[Cell, str], *, named: bool
) -> list[Pair]:
    """The comparisons of one kind, with Holm's correction over them."""
    own = [c for c in compared if c[2] == named]
    found = []
    for (ours, base, _, figures), p in zip(own, holm([c[3].p for c in own]), strict=True):
        adjusted = figures.p if p is None else p
        words = verdict(figures, adjusted)
        names = columns[ours], columns[base]
        found.append(Pair(ours.row, *names, named, figures, adjusted, words))
    return found


def _gains(recipe: Recipe, results: list[Result]) -> list[Gain]:
    """The average gains of the columns that all rows have; of several sizes each has its own."""
    sizes = list(dict.fromkeys(r.cell.size for r in results))
    found = []
    for size in sizes if len(sizes) > 1 else [None]:
        rows = list(dict.fromkeys(r.cell.row for r in results if size in (None, r.cell.size)))
        for column in dict.fromkeys(r.column for r in results):
            pairs = [_scores(recipe, results, row, column) for row in rows]
            both = [pair for pair in pairs if pair]
            if len(both) == len(rows):
                ours, base = zip(*both, strict=True)
                found.append(Gain(column, size, *average_gain(ours, base), len(rows)))
    return found


def _scores(
    recipe: Recipe, results: list[Result], row: tuple[str, int, str], column: str
) -> tuple[list[float], list[float]] | None:
    """The scores of a column and of what it is compared with in a row, if it has both."""
    own = {r.cell: r for r in results if r.cell.row == row and not r.error}
    ours = next((r for r in own.values() if r.column == column), None)
    base = [cell for cell in own if cell.selector == recipe.compare]
    if ours is None or not base:
        return None
    other = own[_nearest(ours.cell, base, augment="")]
    return None if other is ours else (ours.scores, other.scores)
