"""Whether what is known beforehand goes with the scores.

What: for each adapted cell the loss of its model on the task's text, the KL reduction of its
selection and its gain over the base; and how these go together.
Why: if they do, the next adaptation need not be paid for to be judged.
Trade-off: tasks differ in all three at once (an easy one has a low loss and a small gain), so what
counts is how they go together within tasks; over all of them is said beside it, without a test.
Reference: TADPOLE, Figures 2 and 3.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from corpusfit.evaluate.correlation import Within, correlation_within
from corpusfit.evaluate.significance import Correlation, correlation
from corpusfit.pipeline.recipes.config import BASE
from corpusfit.pipeline.recipes.grid import Cell, columns_of
from corpusfit.pipeline.recipes.nodes import StepGraph
from corpusfit.pipeline.recipes.predictors import PredictorNode
from corpusfit.pipeline.recipes.results import Judged

Row: TypeAlias = tuple[str, int, str]


@dataclass(frozen=True)
class CorrelationRow:
    """What was known of a cell, and what came of it.

    Attributes:
        row: task, training examples (0: all) and model.
        column: its name.
        loss: on the task's training texts, in nats a token; of adapted models that of the first.
        falls: of the loss, from the base.
        kl: reduction of its selection in nats; None where that was not counted.
        mean: its score.
        gain: over the base.
    """

    row: Row
    column: str
    loss: float
    falls: float
    kl: float | None
    mean: float
    gain: float


@dataclass(frozen=True)
class Correlations:
    """What goes with the scores.

    Attributes:
        links: one for each adapted cell.
        loss: the fall of the loss with the gain within rows; None where that says nothing.
        kl: the KL reduction with the gain, over the links that have one.
        pooled_loss: as `loss`, over all links as if they were of one task.
        pooled_kl: as `kl`.
    """

    links: list[CorrelationRow]
    loss: Within | None
    kl: Within | None
    pooled_loss: Correlation | None
    pooled_kl: Correlation | None


def correlations_of(
    work: StepGraph, judged: Judged, looks: Mapping[Cell, PredictorNode]
) -> Correlations:
    """Hold what was looked at against the results.

    Args:
        work: the steps.
        judged: the results.
        looks: what was to be looked at; what failed has left no file.

    Raises:
        MissingDependencyError: scipy is not installed.
    """
    means = {r.cell: r.mean for r in judged.results if r.mean is not None}
    read = {cell: _read(look) for cell, look in looks.items()}
    known = {cell: found for cell, found in read.items() if found and cell in means}
    links = []
    for cell, name in columns_of(work.cells).items():
        base = next((c for c in known if c.row == cell.row and c.selector == BASE), None)
        if base is None or base == cell or cell not in known:
            continue
        selection = work.adaptations[work.cells[cell][0].adapted].selection
        loss, gain = known[cell]["loss"], means[cell] - means[base]
        kl = known[base]["falls"].get(selection)
        fall = known[base]["loss"] - loss
        links.append(CorrelationRow(cell.row, name, loss, fall, kl, means[cell], gain))
    return together(links)


def together(links: list[CorrelationRow]) -> Correlations:
    """The links, and how their figures go together.

    Raises:
        MissingDependencyError: scipy is not installed.
    """
    loss = [(link.row, link.falls, link.gain) for link in links]
    kl = [(link.row, link.kl, link.gain) for link in links if link.kl is not None]
    return Correlations(
        links,
        loss=correlation_within(*_columns(loss)),
        kl=correlation_within(*_columns(kl)),
        pooled_loss=correlation(*_columns(loss)[1:]),
        pooled_kl=correlation(*_columns(kl)[1:]),
    )


def _columns(
    figures: Sequence[tuple[Row, float, float]],
) -> tuple[list[Row], list[float], list[float]]:
    """Rows, and both figures."""
    return [r for r, *_ in figures], [x for _, x, _ in figures], [y for *_, y in figures]


def _read(look: PredictorNode) -> dict[str, Any] | None:
    """What a look found, if it was made and there is a loss."""
    found = json.loads(look.out.read_bytes()) if look.out.exists() else None
    return found if found and found["loss"] is not None else None
