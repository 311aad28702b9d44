"""Metrics from per-example counts, so that a resampled test set needs only a new sum of counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Metrics of counts, as in scikit-learn.
METRICS = (
    "accuracy",
    "micro_f1",
    "macro_f1",
    "weighted_f1",
    "micro_precision",
    "micro_recall",
    "macro_precision",
    "macro_recall",
)
# Metrics of the second of two classes, as scikit-learn's with `average="binary"`.
BINARY = ("binary_f1", "binary_precision", "binary_recall")
Items = tuple[NDArray[Any], ...]  # Example and class of every counted item


def tallies(
    right: NDArray[np.bool_], lengths: NDArray[np.int64], counted: Sequence[Items], classes: int
) -> NDArray[np.int64]:
    """Counts of each example, from which all metrics follow."""
    n = len(lengths)
    owner = np.repeat(np.arange(len(lengths)), lengths)
    sums = np.empty((n, 3, 1 + classes), np.int64)
    sums[:, 0, 0] = np.bincount(owner[right], minlength=n)
    sums[:, 1:, 0] = lengths[:, None]
    for row, (example, number) in enumerate(counted):
        counts = np.bincount(example * classes + number, minlength=n * classes)
        sums[:, row, 1:] = counts.reshape(n, classes)
    return sums


def from_counts(name: str, summed: NDArray[Any], *, absent: bool = False) -> NDArray[np.float64]:
    """A metric of `METRICS` or `BINARY`, from sums of tallies.

    Reference: TADPOLE, Table 3 (metric of each task); TextGram, Table 3 (binary).
    """
    # Averages are those of scikit-learn with zero_division=0: `macro` is the mean over classes,
    # `weighted` weights each class by its gold count, `binary` is of the second class alone.
    if name not in (*METRICS, *BINARY):
        raise ValueError(f"{name} is not a metric of counts")
    if name == "accuracy":
        return accuracy(summed)
    average, _, figure = name.partition("_")
    counts = summed[..., 1:]
    if average == "micro":
        return _figure(figure, counts.sum(-1)[..., None])[..., 0]
    by_class = _figure(figure, counts)
    if average == "binary":
        return by_class[..., 1]
    weights = counts[..., 2, :]
    if average == "macro":
        weights = ((counts[..., 1, :] + weights > 0) | absent).astype(np.int64)
    return _ratio((by_class * weights).sum(-1), weights.sum(-1))


def accuracy(summed: NDArray[Any]) -> NDArray[np.float64]:
    """The share of correct pieces, float64 [...], of sums of tallies [..., 3, 1 + C]."""
    return _ratio(summed[..., 0, 0], summed[..., 2, 0])


def _figure(figure: str, counts: NDArray[Any]) -> NDArray[np.float64]:
    """Precision, recall or F1 of each class, float64 [..., C], of counts [..., 3, C]."""
    hits, predicted, gold = (counts[..., i, :] for i in range(3))
    if figure == "precision":
        return _ratio(hits, predicted)
    if figure == "recall":
        return _ratio(hits, gold)
    return _ratio(2 * hits, predicted + gold)


def _ratio(part: NDArray[Any], whole: NDArray[Any]) -> NDArray[np.float64]:
    """The ratio of part and whole; 0 where the whole is 0."""
    ratio: NDArray[np.float64] = part / np.where(whole > 0, whole, 1)
    return ratio
