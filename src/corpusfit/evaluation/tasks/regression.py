"""Regression: a number for a text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.evaluation.contract import Splits
from corpusfit.evaluation.learned import LearnedTaskType
from corpusfit.evaluation.task import Examples, Task
from corpusfit.labeled.formats import Labeled

if TYPE_CHECKING:
    import torch


_FEW_CLASSES = 20
"""Most different whole numbers that count as classes, such as stars; more are amounts."""


class Regression(LearnedTaskType):
    """A number for a text, with the mean squared error, as in semantic textual similarity.

    The head learns standard scores (mean 0, deviation 1 in train), so any unit will do; answers are
    in the unit of the labels. The error is negated, as in scikit-learn, so that higher is better.

    Spearman's correlation is Pearson's of the ranks in the whole split. Resampling keeps these
    ranks, so its intervals of `spearman` are approximate; all other metrics are exact in resamples.

    Reference: Cer et al. (2017), SemEval-2017 Task 1, section 4 (Pearson); Devlin et al. (2019).
    """

    wants = "a number"
    metrics = ("pearson", "spearman", "neg_mse")
    default_metric = "pearson"

    def unit_of(self, metric: str) -> str:
        """The error is in squared units of the labels."""
        return "squared units of the labels" if metric == "neg_mse" else self.unit

    def claims(self, labels: Sequence[object]) -> bool:
        """Whether all are numbers, some have a decimal point, and they are not few whole ones."""
        # pandas writes the numbers of classes as 1.0 where a label is missing
        if not all(isinstance(v, int | float) and not isinstance(v, bool) for v in labels):
            return False
        decimals = {v for v in labels if isinstance(v, float)}
        amounts = len({*labels}) > _FEW_CLASSES or not all(map(float.is_integer, decimals))
        return bool(decimals) and amounts

    def parse(self, value: object) -> list[float] | None:
        """The number, also from a string; None for infinite ones, which no model can learn."""
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            return None
        try:
            number = float(value)
        except (ValueError, OverflowError):
            return None
        return [number] if math.isfinite(number) else None

    def unlearnable(self, train: Labeled) -> str:
        if len(train.different()) > 1:
            return ""
        return (
            f"`task` must have different numbers in train; all {len(train):,} examples have the "
            "same. Check `task.label_field`."
        )

    def labels(self, splits: Splits) -> tuple[tuple[str, ...], int]:
        """No names, and one output."""
        return (), 1

    def numbers(self, labels: Sequence[float], number: Mapping[str, int]) -> list[float]:
        return list(labels)

    def targets(self, labels: Sequence[float]) -> NDArray[np.float64]:
        return np.asarray(labels, np.float64)

    def loss(self, logits: torch.Tensor, targets: torch.Tensor, task: Task) -> torch.Tensor:
        import torch

        mean, deviation = _scale(task)
        wanted = ((targets - mean) / deviation).to(logits.device, logits.dtype)
        return torch.nn.functional.mse_loss(logits[:, 0], wanted)

    def answers(self, logits: torch.Tensor, task: Task) -> NDArray[np.float64]:
        """float64 [m], in the unit of the labels."""
        mean, deviation = _scale(task)
        values: NDArray[np.float64] = logits[:, 0].double().cpu().numpy() * deviation + mean
        return values

    def tally(
        self, labels: tuple[str, ...], examples: Examples, answers: NDArray[Any]
    ) -> NDArray[np.float64]:
        """float64 [n, 3, 5]: see `score`; numbers less the mean of gold, for accurate sums."""
        from scipy.stats import rankdata

        gold = examples.flat
        values = (gold - gold.mean(), answers - gold.mean())
        sums = np.zeros((len(gold), 3, 5))
        sums[:, 0, 4] = (answers - gold) ** 2
        sums[:, 2, 4] = 1
        ranks = tuple(rankdata(v) - (len(v) + 1) / 2 for v in values)  # less their mean
        for column, (x, y) in enumerate((values, ranks)):
            sums[:, 0, 2 * column] = x * y
            for row, v in ((1, y), (2, x)):
                sums[:, row, 2 * column] = v
                sums[:, row, 2 * column + 1] = v * v
        return sums

    def score(self, name: str, summed: NDArray[Any]) -> NDArray[np.float64]:
        """A correlation, 0 for constant numbers, or the negated mean squared error."""
        n = summed[..., 2, 4]
        first = 2 * (name == "spearman")
        both, answer, gold = (summed[..., row, first] for row in range(3))
        squares = [summed[..., row, first + 1] for row in (1, 2)]
        if name == "neg_mse":
            return np.asarray(-summed[..., 0, 4] / n, np.float64)
        spread = [n * s - v * v for s, v in zip(squares, (answer, gold), strict=True)]
        # rounding leaves a spread above 0 for constant numbers
        spread = [np.where(v > 1e-12 * n * s, v, 0) for v, s in zip(spread, squares, strict=True)]
        product = np.sqrt(spread[0] * spread[1])
        correlation = (n * both - answer * gold) / np.where(product > 0, product, 1)
        return np.asarray(np.where(product > 0, np.clip(correlation, -1, 1), 0.0), np.float64)


def _scale(task: Task) -> tuple[float, float]:
    """Mean and standard deviation of the training examples' numbers; 1 if they are equal."""
    values = task.train.flat
    return float(values.mean()), float(values.std()) or 1.0
