"""EM's steps against scikit-learn's GaussianMixture."""

import numpy as np
import pytest

from corpusfit.kernels.vectors import Gaussians, densities, gather_sums, maximize, responsibilities


@pytest.fixture
def rows():
    """Three clouds of different shape, overlapping."""
    chance = np.random.default_rng(0)
    made = []
    for n, center in ((400, -1.0), (300, 0.5), (200, 1.5)):
        shape = chance.normal(size=(6, 6)) * 0.4
        made.append(chance.normal(size=(n, 6)) @ shape + center)
    x = np.concatenate(made)
    return ((x - x.mean(axis=0)) / x.std(axis=0)).astype(np.float32)


def started(rows, k=3):
    chance = np.random.default_rng(1)
    d = rows.shape[1]
    means = rows[chance.choice(len(rows), k, replace=False)].astype(np.float64)
    return Gaussians(np.full(k, 1.0 / k), means, np.broadcast_to(np.eye(d), (k, d, d)).copy())


def sklearns(rows, start, steps):
    from sklearn.mixture import GaussianMixture

    model = GaussianMixture(
        len(start.weights), max_iter=steps, tol=0.0, reg_covar=1e-6,
        weights_init=start.weights, means_init=start.means,
        precisions_init=start.factors @ start.factors.transpose(0, 2, 1),
    )  # fmt: skip
    with pytest.warns(match="did not converge"):
        return model.fit(rows.astype(np.float64))


@pytest.mark.parametrize("steps", [1, 20])
def test_the_same_steps_as_scikit_learns(rows, steps):
    ours = started(rows)
    theirs = sklearns(rows, ours, steps)
    for _ in range(steps):
        sums = gather_sums(rows[:500], ours)
        sums.add(gather_sums(rows[500:], ours))
        assert sums.rows == len(rows)
        ours = maximize(sums, 1e-6)
    np.testing.assert_allclose(ours.weights, theirs.weights_, atol=2e-4)
    np.testing.assert_allclose(ours.means, theirs.means_, atol=2e-3)
    precisions = ours.factors @ ours.factors.transpose(0, 2, 1)
    covariances = np.linalg.inv(precisions)
    np.testing.assert_allclose(covariances, theirs.covariances_, atol=2e-3)
    shares, likelihoods = responsibilities(densities(rows, ours))
    assert likelihoods.mean() == pytest.approx(theirs.score(rows), abs=1e-3)
    np.testing.assert_allclose(shares, theirs.predict_proba(rows), atol=5e-3)


def test_likelihood_never_falls(rows):
    now, before = started(rows), -np.inf
    for _ in range(15):
        sums = gather_sums(rows, now)
        assert sums.likelihood >= before - 1e-2
        now, before = maximize(sums, 1e-6), sums.likelihood


def test_a_component_of_copies_keeps_a_width():
    """Its covariance is rounding alone, and may come out with variances below 0."""
    x = (np.random.default_rng(0).normal(size=(1, 40)) * 9).astype(np.float32).repeat(50, axis=0)
    found = maximize(gather_sums(x, started(x, 1)), 1e-6)
    assert np.isfinite(found.factors).all()
    assert np.isfinite(densities(x, found)).all()
