"""A recipe's results as plain data: figures of cells, comparisons and average gains."""

from __future__ import annotations

from dataclasses import dataclass, field

from corpusfit.evaluation.significance import Comparison
from corpusfit.experiments.grid import Cell


@dataclass(frozen=True)
class Result:
    """The scores of a cell's fine-tunings, or its error.

    Attributes:
        metric: the metric that is compared.
        scores: test scores by seed, in [0, 1].
        mean: mean of the test scores.
        sd: their standard deviation; None with one seed.
        low: lower end of the mean's 95 % interval over seeds and examples.
        high: upper end of that interval.
        metrics: mean of every metric on the test split.
        beside: metrics to show beside the one that is compared.
        dev: mean of the metric on the dev split; None without one.
        truncated: number of truncated examples by split, of the first seed.
        one_answer: number of fine-tunings that give one answer to every test text.
        constant: score of the same answer to every test text; None where that says nothing.
        error: error of a failed cell; empty otherwise.
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
    beside: tuple[str, ...] = ()
    dev: float | None = None
    truncated: dict[str, int] = field(default_factory=dict)
    one_answer: int = 0
    constant: float | None = None
    error: str = ""


@dataclass(frozen=True)
class Pair:
    """A comparison of two columns in a row.

    Attributes:
        row: task, training examples (0: all) and model.
        column: the column that is compared.
        base: the column that it is compared with.
        named: whether the recipe's `pairs` ask for it; otherwise `base` is the `compare` column.
        alike: whether both train the same weights (all, or the same adapter's), and `base` has no
            augmentation that `column` lacks.
        comparison: the figures.
        adjusted: p after Holm's correction over all comparisons of the same kind.
        verdict: the result in words.
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
        size: training examples of the rows; None for all rows.
        mean: mean over the rows, in [-1, 1].
        sd: standard deviation over seeds (n - 1) of the mean over rows; None with one seed.
        rows: number of rows.
    """

    column: str
    size: int | None
    mean: float
    sd: float | None
    rows: int


@dataclass(frozen=True)
class AugmentedMean:
    """The mean over several augmentations of a column.

    Attributes:
        row: task, training examples (0: all) and model.
        column: name of the column without augmentation.
        kinds: the augmentations.
        scores: means over the augmentations, by seed.
        mean: their mean.
        sd: their standard deviation; None with one seed.
        gain: mean difference from the column without augmentation, with its deviation over seeds;
            None without such a column.
    """

    row: tuple[str, int, str]
    column: str
    kinds: tuple[str, ...]
    scores: list[float]
    mean: float
    sd: float | None
    gain: tuple[float, float | None] | None


@dataclass(frozen=True)
class ScoredCells:
    """A recipe's results.

    Attributes:
        results: all cells, in the table's order.
        pairs: all comparisons.
        gains: average gains of the columns that every row has.
        augmented: means over augmentations, where a column has several.
        signatures: by metric, the published signature of how it is computed.
    """

    results: list[Result]
    pairs: list[Pair]
    gains: list[Gain]
    augmented: list[AugmentedMean] = field(default_factory=list)
    signatures: dict[str, str] = field(default_factory=dict)

    @property
    def failed(self) -> list[Result]:
        """Failed cells."""
        return [r for r in self.results if r.error]
