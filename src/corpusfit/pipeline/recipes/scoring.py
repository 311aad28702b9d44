"""From the outcomes of a recipe's fine-tunings to its results, with significance.

What: means and deviations over seeds with intervals, and comparisons, each reckoned once.
Why: a mean without a test is not a result, and "no difference shown" is one.
Trade-off: one task's answers are in memory at a time, so those of the column that all are compared
with are kept while its row is judged.
Reference: TADPOLE, Table 3 and Figure 3.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from corpusfit.artifacts import write_bytes
from corpusfit.embed.contract import file_digest
from corpusfit.evaluate.outcome import Outcome
from corpusfit.evaluate.plan import METRICS
from corpusfit.evaluate.significance import Comparison, compare, interval, spread
from corpusfit.evaluate.task import Task, load_task
from corpusfit.pipeline.recipes.contrasts import corrected, gains_of, opposites
from corpusfit.pipeline.recipes.fingerprints import step
from corpusfit.pipeline.recipes.grid import Cell, columns_of
from corpusfit.pipeline.recipes.nodes import RecipeInputs, StepGraph, TuneNode
from corpusfit.pipeline.recipes.results import Judged, Result

Failed: TypeAlias = Mapping[str, str]
"""By digest, why a step failed."""


def judged(inputs: RecipeInputs, work: StepGraph, failed: Failed) -> Judged:
    """Judge all cells.

    Args:
        inputs: what the steps were made of.
        work: the steps; all are there but for those that failed.
        failed: by digest, why a step failed.

    Raises:
        MissingDependencyError: scipy is not installed.
    """
    recipe = inputs.recipe
    results: list[Result] = []
    compared: list[tuple[Cell, Cell, bool, Comparison]] = []
    rows: dict[tuple[str, int, str], list[Cell]] = {}
    for cell in work.cells:
        rows.setdefault(cell.row, []).append(cell)
    for key, cells in rows.items():
        row = _Row(inputs, key, (work, failed))
        results += [row.result(cell) for cell in cells]
        for ours, base, named in opposites(recipe, cells):
            if not row.error(ours) and not row.error(base):
                compared.append((ours, base, named, row.compare(ours, base)))
    columns = columns_of(work.cells)
    pairs = [p for named in (False, True) for p in corrected(compared, columns, named=named)]
    return Judged(results, pairs, gains_of(recipe, results))


class _Row:
    """One task: what is right, and what was answered, read as it is needed.

    What is compared once is kept in a file by what it is made of: drawing anew takes seconds.
    """

    def __init__(
        self, inputs: RecipeInputs, row: tuple[str, int, str], context: tuple[StepGraph, Failed]
    ) -> None:
        self._stored, self._folder = inputs.tasks[row[:2]], inputs.folder
        (self._work, self._failed), self._metric = context, self._stored.metric
        self._columns = columns_of(self._work.cells)
        self._base: tuple[Cell, list[NDArray[np.int64]]] | None = None

    @cached_property
    def _task(self) -> Task:
        return load_task(self._folder.task(self._stored.key))

    def _names(self, cell: Cell) -> list[str]:
        return [t.name for t in self._work.cells[cell]]

    def _marks(self, cell: Cell) -> list[str]:
        """The outcomes of a cell, by name and by content."""
        return [f"{t.name} {file_digest(t.out)}" for t in self._work.cells[cell]]

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
            ["interval", self._marks(cell)],
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
            outcomes[0].truncated,
        )

    def compare(self, ours: Cell, base: Cell) -> Comparison:
        """Hold a cell against another."""

        def make() -> dict[str, Any]:
            if self._base is None or self._base[0] != base:
                self._base = base, self._tallies(base)
            found = compare(self._tallies(ours), self._base[1], self._metric, seed=0)
            return dataclasses.asdict(found)

        return Comparison(**self._kept(["compare", self._marks(ours), self._marks(base)], make))

    def _kept(self, of: list[Any], make: Callable[[], Any]) -> Any:
        """What was made before of the same outcomes, or what is made now."""
        key = step("judge", of=of, metric=self._metric)
        path = self._folder.comparisons / f"{key}.json"
        if not path.exists():
            write_bytes(path, json.dumps(make()).encode())
        return json.loads(path.read_bytes())

    def _tallies(self, cell: Cell) -> list[NDArray[np.int64]]:
        return [o.tallies(self._task) for o in _outcomes(self._work.cells[cell])]


def _outcomes(tunings: list[TuneNode]) -> Iterator[Outcome]:
    """What fine-tunings gave, one at a time."""
    return (Outcome.read(tuning.out) for tuning in tunings)
