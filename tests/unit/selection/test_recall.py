"""Recall of a cascade: the estimate against a known truth."""

import dataclasses

import numpy as np
import pytest

from corpusfit.selection.recall import DroppedSample, estimate_recall


def cascade(chance, n=20_000, spread=0.4):
    """Scores of an early and a last stage that go together, more or less; few are high."""
    last = np.exp(chance.standard_normal(n)).astype(np.float32)
    return (np.log(last) + chance.normal(0, spread, n)).astype(np.float32), last


def lost(early, last, drawn, share):
    """What a run would know, and which segments came through."""
    passed = early >= np.sort(early)[-round(share * len(early))]
    scores = np.sort(last[drawn][~passed[drawn]])[::-1]
    ahead = (last[passed][None] >= scores[:, None]).sum(axis=1)
    return DroppedSample(scores, ahead, int(passed.sum()), len(drawn), len(last)), passed


def test_with_all_of_the_corpus_as_sample_the_estimate_is_the_truth():
    early, last = cascade(np.random.default_rng(1), 2_000)
    known, passed = lost(early, last, np.arange(2_000), 0.15)
    for taken in (1, 7, 100, 200, 300, 1_000, 2_000):
        found = estimate_recall(known, taken)
        best = passed[np.argsort(-last)[:taken]]
        assert found["estimate"] == pytest.approx(best.mean(), abs=1.01 / taken), taken
        assert abs(found["lost"] - (~best).sum()) <= 1
    threshold = float(np.sort(last)[-400])
    found = estimate_recall(known, int((passed & (last >= threshold)).sum()), threshold)
    assert found["estimate"] == pytest.approx(passed[last >= threshold].mean())
    assert found["lost"] == (~passed & (last >= threshold)).sum()


def test_nothing_lost_is_a_recall_of_one():
    none = DroppedSample(np.empty(0, np.float32), np.empty(0, np.int64), 1_000, 100, 1_000)
    assert estimate_recall(none, 100) == {"estimate": 1.0, "lost": 0, "sample": 100}


def test_nothing_taken_or_sampled_is_no_recall():
    none = DroppedSample(np.empty(0, np.float32), np.empty(0, np.int64), 10, 0, 10)
    assert estimate_recall(none, 5) is None
    assert estimate_recall(dataclasses.replace(none, sample=5), 0) is None


@pytest.mark.slow
def test_the_estimate_is_right_on_average():
    errors = []
    for seed in range(40):
        chance = np.random.default_rng(seed)
        early, last = cascade(chance)
        known, passed = lost(early, last, chance.permutation(20_000)[:1_000], 0.15)
        truth = passed[np.argsort(-last)[:2_000]].mean()
        errors.append(estimate_recall(known, 2_000)["estimate"] - truth)
    assert np.mean(errors) == pytest.approx(0, abs=0.01)
    assert np.std(errors) < 0.05
