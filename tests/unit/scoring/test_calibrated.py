"""Logistic regression and calibration against scikit-learn's."""

import numpy as np
import pytest

from corpusfit.kernels.scores import balanced, logistic, loss, mid_ranks, platt, sigmoid
from corpusfit.scoring.classifiers import assign_folds, calibrated_classifier


def rows(n, width, seed=0):
    """Directions, and which of them are positive, with some noise in it."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, width))
    x[:, 0] += 2
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return x, x[:, 1] * np.sqrt(width) + rng.standard_normal(n) > 1.0


@pytest.mark.parametrize(("n", "width"), [(400, 8), (60, 100)])
@pytest.mark.parametrize("c", [0.1, 1.0, 100.0])
def test_logistic_is_scikit_learns(n, width, c):
    from sklearn.linear_model import LogisticRegression

    x, positive = rows(n, width)
    peer = LogisticRegression(C=c, class_weight="balanced", tol=1e-9, max_iter=10_000)
    peer.fit(x, positive)
    found = logistic(x, positive.astype(float), c * balanced(positive), 1.0)
    np.testing.assert_allclose(found[:-1], peer.coef_[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[-1], peer.intercept_[0], rtol=1e-4, atol=1e-5)


def test_a_start_does_not_move_the_minimum():
    x, positive = rows(200, 6)
    given = x, positive.astype(float), balanced(positive), 1.0
    start = np.full(7, 3.0)
    np.testing.assert_allclose(logistic(*given, start), logistic(*given), atol=1e-7)
    assert (start == 3.0).all()


def test_shares_of_a_row_count_as_that_many_rows():
    x, positive = rows(50, 4)
    share = np.where(positive, 0.75, 0.25)
    four = np.repeat(x, 4, axis=0)
    as_rows = (np.arange(200) % 4) < np.repeat(np.where(positive, 3, 1), 4)
    want = logistic(four, as_rows.astype(float), np.ones(200), 1.0)
    np.testing.assert_allclose(logistic(x, share, np.full(50, 4.0), 1.0), want, atol=1e-7)


def test_no_other_point_has_less_loss():
    x, positive = rows(100, 5)
    given = x, positive.astype(float), balanced(positive), 2.0
    found = logistic(*given)
    for step in np.random.default_rng(0).standard_normal((50, 6)) * 1e-3:
        assert loss(found + step, *given) > loss(found, *given)


def test_sigmoid_does_not_overflow():
    with np.errstate(all="raise", under="ignore"):
        found = sigmoid(np.array([-800.0, 0.0, np.log(3.0), 800.0]))
    np.testing.assert_allclose(found, [0.0, 0.5, 0.75, 1.0])


@pytest.mark.parametrize("share", [0.5, 0.1])
def test_platt_is_scikit_learns(share):
    from sklearn.calibration import _SigmoidCalibration

    rng = np.random.default_rng(0)
    positive = rng.random(500) < share
    score = 40.0 + 3.0 * positive + 2.0 * rng.standard_normal(500)
    peer = _SigmoidCalibration().fit(score, positive)
    np.testing.assert_allclose(platt(score, positive), (-peer.a_, -peer.b_), rtol=1e-4)


def test_platts_smoothing_keeps_two_texts_finite():
    """Separable: the targets are 2/3 and 1/3, so the log odds at the two scores are ± log 2."""
    slope, intercept = platt(np.array([-1.0, 1.0]), np.array([False, True]))
    np.testing.assert_allclose([slope, intercept], [np.log(2.0), 0.0], atol=1e-7)


def test_platt_keeps_the_order_where_scores_are_wrong():
    slope, intercept = platt(np.array([-1.0, 1.0] * 50), np.array([True, False] * 50))
    assert slope == pytest.approx(0.01)
    assert abs(intercept) < 0.01
    assert platt(np.ones(10), np.arange(10) < 5)[0] > 0.0


@pytest.mark.parametrize("c", [0.1, 10.0])
def test_calibrated_log_odds_are_scikit_learns(c):
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.linear_model import LogisticRegression

    x, positive = rows(1200, 12)
    near, far = x[positive][:150], x[~positive][:150]
    both, truth = np.concatenate([near, far]), np.arange(300) < 150
    fold = assign_folds(near, far, 3)
    splits = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(5)]
    base = LogisticRegression(C=c, class_weight="balanced", tol=1e-9)
    peer = CalibratedClassifierCV(base, method="sigmoid", cv=splits, ensemble=False)
    peer.fit(both, truth)
    weights, intercept = calibrated_classifier(near, far, c, 3)
    got = sigmoid(x @ weights + intercept)
    np.testing.assert_allclose(got, peer.predict_proba(x)[:, 1], atol=1e-5)


def test_calibrated_probabilities_come_true_on_new_texts():
    """Of new texts, as many of each class, those at probability p are positive p of the time."""
    x, positive = rows(40_000, 12, seed=1)
    few = np.concatenate([np.flatnonzero(positive)[:400], np.flatnonzero(~positive)[:4000]])
    near, far = x[few][positive[few]], x[few][~positive[few]]
    weights, intercept = calibrated_classifier(near, far, 0.1, 0)
    new = np.setdiff1d(np.arange(len(x)), few)
    weight = balanced(positive[new])
    p = sigmoid(x[new] @ weights + intercept)
    for low in np.arange(0.1, 0.9, 0.1):
        some = (p >= low) & (p < low + 0.1)
        assert np.average(positive[new][some], weights=weight[some]) == pytest.approx(
            p[some].mean(), abs=0.06
        )


@pytest.mark.parametrize(("near", "far", "folds"), [(1, 9, 0), (2, 9, 2), (4, 3, 3), (50, 70, 5)])
def test_each_fold_has_both_classes(near, far, folds):
    rng = np.random.default_rng(0)
    near, far = rng.standard_normal((near, 3)), rng.standard_normal((far, 3))
    fold = assign_folds(near, far, 5)
    if not folds:
        assert fold is None
        return
    for part in (fold[: len(near)], fold[len(near) :]):
        assert set(part) == set(range(folds))
        assert np.ptp(np.bincount(part)) <= 1
    assert (assign_folds(near, far, 5) == fold).all()


def test_equal_rows_are_held_out_together():
    rng = np.random.default_rng(0)
    near = np.repeat(rng.standard_normal((7, 3)), 6, axis=0)
    fold = assign_folds(near, rng.standard_normal((20, 3)), 0)[:42].reshape(7, 6)
    assert (fold == fold[:, :1]).all()
    assert assign_folds(np.ones((30, 3)), rng.standard_normal((20, 3)), 0) is None


def test_mid_ranks_are_scipys_average_ranks():
    from scipy.stats import rankdata

    scores = np.random.default_rng(0).integers(0, 20, 300).astype(np.float32)
    assert mid_ranks(scores) == pytest.approx((rankdata(scores) - 0.5) / 300)
