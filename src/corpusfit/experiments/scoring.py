"""Scores a recipe's cells: means with intervals over seeds, and significance tests."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.artifacts import write_bytes
from corpusfit.embed.contract import file_digest
from corpusfit.evaluation.significance import Comparison, Metric, compare, interval, spread
from corpusfit.evaluation.task import Outcome, Task, load_task
from corpusfit.evaluation.tasks import load
from corpusfit.experiments.contrasts import (
    adjusted_pairs,
    augmented_means,
    average_gains,
    comparison_pairs,
)
from corpusfit.experiments.fingerprints import step
from corpusfit.experiments.grid import Cell, columns_of
from corpusfit.experiments.nodes import RecipeInputs, StepGraph
from corpusfit.experiments.results import Result, ScoredCells

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
    rows: dict[tuple[str, int, str], list[Cell]] = {}
    for cell in graph.cells:
        rows.setdefault(cell.row, []).append(cell)
    for key, cells in rows.items():
        row = _RowScorer(inputs, key, (graph, failed))
        results += [row.result(cell) for cell in cells]
        signatures |= row.signatures()
        for ours, base, named in comparison_pairs(recipe, cells):
            if not row.error(ours) and not row.error(base):
                compared.append((ours, base, named, row.compare(ours, base)))
    columns = columns_of(graph.cells)
    pairs = [p for named in (False, True) for p in adjusted_pairs(compared, columns, named=named)]
    means = augmented_means(results)
    return ScoredCells(results, pairs, average_gains(recipe, results), means, signatures)


class _RowScorer:
    """Scores the cells of one row; comparisons are cached in files, as resampling takes seconds."""

    def __init__(
        self, inputs: RecipeInputs, row: tuple[str, int, str], context: tuple[StepGraph, Failed]
    ) -> None:
        self._stored, self._folder = inputs.tasks[row[:2]], inputs.folder
        (self._graph, self._failed), self._metric = context, self._stored.metric
        self._columns = columns_of(self._graph.cells)
        self._base: tuple[Cell, list[NDArray[Any]]] | None = None

    @cached_property
    def _task(self) -> Task:
        return load_task(self._folder.task(self._stored.key))

    @property
    def _score(self) -> Metric:
        return partial(load(self._stored.kind).score, self._metric)

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
            return Result(cell, column, self._metric, error=error)
        outcomes = [Outcome.read(tuning.out) for tuning in self._graph.cells[cell]]
        scores = [o.scores["test"][self._metric] for o in outcomes]
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
        )

    @cached_property
    def _constant(self) -> float | None:
        return load(self._stored.kind).constant(self._task).get(self._metric)

    def signatures(self) -> dict[str, str]:
        """By metric of the row's kind, its signature."""
        found = load(self._stored.kind)
        return found.signatures(self._task.labels) if found.also_shown else {}

    def compare(self, ours: Cell, base: Cell) -> Comparison:
        def compute() -> dict[str, Any]:
            if self._base is None or self._base[0] != base:
                self._base = base, self._tallies(base)
            found = compare(self._tallies(ours), self._base[1], self._score, seed=0)
            return dataclasses.asdict(found)

        return Comparison(
            **self._cached(["compare", self._outcome_ids(ours), self._outcome_ids(base)], compute)
        )

    def _cached(self, of: list[Any], compute: Callable[[], Any]) -> Any:
        """The cached result for the same outcomes, or a new one."""
        key = step("judge", of=of, metric=self._metric)
        path = self._folder.comparisons / f"{key}.json"
        if not path.exists():
            write_bytes(path, json.dumps(compute()).encode())
        return json.loads(path.read_bytes())

    def _tallies(self, cell: Cell) -> list[NDArray[Any]]:
        return [Outcome.read(t.out).tallies(self._task) for t in self._graph.cells[cell]]
