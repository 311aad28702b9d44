"""Recall of a cascade: the interval against scipy, the estimate against a known truth."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from corpusfit.core.plan import ChoosePlan
from corpusfit.selection.recall import (
    DroppedSample,
    clopper_pearson,
    estimate_recall,
    last_stage_selection,
    shares_for,
)


@pytest.mark.parametrize(("k", "n"), [(0, 10), (10, 10), (1, 1), (84, 88), (9, 200), (500, 1000)])
@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_the_interval_is_scipys(k, n, confidence):
    from scipy.stats import binomtest

    theirs = binomtest(k, n).proportion_ci(confidence, method="exact")
    assert clopper_pearson(k, n, confidence) == pytest.approx((theirs.low, theirs.high), abs=1e-9)


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


@pytest.mark.slow
@pytest.mark.parametrize("small", [False, True])
def test_the_interval_holds_the_truth_as_often_as_it_says(small):
    """The whole way: shares from one half of a sample, recall from the other; truth known."""
    held, recalls = 0, []
    fraction, size = (0.05, 100) if small else (0.1, 500)
    amount, total = ChoosePlan(fraction=fraction), 20_000
    for seed in range(100):
        chance = np.random.default_rng(seed)
        early, last = cascade(chance)
        drawn = chance.permutation(total)[: 2 * size]
        half, other = drawn[:size], drawn[size:]
        of = last_stage_selection(
            last[half], np.ones(size, np.int64), amount, segments=total, all_tokens=total
        )
        (share,) = shares_for([early[half]], of, 0.95, [1, 300])
        known, passed = lost(early, last, other, share)
        taken = round(fraction * total)
        truth = passed[np.argsort(-last)[:taken]].mean()
        found = estimate_recall(known, taken, 0.95)
        held += found.low <= truth <= found.high
        recalls.append(truth)
    assert held >= 92  # of 100; where it is 95 or more as it has to be, less is seen 1 time in 20
    if not small:  # 49 of 50 have to come through
        assert np.mean(recalls) == pytest.approx(49 / 51, abs=0.01)


def test_with_all_of_the_corpus_as_sample_the_estimate_is_the_truth():
    early, last = cascade(np.random.default_rng(1), 2_000)
    known, passed = lost(early, last, np.arange(2_000), 0.15)
    for taken in (1, 7, 100, 200, 300, 1_000, 2_000):
        found = estimate_recall(known, taken, 0.95)
        best = passed[np.argsort(-last)[:taken]]
        assert found.estimate == pytest.approx(best.mean(), abs=1.01 / taken), taken
        assert found.low <= best.mean() <= found.high
        assert abs(found.lost - (~best).sum()) <= 1
    threshold = float(np.sort(last)[-400])
    found = estimate_recall(known, int((passed & (last >= threshold)).sum()), 0.95, threshold)
    assert found.estimate == pytest.approx(passed[last >= threshold].mean())
    assert found.lost == (~passed & (last >= threshold)).sum()


def test_nothing_lost_is_bounded_from_below_only():
    none = DroppedSample(np.empty(0, np.float32), np.empty(0, np.int64), 1_000, 100, 1_000)
    found = estimate_recall(none, 100, 0.95)
    assert (found.estimate, found.high, found.lost) == (1.0, 1.0, 0)
    assert found.low == pytest.approx(1 - clopper_pearson(0, 100, 0.95)[1] * 1_000 / 100)


def test_nothing_taken_or_sampled_is_no_recall():
    none = DroppedSample(np.empty(0, np.float32), np.empty(0, np.int64), 10, 0, 10)
    assert estimate_recall(none, 5, 0.95) is None
    assert estimate_recall(dataclasses.replace(none, sample=5), 0, 0.95) is None


@pytest.mark.parametrize(
    ("amount", "taken"),
    [
        ({"fraction": 0.5}, [1, 3]),
        ({"fraction": 0.001}, [3]),
        ({}, [3]),
        ({"segments": 500}, [1, 3]),
        ({"segments": 5_000}, [0, 1, 2, 3]),
        ({"tokens": 7_000}, [1, 3]),
        ({"tokens": 1}, [3]),
        ({"fraction": 0.7}, [1, 3]),
        ({"fraction": 0.7, "fraction_of": "segments"}, [1, 2, 3]),
        ({"threshold": 2.0}, [1, 2, 3]),
        ({"threshold": 9.0}, []),
    ],
)
def test_what_a_whole_corpus_would_give_is_found_in_the_sample(amount, taken):
    scores = np.array([1, 3, 2, 4], np.float32)
    tokens = np.array([10, 40, 20, 30])
    found = last_stage_selection(
        scores, tokens, ChoosePlan(**amount), segments=1_000, all_tokens=10_000
    )
    assert np.flatnonzero(found).tolist() == taken


def test_equal_scores_are_taken_in_order():
    found = last_stage_selection(
        np.zeros(4, np.float32),
        np.ones(4, np.int64),
        ChoosePlan(fraction=0.5),
        segments=4,
        all_tokens=4,
    )
    assert found.tolist() == [True, True, False, False]


def test_shares_cost_least_of_all_that_keep_enough():
    """Two stages before the last one, against trying every pair of shares."""
    chance = np.random.default_rng(3)
    n, costs = 60, [1, 20, 300]
    last = chance.standard_normal(n)
    scores = [(last + chance.normal(0, s, n)).astype(np.float32) for s in (1.5, 0.4)]
    of = last >= np.sort(last)[-12]
    need = 11  # of 12, that 0.8 of 13 asks for

    def kept(counts):
        alive = np.arange(n)
        for s, count in zip(scores, counts, strict=True):
            alive = alive[np.argsort(-s[alive], kind="stable")[:count]]
        return of[alive].sum()

    def cost(counts):
        return counts[0] / n * costs[1] + counts[1] / n * costs[2]

    best = min(
        (
            c
            for c in itertools.product(range(1, n + 1), repeat=2)
            if c[1] <= c[0] and kept(c) >= need
        ),
        key=cost,
    )
    found = [round(share * n) for share in shares_for(scores, of, 0.8, costs)]
    assert kept(found) >= need
    assert cost(found) == pytest.approx(cost(best))


def test_all_of_the_recall_keeps_all():
    early, last = cascade(np.random.default_rng(0), 500)
    of = last > 1
    shares = shares_for([early, early], of, 1.0, [1, 3, 300])
    assert shares == sorted(shares, reverse=True)
    passed = early >= np.sort(early)[-round(shares[-1] * 500)]
    assert passed[of].all()
