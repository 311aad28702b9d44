"""What predictions are worth: counts for each example, and every metric made of their sums.

What: `tallies` counts for each example what is right, what was predicted and what is so; `metric`
turns sums of them into a score; `measure` gives all scores of one set of predictions.
Why: a resampled test set is another sum of the same counts, so a score of thousands of them costs
a matrix product and not thousands of evaluations.
Trade-off: only metrics that are functions of such sums are here; those of the papers all are.
Reference: TADPOLE, Table 3 (which metric for which task); mDAPT, section 4.1 (spans); seqeval in
its default mode, which is that of conlleval.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.errors import MissingDependencyError
from corpusfit.evaluate.plan import METRICS

Places = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Examples and classes, one of each for everything that is counted."""


def tallies(
    kind: str,
    labels: tuple[str, ...],
    gold: NDArray[np.int32],
    predicted: NDArray[np.int32],
    lengths: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Count what each example adds to the metrics.

    Args:
        kind: `classification` or `tagging`.
        labels: the labels' names, by number.
        gold: int32 [pieces], the labels that are right, examples end to end.
        predicted: int32 [pieces], those that were given.
        lengths: int64 [n], pieces of each example.

    Returns:
        int64 [n, 3, 1 + C]; the 3 are what was right, what was predicted, and what is so. Column 0
        counts pieces (texts, or words) of any label, the others the pieces of each of C classes,
        by number; for tagging, the spans of each of C types of entity, by name.

    Raises:
        MissingDependencyError: spans are counted and seqeval is not installed.
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

    Where nothing can be right (no prediction, or nothing to find) a share is 0. Macro is the mean
    over the classes that are, or were predicted, somewhere in the sum; weighted counts each by how
    often it is. Both are what scikit-learn gives with zero_division=0.

    Args:
        name: one of `METRICS`; `accuracy` is the share of pieces that are right: of texts for
            classification, of words for tagging.
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
    """Precision, recall or F1 of each class; counts [..., 3, C] give float64 [..., C]."""
    hits, predicted, gold = (counts[..., i, :] for i in range(3))
    if figure == "precision":
        return _ratio(hits, predicted)
    if figure == "recall":
        return _ratio(hits, gold)
    return _ratio(2 * hits, predicted + gold)


def _ratio(part: NDArray[Any], whole: NDArray[Any]) -> NDArray[np.float64]:
    """Parts of wholes, 0 of nothing."""
    found: NDArray[np.float64] = part / np.where(whole > 0, whole, 1)
    return found


def _spans(
    labels: tuple[str, ...],
    gold: NDArray[np.int32],
    predicted: NDArray[np.int32],
    owner: NDArray[np.int64],
) -> tuple[int, list[Places]]:
    """How many types of entity there are; where spans are right, were predicted, and are."""
    rules = _Rules(labels)
    is_so, were = (rules.spans(numbers, owner) for numbers in (gold, predicted))
    right = is_so[np.isin(is_so @ rules.key(len(gold)), were @ rules.key(len(gold)))]
    return rules.types, [(owner[s[:, 1]], s[:, 0]) for s in (right, were, is_so)]


class _Rules:
    """Which label after which begins and ends a span: seqeval's rules, asked once for each pair.

    seqeval's own loop takes some microseconds a word; here a word costs two look-ups.
    """

    def __init__(self, labels: tuple[str, ...]) -> None:
        try:
            from seqeval.metrics.sequence_labeling import end_of_chunk, start_of_chunk
        except ImportError as e:
            raise MissingDependencyError("Counting the spans of a tagging task", "train") from e
        tags = [_tag(name) for name in (*labels, "O")]  # the last one lies between examples
        names = sorted({name for tag, name in tags if tag != "O"})
        self.types = len(names)
        self._type = np.array([names.index(name) if name in names else -1 for _, name in tags])
        self._ends, self._begins = (
            np.array([[rule(a[0], b[0], a[1], b[1]) for b in tags] for a in tags])
            for rule in (end_of_chunk, start_of_chunk)
        )

    def spans(self, numbers: NDArray[np.int32], owner: NDArray[np.int64]) -> NDArray[np.int64]:
        """int64 [m, 3]: the type, the first and the last piece of each span, in order."""
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
        """int64 [3], by which a span becomes one number of its own."""
        return np.array([pieces * pieces, pieces, 1], np.int64)


def _tag(label: str) -> tuple[str, str]:
    """The letter and the type of a label, as seqeval takes them apart."""
    return label[0], label[1:].split("-", maxsplit=1)[-1] or "_"
