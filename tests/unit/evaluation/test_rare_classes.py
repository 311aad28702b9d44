"""Which classes have too few texts to be scored."""

import numpy as np
import pytest

from corpusfit.evaluation.task import Examples, Task, rare_classes


def task(train, test, kind="classification"):
    splits = [Examples([["x"]] * sum(n), np.repeat([0, 1], n)[:, None]) for n in (train, test)]
    return Task("t", kind, ("a", "b"), 2, splits[0], splits[0], splits[1])


@pytest.mark.parametrize(
    ("train", "test", "named"), [([9, 9], [9, 9], []), ([9, 4], [9, 9], ["b (4 and 9)"])]
)
def test_rare_classes_are_named(train, test, named):
    said = rare_classes(task(train, test), "macro_f1")
    assert [name in sentence for name, sentence in zip(named, said, strict=True)] == [True] * len(
        named
    )


@pytest.mark.parametrize(
    ("kind", "metric"), [("classification", "accuracy"), ("tagging", "macro_f1")]
)
def test_nothing_is_said_of_other_metrics_and_kinds(kind, metric):
    assert rare_classes(task([9, 4], [9, 9], kind), metric) == []
