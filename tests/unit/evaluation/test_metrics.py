"""Metrics against scikit-learn and seqeval, on random and degenerate predictions."""

import warnings

import numpy as np
import pytest
from seqeval.metrics import sequence_labeling as seqeval
from sklearn.metrics import accuracy_score, precision_recall_fscore_support

from corpusfit.evaluation.metrics import BINARY, METRICS, from_counts
from corpusfit.evaluation.task import Examples
from corpusfit.evaluation.tasks import load

FIGURES = ("precision", "recall", "f1")
IOB = ("O", "B-Gene", "I-Gene", "B-Drug", "I-Drug")
ODD = ("I-a-b", "O", "S-Drug", "E-Drug", "B", "I", "B-a-b", "E-x", "S-x")


def wanted(scores, average):
    """Names and values of a library's (precision, recall, f1, support)."""
    names = (f"{average}_{figure}" for figure in FIGURES)
    return {n: v for n, v in zip(names, scores, strict=False) if n in METRICS}


def of_scikit_learn(gold, predicted):
    found = {"accuracy": accuracy_score(gold, predicted)}
    for average in ("micro", "macro", "weighted"):
        scores = precision_recall_fscore_support(
            gold, predicted, average=average, zero_division=0.0
        )
        found |= wanted(scores, average)
    return found


def binary(gold, predicted, positive=1):
    """scikit-learn's precision, recall and F1 of one of two classes."""
    scores = precision_recall_fscore_support(
        gold, predicted, average="binary", pos_label=positive, zero_division=0.0
    )
    return dict(zip(("binary_precision", "binary_recall", "binary_f1"), scores, strict=False))


def of_seqeval(labels, gold, predicted, lengths):
    cuts = np.cumsum(lengths)[:-1]
    true, guessed = (
        [[labels[i] for i in part] for part in np.split(x, cuts)] for x in (gold, predicted)
    )
    found = {"accuracy": seqeval.accuracy_score(true, guessed)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for average in ("micro", "macro", "weighted"):
            scores = seqeval.precision_recall_fscore_support(
                true, guessed, average=average, zero_division=0
            )
            found |= wanted(np.nan_to_num(scores), average)  # the mean over no type is nan
    return found


def examples(gold, lengths):
    """Examples with some labels, end to end."""
    cut = (
        [part.tolist() for part in np.split(gold, np.cumsum(lengths)[:-1])] if len(lengths) else []
    )
    return Examples([["word"] * len(part) for part in cut], cut)


def measure(kind, labels, gold, predicted, lengths):
    return load(kind).measure(labels, examples(gold, lengths), predicted)


def tallies(kind, labels, gold, predicted, lengths):
    return load(kind).tally(labels, examples(gold, lengths), predicted)


def drawn(seed, n, classes, right=0.6):
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, classes, n).astype(np.int32)
    other = rng.integers(0, classes, n)
    return gold, np.where(rng.random(n) < right, gold, other).astype(np.int32)


@pytest.mark.parametrize("classes", [1, 2, 6, 20])
@pytest.mark.parametrize("n", [1, 7, 500])
def test_classification_is_that_of_scikit_learn(n, classes):
    labels = tuple(f"class {i}" for i in range(classes))
    for seed in range(4):
        gold, predicted = drawn(seed, n, classes)
        found = measure("classification", labels, gold, predicted, np.ones(n, np.int64))
        theirs = of_scikit_learn(gold, predicted)
        if classes == 2:
            theirs |= binary(gold, predicted)
        assert found == pytest.approx(theirs, abs=1e-12)
        assert set(found) == {*METRICS, *(BINARY if classes == 2 else ())}


@pytest.mark.parametrize(
    ("gold", "predicted"), [([0, 0], [0, 0]), ([0, 1], [0, 0]), ([0, 0], [1, 1]), ([1], [1])]
)
def test_degenerate_binary_predictions_score_as_in_scikit_learn(gold, predicted):
    answers = np.array(predicted, np.int32)
    found = measure("classification", ("neg", "pos"), np.array(gold), answers, np.ones_like(gold))
    assert {name: found[name] for name in BINARY} == binary(gold, predicted)


@pytest.mark.parametrize(
    ("gold", "predicted"),
    [
        ([0, 1, 2, 2], [0, 0, 0, 0]),  # two classes that are never predicted
        ([0, 0, 0], [1, 1, 2]),  # nothing right
        ([3, 3, 0], [0, 0, 0]),  # a label missing from train
        ([2, 2], [2, 2]),  # one class only, and all right
    ],
)
def test_degenerate_predictions_score_as_in_scikit_learn(gold, predicted):
    gold, predicted = np.array(gold, np.int32), np.array(predicted, np.int32)
    found = measure("classification", ("a", "b", "c", "d"), gold, predicted, np.ones_like(gold))
    assert found == pytest.approx(of_scikit_learn(gold, predicted), abs=1e-12)


@pytest.mark.parametrize("labels", [IOB, ODD, IOB + ODD[2:]])
@pytest.mark.parametrize("right", [0.0, 0.5, 0.95, 1.0])
def test_tagging_is_that_of_seqeval(labels, right):
    for seed in range(6):
        lengths = np.random.default_rng(seed).integers(1, 12, 60)
        gold, predicted = drawn(seed, int(lengths.sum()), len(labels), right)
        found = measure("tagging", labels, gold, predicted, lengths)
        assert found == pytest.approx(of_seqeval(labels, gold, predicted, lengths), abs=1e-12)


def test_spans_of_each_example_are_those_that_seqeval_extracts():
    lengths = np.random.default_rng(5).integers(0, 9, 200)  # some examples have no words
    lengths[[0, -1]] = 0
    gold, predicted = drawn(5, int(lengths.sum()), len(IOB), 0.7)
    found = tallies("tagging", IOB, gold, predicted, lengths)
    cuts = np.cumsum(lengths)[:-1]
    true, guessed = (
        [set(seqeval.get_entities([IOB[i] for i in part])) for part in np.split(x, cuts)]
        for x in (gold, predicted)
    )
    assert found.shape == (200, 3, 3)
    for example in range(200):
        spans = true[example] & guessed[example], guessed[example], true[example]
        for row, entities in enumerate(spans):
            by_type = [sum(e[0] == name for e in entities) for name in ("Drug", "Gene")]
            assert found[example, row, 1:].tolist() == by_type


@pytest.mark.parametrize(
    ("gold", "predicted"),
    [
        ([1, 2, 0, 3], [0, 0, 0, 0]),  # nothing predicted
        ([0, 0, 0, 0], [1, 2, 0, 3]),  # nothing to find
        ([0, 0, 0, 0], [0, 0, 0, 0]),  # neither
        ([2, 2, 2, 4], [1, 2, 2, 3]),  # I without B begins a span
    ],
)
def test_degenerate_tags_score_as_in_seqeval(gold, predicted):
    gold, predicted = np.array(gold, np.int32), np.array(predicted, np.int32)
    lengths = np.array([3, 1])
    found = measure("tagging", IOB, gold, predicted, lengths)
    assert found == pytest.approx(of_seqeval(IOB, gold, predicted, lengths), abs=1e-12)


def test_without_entities_only_accuracy_is_above_0():
    gold = np.zeros(3, np.int32)
    found = measure("tagging", ("O",), gold, gold, np.array([2, 1]))
    assert found == {**dict.fromkeys(METRICS, 0.0), "accuracy": 1.0}


def test_tallies_add_up_and_metrics_go_over_any_leading_axes():
    lengths = np.random.default_rng(1).integers(1, 5, 40)
    gold, predicted = drawn(1, int(lengths.sum()), len(IOB), 0.7)
    counts = tallies("tagging", IOB, gold, predicted, lengths)
    sums = counts.reshape(2, 4, 5, 3, 3).sum(2)
    assert counts[:, 1:, 0].tolist() == [[n, n] for n in lengths]
    for name in METRICS:
        found = from_counts(name, sums)
        assert found.shape == (2, 4)
        alone = [[float(from_counts(name, of_one)) for of_one in of_two] for of_two in sums]
        assert found.tolist() == alone


def test_no_examples_have_no_score_above_0():
    none = np.empty(0, np.int32)
    for kind in ("classification", "tagging"):
        found = measure(kind, IOB, none, none, np.empty(0, np.int64))
        assert found == dict.fromkeys(METRICS, 0.0)
