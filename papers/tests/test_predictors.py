"""Predictors of the gain against scipy, `dsir` and counting by hand; and their description."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from corpusfit.core.types import text_array
from corpusfit.scoring.methods.dsir import Dsir
from corpusfit_papers.forecasting import (
    BUCKETS,
    LAYERS,
    SMOOTHING,
    GainPredictors,
    Reduction,
    TaskNgrams,
    count,
    describe,
    divergence,
    layers,
    reduction,
)

TASK = ["the kinase binds the receptor", "A drug inhibits the kinase.", ""]
NEAR = ["the receptor binds a drug", "the kinase inhibits", "cells die"]
FAR = ["the market fell", "shares of the bank", "the bank of the market rose and fell"]


def counts(texts):
    return count(text_array(texts))


def grams_of(texts):
    """Counts of words and pairs of words."""
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
    from scipy.stats import entropy

    rng = np.random.default_rng(0)
    target, text = rng.poisson(2.0, 500).astype(float), rng.poisson(3.0, 500).astype(float)
    smooth = text / text.sum() + SMOOTHING
    expected = entropy(target / target.sum(), smooth / smooth.sum())
    assert divergence(target, text) == pytest.approx(expected)


def test_the_divergence_of_degenerate_counts():
    zeros, ones = np.zeros(10), np.ones(10)
    assert divergence(zeros, ones) == 0
    assert divergence(ones, zeros) == pytest.approx(0)
    one = np.eye(10)[0]
    assert divergence(one, zeros) == pytest.approx(np.log(10))


def whole(*counted):
    """Counts in one layer each, so all are used unless fewer are needed."""
    found = np.zeros((len(counted), LAYERS, BUCKETS))
    found[:, -1] = counted
    return found


def test_the_reduction_is_dsirs_mean_log_ratio_over_the_task():
    """KL(p || raw) - KL(p || selected) is the sum over p of log(selected / raw)."""
    p, raw, selected = counts(TASK), counts(NEAR[:1] + FAR[:1]), counts(NEAR[:2])
    size = int(raw.sum())
    assert size == selected.sum()
    sample = whole(counts(NEAR[:1]), counts(FAR[:1]))
    found = reduction(p, sample, whole(selected)[0], 0.5, size)
    smooth = [c / c.sum() + SMOOTHING for c in (raw, selected)]
    expected = np.sum(p / p.sum() * np.log(smooth[1] / smooth[0]))
    assert found.falls == pytest.approx(expected)
    assert found.raw - found.selected == pytest.approx(found.falls)
    assert found.size == size


def test_the_noise_is_the_jackknifes():
    """Leave-one-out values over the parts."""
    p, parts = counts(TASK), [counts(NEAR), counts(FAR), counts(NEAR[:1])]
    size = int(np.sum(parts))
    found = reduction(p, whole(*parts), whole(sum(parts))[0], 0.0, size)
    left = [divergence(p, sum(parts) - part) for part in parts]
    squares = sum((x - np.mean(left)) ** 2 for x in left)
    assert found.noise == pytest.approx(np.sqrt(2 / 3 * squares))
    assert found.falls == 0


def test_layers_are_all_of_the_texts_and_halves_of_them():
    texts = text_array([f"word{i} and{i}" for i in range(4_000)])
    found = layers(texts)
    np.testing.assert_array_equal(found.sum(0), count(texts))
    left = found.sum(1)[::-1].cumsum()[::-1] / found.sum()
    np.testing.assert_allclose(left[[4, 8, 12]], [0.5, 0.25, 0.125], atol=0.03)
    weights = np.linspace(0, 1, 4_000)
    np.testing.assert_allclose(layers(texts, weights).sum(0), count(texts, weights))


class Language:
    """Random texts of one language: n-grams by Zipf's law.

    Args:
        burst: repetitions of each n-gram in a text.
    """

    def __init__(self, burst, seed=0):
        self.rng, self.burst = np.random.default_rng(seed), burst
        shares = 1 / np.arange(1.0, BUCKETS + 1)
        self.share = shares / shares.sum()
        self.target = self.counted(20_000, 1)

    def counted(self, size, burst):
        drawn = self.rng.multinomial(size // burst, self.share)
        return burst * drawn.astype(float)

    def layers(self, size):
        left = 0.5 ** (np.arange(LAYERS) / 4)
        shares = left - np.append(left[1:], 0)
        return np.stack([self.counted(int(size * s), self.burst) for s in shares])

    def reduced(self, sample, selected):
        """The KL reduction of a selection, for numbers of n-grams in sample and selection."""
        parts = np.stack([self.layers(sample // 16) for _ in range(16)])
        chosen = self.layers(selected)
        size = min(int(parts.sum()), int(chosen.sum()))
        return reduction(self.target, parts, chosen, 0.0, size)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sample", "selected", "burst"),
    [
        (400_000, 400_000, 1),
        (400_000, 30_000, 1),  # without equal sizes -0.084, at a noise of 0.005
        (100_000, 4_000_000, 1),  # without equal sizes +0.026
        (100_000, 4_000_000, 4),  # without equal sizes +0.104
        (400_000, 30_000, 4),  # without equal sizes -0.256
    ],
)
def test_a_random_selection_of_any_size_has_no_kl_reduction(sample, selected, burst):
    """The mean is 0 within its error, or with repeated n-grams within the stated noise."""
    language = Language(burst)
    found = [language.reduced(sample, selected) for _ in range(20)]
    falls, noise = np.array([f.falls for f in found]), np.mean([f.apart for f in found]) / 2
    assert abs(falls.mean()) < (3.5 * falls.std() / 20**0.5 if burst == 1 else noise)
    assert 0.4 < falls.std() / noise < 1.3
    assert sum(f.sure for f in found) <= 2


def test_a_nearer_selection_of_any_size_has_a_kl_reduction():
    language = Language(1)
    near = Language(1, seed=1)
    near.share = 0.7 * near.share + 0.3 * language.target / language.target.sum()
    parts = np.stack([language.layers(25_000) for _ in range(16)])
    for size in (30_000, 300_000, 3_000_000):
        chosen = near.layers(size)
        common = min(int(parts.sum()), int(chosen.sum()))
        assert reduction(language.target, parts, chosen, 0.0, common).sure


def test_coverage_is_counted_exactly():
    known = TaskNgrams.of(text_array(TASK))
    seen = known.seen_in(text_array(NEAR[:1])) | known.seen_in(text_array(NEAR[1:]))
    task, near = grams_of(TASK), grams_of(NEAR)
    expected = sum(n for g, n in task.items() if g in near) / task.total()
    assert known.share(seen) == pytest.approx(expected)
    assert 0 < expected < 1
    assert known.share(known.seen_in(text_array(TASK))) == 1
    assert known.share(known.seen_in(text_array([]))) == 0


def prospect(data, falls, *, task="t", losses=None, noise=0.001):
    kl = Reduction(0.5, 0.5 - falls, 1000, falls, noise, 0.7)
    return GainPredictors(data, "dsir", task, 10, kl, losses or {"task": 5.0, "general": 4.5})


@pytest.mark.parametrize(
    ("falls", "losses", "expected"),
    [
        (0.001, None, "no KL reduction beyond noise: +0.001"),
        (-0.1, None, "no KL reduction beyond noise: -0.100"),
        (0.1, {"task": 4.0, "general": 4.5}, "0.50 nats below"),
    ],
)
def test_description_without_a_sign_of_gain(falls, losses, expected):
    found = describe([prospect("out", falls, losses=losses)], "bert")
    assert expected in " ".join(found)
    assert "corpusfit evaluate" in found[-1]


def test_selections_for_one_task_are_ranked():
    found = describe([prospect("rnd", 0.02), prospect("sel", 0.1), prospect("none", 0.0)], "bert")
    assert sum("0.50 nats above" in s for s in found) == 1
    assert any(s.startswith("rnd ranks below sel") and "20%" in s for s in found)
    assert any(s.startswith("none ranks below sel") and "noise" in s for s in found)


def test_selections_within_the_noise_are_not_ranked():
    found = describe([prospect("a", 0.1), prospect("b", 0.099)], "bert")
    assert any(s.startswith("b and a: no difference") for s in found)
    found = describe([prospect("a", 0.001), prospect("b", 0.0)], "bert")
    assert any(s.startswith("b and a: no difference") for s in found)
    assert not any("ranks below" in s for s in found)
