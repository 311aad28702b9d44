"""Ranking: the paper's protocol, and agreement by hand-made cases."""

import numpy as np
import pytest
from sklearn.metrics import f1_score

from corpusfit.scoring import registry
from corpusfit.scoring.rank import Trial, agreement, best_threshold, trial, verdicts

FAMILIES = {"a1": "detector", "a2": "detector", "b": "centroid", "random": "baseline"}


def test_agreement_counts_a_family_once_and_baselines_never():
    tops = {
        "a1": np.array([0, 1, 2, 3]),
        "a2": np.array([0, 1, 2, 9]),
        "b": np.array([0, 1, 8, 9]),
        "random": np.array([5, 6, 7, 8]),
    }
    even = dict.fromkeys(tops, 1.0)
    found = agreement(tops, FAMILIES, even)
    assert found["a1"] == pytest.approx((3 / 4 + 2 / 4) / 2)  # one detector, one centroid
    assert found["b"] == pytest.approx((2 / 4 + 3 / 4) / 2)  # one voice: both detectors' mean
    assert found["random"] == pytest.approx((0 + 1 / 4) / 2)
    credited = agreement(tops, FAMILIES, {**even, "b": 3.0})
    assert credited["a1"] == pytest.approx((1 * 3 / 4 + 3 * 2 / 4) / 4)
    assert agreement({"b": tops["b"]}, FAMILIES, even) == {"b": 0.0}


def test_verdicts_put_agreement_first_and_baselines_last():
    def one(method, seed, auroc, top):
        return Trial(method, FAMILIES[method], seed, 0.5, auroc, 0.6, 0.1, 10.0, np.array(top))

    trials = [
        one(m, s, auroc, top)
        for s in (0, 1)
        for m, auroc, top in [
            ("a1", 0.9, [0, 1]),
            ("a2", 0.9, [0, 1]),
            ("b", 0.8, [0, 7]),
            ("random", 0.5, [0, 1]),
        ]
    ]
    found = verdicts(trials)
    assert [v.method for v in found] == ["a1", "a2", "b", "random"]
    assert found[0].auroc == (pytest.approx(0.9), pytest.approx(0.0))


def test_best_threshold_is_the_best_of_all():
    chance = np.random.default_rng(3)
    inliers, outliers = chance.normal(1, 1, 40).astype("f4"), chance.normal(0, 1, 40).astype("f4")
    scores = np.concatenate([inliers, outliers])
    truth = np.arange(80) < 40
    best = max(f1_score(truth, scores >= t) for t in scores)
    assert f1_score(truth, scores >= best_threshold(inliers, outliers)) == pytest.approx(best)


@pytest.mark.parametrize("targets", [1, 2, 30])
@pytest.mark.parametrize("corpus", [1, 2, 300])
def test_a_trial_works_on_tiny_sets_and_finds_an_easy_domain(targets, corpus):
    chance = np.random.default_rng(0)
    target = chance.normal(2, 1, (targets, 16)).astype(np.float32)
    background = chance.normal(-2, 1, (corpus, 16)).astype(np.float32)
    method = registry.build("domain_cosine", {})
    found = trial("domain_cosine", method, target, background, seed=0)
    assert found.auroc == 1.0
    again = trial("domain_cosine", method, target, background, seed=0)
    np.testing.assert_array_equal(found.top, again.top)
    assert len(found.top) == max(
        1, round(0.1 * len(np.array_split(np.arange(max(corpus, 3)), 3)[2]))
    )


def test_the_best_threshold_accepts_equal_scores_together():
    inliers, outliers = np.float32([5] * 6 + [0] * 4), np.zeros(10, np.float32)
    assert best_threshold(inliers, outliers) == 5  # F1 of 0.75, and 0.667 at 0
