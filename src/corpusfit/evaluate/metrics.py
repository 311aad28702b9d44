"""Metrics from per-example counts, so that a resampled test set needs only a new sum of counts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.errors import MissingDependencyError
from corpusfit.evaluate.plan import METRICS

Places = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Example and class of every counted item."""


def tallies(
    kind: str,
    labels: tuple[str, ...],
    gold: NDArray[np.int32],
    predicted: NDArray[np.int32],
    lengths: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Counts of each example, from which all metrics follow.

    Reference: mDAPT, section 4.1 (spans); seqeval in its default mode, that of conlleval.

    Args:
        kind: `classification` or `tagging`.
        labels: label names by number.
        gold: int32 [pieces], gold labels, examples end to end.
        predicted: int32 [pieces], predicted labels.
        lengths: int64 [n], pieces of each example.

    Returns:
        int64 [n, 3, 1 + C]: counts of correct, predicted and gold items. Column 0 counts pieces
        (texts, or words) of any label, the others the pieces of each of C classes, by number; for
        tagging, the spans of each of C entity types, by name.

    Raises:
        MissingDependencyError: a tagging task, and seqeval is not installed.
    """
    owner = np.repeat(np.arange(len(lengths)), lengths)
    right = gold == predicted
    classes, counted = len(labels), [(owner[right], gold[right]), (owner, predicted), (owner, gold)]
    if kind == "tagging":
        classes, counted = _spans(labels, gold, predicted, owner)
    found = np.empty((len(lengths), 3, 1 + classes), np.int64)
    found[:, 0, 0] = np.bincount(owner[right], minlength=len(lengths))
    found[:, 1:, 0] = lengths[:, None]
    for row, (example, number) in enumerate(counted):
        counts = np.bincount(example * classes + number, minlength=len(lengths) * classes)
        found[:, row, 1:] = counts.reshape(len(lengths), classes)
    return found


def metric(name: str, summed: NDArray[Any]) -> NDArray[np.float64]:
    """A metric of sums of tallies.

    Averages are those of scikit-learn with zero_division=0: `macro` is the mean over classes that
    occur or are predicted in the sum, `weighted` weights each class by its gold count.

    Reference: TADPOLE, Table 3 (metric of each task).

    Args:
        name: one of `METRICS`; `accuracy` is the share of correct pieces: texts for classification,
            words for tagging.
        summed: numbers [..., 3, 1 + C], sums of `tallies` over examples.

    Returns:
        float64 [...], in [0, 1].
    """
    if name == "accuracy":
        return _ratio(summed[..., 0, 0], summed[..., 2, 0])
    average, _, figure = name.partition("_")
    counts = summed[..., 1:]
    if average == "micro":
        return _figure(figure, counts.sum(-1)[..., None])[..., 0]
    by_class = _figure(figure, counts)
    weights = counts[..., 2, :]
    if average == "macro":
        weights = (counts[..., 1, :] + weights > 0).astype(np.int64)
    return _ratio((by_class * weights).sum(-1), weights.sum(-1))


def measure(
    kind: str,
    labels: tuple[str, ...],
    gold: NDArray[np.int32],
    predicted: NDArray[np.int32],
    lengths: NDArray[np.int64],
) -> dict[str, float]:
    """Every metric by name, each in [0, 1]; arguments and errors are those of `tallies`."""
    summed = tallies(kind, labels, gold, predicted, lengths).sum(0)
    return {name: float(metric(name, summed)) for name in METRICS}


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
    found: NDArray[np.float64] = part / np.where(whole > 0, whole, 1)
    return found


def _spans(
    labels: tuple[str, ...],
    gold: NDArray[np.int32],
    predicted: NDArray[np.int32],
    owner: NDArray[np.int64],
) -> tuple[int, list[Places]]:
    """Number of entity types; examples and types of correct, predicted and gold spans."""
    rules = _Rules(labels)
    true, found = (rules.spans(numbers, owner) for numbers in (gold, predicted))
    right = true[np.isin(true @ rules.key(len(gold)), found @ rules.key(len(gold)))]
    return rules.types, [(owner[s[:, 1]], s[:, 0]) for s in (right, found, true)]


class _Rules:
    """seqeval's rules for where spans begin and end, tabulated for each pair of labels.

    seqeval's own loop takes microseconds per word; a look-up is faster.
    """

    def __init__(self, labels: tuple[str, ...]) -> None:
        try:
            from seqeval.metrics.sequence_labeling import end_of_chunk, start_of_chunk
        except ImportError as e:
            raise MissingDependencyError("Counting the spans of a tagging task", "train") from e
        tags = [_tag(name) for name in (*labels, "O")]  # the last one separates examples
        names = sorted({name for tag, name in tags if tag != "O"})
        self.types = len(names)
        self._type = np.array([names.index(name) if name in names else -1 for _, name in tags])
        self._ends, self._begins = (
            np.array([[rule(a[0], b[0], a[1], b[1]) for b in tags] for a in tags])
            for rule in (end_of_chunk, start_of_chunk)
        )

    def spans(self, numbers: NDArray[np.int32], owner: NDArray[np.int64]) -> NDArray[np.int64]:
        """int64 [m, 3]: type, first piece and last piece of each span, in order."""
        border = len(self._type) - 1
        line = np.full(len(numbers) + (int(owner[-1]) + 1 if len(owner) else 0), border)
        line[np.arange(len(numbers)) + owner] = numbers
        before = np.concatenate([[border], line[:-1]]) if len(line) else line
        begins = np.flatnonzero(self._begins[before, line])
        ends = np.flatnonzero(self._ends[before, line])
        first = begins[np.searchsorted(begins, ends) - 1]
        piece = np.cumsum(line != border) - 1
        last = ends - 1
        return np.stack([self._type[before[ends]], piece[first], piece[last]], 1)

    def key(self, pieces: int) -> NDArray[np.int64]:
        """int64 [3], factors that turn a span into a unique number."""
        return np.array([pieces * pieces, pieces, 1], np.int64)


def _tag(label: str) -> tuple[str, str]:
    """Prefix and type of a label, as seqeval splits it."""
    return label[0], label[1:].split("-", maxsplit=1)[-1] or "_"
