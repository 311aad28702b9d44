"""A recipe's results as plain data: figures of cells, comparisons and average gains.

What: what is judged of a recipe, as tables are made of it and as the JSON has it.
Why: judging, comparing and writing tables need the same few records.
Trade-off: a failed cell is a result too, without figures.
Reference: TADPOLE, Table 3.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from corpusfit.evaluate.significance import Comparison
from corpusfit.pipeline.recipes.grid import Cell


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
        truncated: examples that were cut off, by split, of the first seed.
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
    truncated: dict[str, int] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True)
class Pair:
    """One column against another in a row.

    Attributes:
        row: task, training examples (0: all) and model.
        column: ours.
        base: the other.
        named: whether the recipe's `pairs` ask for it; else it is of the table.
        alike: whether both train the same weights, all or an adapter's, and the other has no
            companions that ours lacks.
        comparison: the figures.
        adjusted: p after Holm's correction over all of the same kind.
        verdict: in words.
    """

    row: tuple[str, int, str]
    column: str
    base: str
    named: bool
    alike: bool
    comparison: Comparison
    adjusted: float
    verdict: str


@dataclass(frozen=True)
class Gain:
    """A column's average gain over the column that all are compared with.

    Attributes:
        column: ours.
        size: training examples of the rows, as asked for; None for all rows.
        mean: over the rows, in [-1, 1].
        sd: of the mean over the rows, from seed to seed (n - 1); None with one seed.
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
