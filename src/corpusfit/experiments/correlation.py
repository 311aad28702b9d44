"""Correlation of the predictors (loss before fine-tuning, KL reduction) with the gains."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from corpusfit.evaluation.significance import Correlation, Within, correlation, correlation_within
from corpusfit.experiments.entries import BASE
from corpusfit.experiments.grid import Cell, columns_of
from corpusfit.experiments.nodes import StepGraph
from corpusfit.experiments.predictors import PredictorNode
from corpusfit.experiments.results import ScoredCells

Row: TypeAlias = tuple[str, int, str]


@dataclass(frozen=True)
class CorrelationRow:
    """Predictors and result of one adapted cell.

    Attributes:
        row: task, training examples (0: all) and model.
        loss: of its first adapted model on the task's training texts, in nats per token.
        falls: loss of the base minus this loss.
        kl: KL reduction of its selection in nats; None where it was not measured.
        mean: mean test score.
        gain: mean test score minus that of the base.
        general: loss of the model on general text; None where it was not measured.
    """

    row: Row
    column: str
    loss: float
    falls: float
    kl: float | None
    mean: float
    gain: float
    general: float | None = None


EQUAL = 0.02
"""Most nats between general losses that count as equal (TADPOLE, Figure 3)."""


@dataclass(frozen=True)
class Correlations:
    """Correlations of the predictors with the gain.

    Tasks differ in predictors and gain at once (an easy task has a low loss and a small gain), so
    the correlation within tasks is the one that counts; the pooled one is reported without a test.

    Reference: TADPOLE, Figures 2 and 3.

    Attributes:
        links: one for each adapted cell.
        loss: fall of the loss and gain, within rows; None for too few cells.
        kl: KL reduction and gain, within rows, over the cells that have both.
        equal: as `loss`, over the cells of each row whose losses on general text are equal: the
            most that are within `EQUAL` of each other (TADPOLE, Figure 3).
        pooled_loss: as `loss`, over all cells as if of one task.
        pooled_kl: as `kl`, over all cells as if of one task.
    """

    links: list[CorrelationRow]
    loss: Within | None
    kl: Within | None
    pooled_loss: Correlation | None
    pooled_kl: Correlation | None
    equal: Within | None = None


def correlations_of(
    graph: StepGraph, scored: ScoredCells, predictors: Mapping[Cell, PredictorNode]
) -> Correlations:
    """Correlate the predictors with the gains."""
    means = {r.cell: r.mean for r in scored.results if r.mean is not None}
    read = {cell: _read_predictor(predictor) for cell, predictor in predictors.items()}
    known = {cell: found for cell, found in read.items() if found and cell in means}
    rows = []
    for cell, name in columns_of(graph.cells).items():
        base = next((c for c in known if c.row == cell.row and c.selector == BASE), None)
        if base is None or base == cell or cell not in known:
            continue
        selection = graph.adaptations[graph.cells[cell][0].adapted].selection
        loss, gain = known[cell]["loss"], means[cell] - means[base]
        kl = known[base]["falls"].get(selection)
        fall = known[base]["loss"] - loss
        general = known[cell].get("general")
        rows.append(CorrelationRow(cell.row, name, loss, fall, kl, means[cell], gain, general))
    return correlate(rows)


def correlate(rows: list[CorrelationRow]) -> Correlations:
    """The correlations over some cells."""
    loss = [(row.row, row.falls, row.gain) for row in rows]
    kl = [(row.row, row.kl, row.gain) for row in rows if row.kl is not None]
    return Correlations(
        rows,
        loss=correlation_within(*_columns(loss)),
        kl=correlation_within(*_columns(kl)),
        pooled_loss=correlation(*_columns(loss)[1:]),
        pooled_kl=correlation(*_columns(kl)[1:]),
        equal=correlation_within(
            *_columns([(row.row, row.falls, row.gain) for row in _equal(rows)])
        ),
    )


def _equal(rows: Sequence[CorrelationRow]) -> Iterator[CorrelationRow]:
    """Of each row's cells the most whose losses on general text are equal."""
    for row in dict.fromkeys(r.row for r in rows):
        own = sorted(
            (
                (r.general, i, r)
                for i, r in enumerate(rows)
                if r.row == row and r.general is not None
            )
        )
        near = [[r for g, _, r in own if low <= g <= low + EQUAL] for low, *_ in own]
        yield from max(near, key=len, default=[])


def _columns(
    figures: Sequence[tuple[Row, float, float]],
) -> tuple[list[Row], list[float], list[float]]:
    return [r for r, *_ in figures], [x for _, x, _ in figures], [y for *_, y in figures]


def _read_predictor(predictor: PredictorNode) -> dict[str, Any] | None:
    """What a predictor measured, if it is finished and has a loss."""
    found = json.loads(predictor.out.read_bytes()) if predictor.out.exists() else None
    return found if found and found["loss"] is not None else None
