"""Probes of frozen models."""

import numpy as np
import pytest

from corpusfit.evaluation.plan import EvaluatePlan
from corpusfit.evaluation.probing import WHOLE, probe
from corpusfit.evaluation.task import Examples, Task

pytest.importorskip("torch", reason="the extra train is not installed")
SHORT, LONG, LENGTH = 10, 60, 24


def sentences(n, words, seed):
    rng = np.random.default_rng(seed)
    pieces = [rng.choice(["kinase", "market"], words).tolist() for _ in range(n)]
    return Examples(pieces, [[int(word == "kinase") for word in row] for row in pieces])


def probed(model, train, test):
    dev = sentences(10, SHORT, 1)
    task = Task("task", "tagging", ("O", "B-X"), 2, train, dev, test)
    plan = EvaluatePlan().with_value("model.name", str(model)).with_value("finetune.length", LENGTH)
    return probe(task, plan, [WHOLE])[0]


def test_words_behind_the_length_are_no_entities_and_teach_nothing(tiny_lm):
    """As fine-tuning answers them; a probe of their zeros would say of all the same, by chance."""
    train, test = sentences(30, LONG, 0), sentences(5, LONG, 2)
    found = probed(tiny_lm, train, test)
    answers = np.array(found.predicted["test"]).reshape(5, LONG)
    assert answers[:, : LENGTH // 2].any()
    assert not answers[:, LENGTH:].any()
    other = [[*labels[:LENGTH], *(1 - n for n in labels[LENGTH:])] for labels in train.labels]
    again = probed(tiny_lm, Examples(train.pieces, other), test)
    assert (again.predicted, again.history) == (found.predicted, found.history)
