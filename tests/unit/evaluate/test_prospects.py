"""The figures of a forecast against scipy, `dsir` and counting by hand; and its words."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import entropy

from corpusfit.evaluate.forecast import (
    FEATURES,
    Known,
    Prospect,
    Reduction,
    count,
    divergence,
    reduction,
    words,
)
from corpusfit.score.methods.dsir import Dsir
from corpusfit.types import text_array

TASK = ["the kinase binds the receptor", "A drug inhibits the kinase.", ""]
NEAR = ["the receptor binds a drug", "the kinase inhibits", "cells die"]
FAR = ["the market fell", "shares of the bank", "the bank of the market rose and fell"]


def counts(texts):
    return count(text_array(texts))


def grams_of(texts):
    """Words and pairs of them, as scikit-learn or anyone would count them."""
    split = [t.lower().replace(".", "").split() for t in texts]
    return Counter(g for t in split for g in [*t, *pairwise(t)])


def test_counts_are_in_the_feature_space_of_dsir():
    found = counts(TASK)
    np.testing.assert_allclose(found / found.sum(), Dsir()._shares(text_array(TASK)))
    assert found.sum() == grams_of(TASK).total()


def test_texts_count_by_their_weights():
    found = count(text_array(NEAR), np.array([2.0, 0.0, 0.5]))
    expected = 2 * counts(NEAR[:1]) + 0.5 * counts(NEAR[2:])
    np.testing.assert_allclose(found, expected)


def test_the_divergence_is_scipys():
    chance = np.random.default_rng(0)
    target, text = chance.poisson(2.0, 500).astype(float), chance.poisson(3.0, 500).astype(float)
    smooth = text / text.sum() + FEATURES.smoothing
    expected = entropy(target / target.sum(), smooth / smooth.sum())
    assert divergence(target, text) == pytest.approx(expected)


def test_the_divergence_of_ends():
    zeros, ones = np.zeros(10), np.ones(10)
    assert divergence(zeros, ones) == 0
    assert divergence(ones, zeros) == pytest.approx(0)
    one = np.eye(10)[0]
    assert divergence(one, zeros) == pytest.approx(np.log(10))


def test_the_reduction_is_dsirs_mean_log_ratio_over_the_task():
    """KL(p || raw) - KL(p || selected) is the sum over p of log(selected / raw)."""
    p, raw, selected = counts(TASK), counts(NEAR + FAR), counts(NEAR)
    found = reduction(p, [counts(NEAR), counts(FAR)], selected, 0.5)
    smooth = [c / c.sum() + FEATURES.smoothing for c in (raw, selected)]
    expected = np.sum(p / p.sum() * np.log(smooth[1] / smooth[0]))
    assert found.falls == pytest.approx(expected)
    assert found.raw - found.selected == pytest.approx(found.falls)
    assert reduction(p, [raw], counts(FAR), 0.5).falls < found.falls


def test_the_noise_is_the_jackknifes():
    """Its parts stand for observations: the spread of the figure as each is left out."""
    p, parts = counts(TASK), [counts(NEAR), counts(FAR), counts(NEAR[:1])]
    found = reduction(p, parts, counts(NEAR), 0.0)
    left = [divergence(p, sum(parts) - part) for part in parts]
    squares = sum((x - np.mean(left)) ** 2 for x in left)
    assert found.noise == pytest.approx(np.sqrt(2 / 3 * squares))


def test_a_divergence_does_not_grow_as_text_gets_less():
    assert divergence(counts(TASK), counts(NEAR * 100)) == pytest.approx(
        divergence(counts(TASK), counts(NEAR))
    )


def test_text_drawn_as_the_sample_was_brings_no_sure_fall():
    """Of a hundred selections by chance at most a few are called nearer."""
    chance = np.random.default_rng(1)
    share = chance.dirichlet(np.full(FEATURES.buckets, 0.1))
    target = chance.multinomial(20_000, chance.dirichlet(np.full(FEATURES.buckets, 0.1)))
    sure = 0
    for _ in range(100):
        parts = [chance.multinomial(25_000, share).astype(float) for _ in range(16)]
        selected = chance.multinomial(400_000, share).astype(float)
        sure += reduction(target.astype(float), parts, selected, 0.0).sure
    assert sure <= 8


def test_what_is_covered_is_counted_exactly():
    known = Known.of(text_array(TASK))
    seen = known.seen_in(text_array(NEAR[:1])) | known.seen_in(text_array(NEAR[1:]))
    task, near = grams_of(TASK), grams_of(NEAR)
    expected = sum(n for g, n in task.items() if g in near) / task.total()
    assert known.share(seen) == pytest.approx(expected)
    assert 0 < expected < 1
    assert known.share(known.seen_in(text_array(TASK))) == 1
    assert known.share(known.seen_in(text_array([]))) == 0


def prospect(data, falls, *, task="t", losses=None, noise=0.001):
    kl = Reduction(0.5, 0.5 - falls, falls, noise, 0.7)
    return Prospect(data, "dsir", task, 10, kl, losses or {"task": 5.0, "general": 4.5})


def test_words_of_one_selection():
    said = " ".join(words([prospect("out", 0.1)], "bert"))
    assert "falls by 0.100 of 0.500 nats, 20%" in said
    assert "0.50 more" in said
    assert "Both signs speak for adapting on out" in said
    assert "is not known" in said


@pytest.mark.parametrize(
    ("falls", "losses", "expected"),
    [
        (0.001, None, "not likely to pay more than on any text"),
        (-0.1, None, "not likely to pay more than on any text"),
        (0.1, {"task": 4.0, "general": 4.5}, "One sign of two"),
        (0.1, {"general": 4.5}, "The task's texts are gone"),
    ],
)
def test_words_where_a_sign_is_missing(falls, losses, expected):
    said = " ".join(words([prospect("out", falls, losses=losses)], "bert"))
    assert expected in said
    assert "Both signs" not in said


def test_selections_for_one_task_are_ranked():
    said = words([prospect("rnd", 0.02), prospect("sel", 0.1), prospect("none", 0.0)], "bert")
    assert any("Both signs speak for adapting on sel" in s for s in said)
    assert sum("0.50 more" in s for s in said) == 1
    assert any(s.startswith("rnd comes behind sel") and "20%" in s for s in said)
    assert any(s.startswith("none comes behind sel") and "no nearer" in s for s in said)


def test_selections_for_different_tasks_are_not():
    said = words([prospect("a", 0.02), prospect("b", 0.1, task="u")], "bert")
    assert sum("Both signs" in s for s in said) == 2
    assert not any("comes behind" in s for s in said)
