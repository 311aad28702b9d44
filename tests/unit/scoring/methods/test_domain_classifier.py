"""`domain_classifier`: its parts against scikit-learn, and what pre-ranking is for."""

import numpy as np
import pytest

from corpusfit.kernels.scores import sigmoid
from corpusfit.scoring import registry


def texts(n, place, seed):
    """Embeddings around a place in 16 dimensions, off the origin as encoders' are."""
    rng = np.random.default_rng(seed)
    center = np.full(16, 1.5)
    center[place] += 3.0
    return (center + rng.standard_normal((n, 16))).astype(np.float32)


TARGET, REST = texts(120, 0, 1), texts(300, 1, 2)
MIXED = np.concatenate([REST, texts(100, 0, 3)])


def fit(target, background, seed=5, **settings):
    return registry.build("domain_classifier", settings).fit(target, background, seed=seed)


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@pytest.mark.parametrize("centered", [False, True])
def test_the_order_is_that_of_scikit_learns_logistic_regression(centered):
    from sklearn.linear_model import LogisticRegression

    mean = MIXED.mean(axis=0, dtype=np.float64) * centered
    near, far = unit(TARGET - mean), unit(MIXED - mean)
    low = np.argsort(far @ near.mean(axis=0))[:267]  # two thirds of 400, rounded up
    both = np.concatenate([near, far[low]])
    truth = np.arange(len(both)) < len(near)
    peer = LogisticRegression(C=0.5, class_weight="balanced", tol=1e-9).fit(both, truth)
    want = peer.decision_function(unit(MIXED - mean))
    got = fit(TARGET, MIXED, centered=centered, c=0.5).score(MIXED)
    slope, offset = np.polyfit(want, got, 1)
    assert slope > 0
    np.testing.assert_allclose(got, slope * want + offset, atol=1e-4 * np.ptp(got))


def test_pre_ranking_keeps_the_targets_kin_out_of_the_negatives():
    kin = texts(200, 0, 4)
    with_it = sigmoid(fit(TARGET, MIXED).score(kin).astype(float))
    without = sigmoid(fit(TARGET, MIXED, preranked=False).score(kin).astype(float))
    assert np.median(with_it) > 0.9
    assert np.median(without) < np.median(with_it) - 0.1


def test_negatives_are_drawn_by_the_seed_and_their_number_kept():
    scores = [fit(TARGET, MIXED, s, negatives=0.5).score(REST[:9]) for s in (1, 1, 2)]
    assert (scores[0] == scores[1]).all()
    assert (scores[0] != scores[2]).any()
    everything = fit(TARGET, MIXED, negatives=50.0).score(REST)
    assert (everything == fit(TARGET, MIXED, negatives=0.0).score(REST)).all()
    assert (everything != fit(TARGET, MIXED, negatives=0.5).score(REST)).any()


def test_length_does_not_count_unless_centered():
    scorer = fit(TARGET, MIXED, centered=False)
    np.testing.assert_allclose(scorer.score(MIXED * 7), scorer.score(MIXED), atol=1e-5)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_a_tiny_targets_kin_still_comes_first(n):
    scorer = fit(TARGET[:n], MIXED)
    assert np.median(scorer.score(texts(50, 0, 6))) > np.quantile(scorer.score(REST), 0.9)


@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("preranked", [False, True])
def test_where_there_is_nothing_to_tell_apart_the_odds_are_even(centered, preranked):
    same = np.ones((40, 16), np.float32)
    scorer = fit(same, same[:25], centered=centered, preranked=preranked)
    np.testing.assert_allclose(scorer.score(same), 0.0, atol=1e-3)


def test_a_target_that_is_in_the_corpus_too_is_not_turned_away():
    corpus = np.concatenate([MIXED, TARGET])
    scores = fit(TARGET, corpus).score(corpus)
    assert np.median(scores[-120:]) > 0.0 > np.median(scores[:300])


def test_a_target_that_is_half_of_the_corpus_is_not_turned_away():
    corpus = np.concatenate([TARGET, texts(120, 1, 7)])
    scores = fit(TARGET, corpus).score(corpus)
    assert np.isfinite(scores).all()
    assert np.median(scores[:120]) > 0.0 > np.median(scores[120:])


def test_one_text_on_each_side_is_enough():
    scorer = fit(TARGET[:1], REST[:1])
    target, rest = scorer.score(np.concatenate([TARGET[:1], REST[:1]]))
    assert target > rest
