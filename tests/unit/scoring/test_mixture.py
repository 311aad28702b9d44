"""Mixtures against scikit-learn's, and their properties by definition."""

import numpy as np
import pytest

from corpusfit.scoring import clusters
from corpusfit.scoring.clusters import fit_mixture


@pytest.fixture(scope="module")
def clouds():
    """Three clouds of different shape, and the cloud of each row."""
    rng = np.random.default_rng(0)
    made, of = [], []
    for number, (n, center) in enumerate(((600, -2.0), (500, 1.0), (400, 4.0))):
        shape = np.eye(5) + rng.normal(size=(5, 5)) * 0.3
        made.append(rng.normal(size=(n, 5)) @ shape + center)
        of += [number] * n
    order = rng.permutation(len(of))
    return np.concatenate(made)[order].astype(np.float32), np.array(of)[order]


def test_as_likely_as_scikit_learns(clouds):
    from sklearn.mixture import GaussianMixture

    x, _ = clouds
    theirs = GaussianMixture(3, n_init=5, max_iter=150, random_state=0).fit(x.astype(float))
    ours = fit_mixture(x, 3, seed=0)
    assert ours.converged
    assert ours.likelihood == pytest.approx(theirs.score(x.astype(float)), abs=5e-3)
    assert ours.bic() == pytest.approx(theirs.bic(x.astype(float)), rel=2e-3)


def test_clouds_are_found(clouds):
    x, of = clouds
    found = fit_mixture(x, 3, seed=1).shares(x).argmax(axis=1)
    pure = sum(np.bincount(of[found == j]).max() for j in range(3)) / len(x)
    assert pure > 0.97


def test_shares_add_up_to_one(clouds):
    x, _ = clouds
    shares = fit_mixture(x, 4, seed=0).shares(x)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, atol=1e-5)


def test_bic_finds_how_many(clouds):
    x, _ = clouds
    bic = {k: fit_mixture(x, k, seed=0).bic() for k in (1, 2, 3, 4, 5)}
    assert min(bic, key=bic.get) == 3


def test_more_rows_than_the_sample(clouds, monkeypatch):
    x, _ = clouds
    monkeypatch.setattr(clusters, "SAMPLE", 400)
    whole = fit_mixture(x, 3, seed=0)
    assert whole.rows == len(x)
    monkeypatch.undo()
    assert whole.likelihood == pytest.approx(fit_mixture(x, 3, seed=0).likelihood, abs=0.01)


@pytest.mark.parametrize("k", [1, 4])
def test_rows_that_are_all_the_same(k):
    found = fit_mixture(np.ones((10, 3), np.float32), k, seed=0)
    assert np.isfinite(found.shares(np.ones((2, 3), np.float32))).all()


def test_too_few_rows():
    with pytest.raises(ValueError, match=r"\b2 rows.*\b3 components"):
        fit_mixture(np.ones((2, 3), np.float32), 3, seed=0)
