"""Which classes have too few texts to be scored."""

import numpy as np
import pytest

from corpusfit.evaluation.task import Examples, Task
from corpusfit.evaluation.tasks import load


def cautions(train, test, metric):
    splits = [Examples([["x"]] * sum(n), np.repeat([0, 1], n)[:, None]) for n in (train, test)]
    task = Task("t", "classification", ("a", "b"), 2, splits[0], splits[0], splits[1])
    return load(task.kind).cautions(task, metric)


@pytest.mark.parametrize(
    ("train", "test", "named"), [([9, 9], [9, 9], []), ([9, 4], [9, 9], ["b (4 and 9)"])]
)
def test_rare_classes_are_named(train, test, named):
    said = cautions(train, test, "macro_f1")
    assert [name in sentence for name, sentence in zip(named, said, strict=True)] == [True] * len(
        named
    )


def test_nothing_is_said_where_each_text_counts_the_same():
    assert cautions([9, 4], [9, 9], "accuracy") == []
