"""Every detector against the library that others use for it: scikit-learn or PyOD."""

from fractions import Fraction

import numpy as np
import pytest
from sklearn.ensemble import _iforest

from corpusfit.scoring import registry


def average_path(n):
    """c(n) = 2 H(n - 1) - 2 (n - 1) / n of n samples, by exact harmonic numbers."""
    harmonic = {k: sum(Fraction(1, i) for i in range(1, k)) for k in {*n}}
    return np.array([float(2 * harmonic[k] - Fraction(2 * k - 2, k)) for k in n])


@pytest.fixture
def by_harmonic_numbers(monkeypatch):
    """scikit-learn's forest with c(n) as in TADPOLE, appendix C, in place of its estimate."""
    monkeypatch.setattr(
        _iforest, "_average_path_length", lambda n: average_path(np.ravel(n).tolist())
    )


@pytest.fixture(scope="module", params=[24, 384])
def data(request):
    """Target, background and new rows: correlated, off the origin, with some near the target."""
    width = request.param
    rng = np.random.default_rng(width)
    mix = rng.standard_normal((width, width)) / np.sqrt(width)
    target = (rng.standard_normal((300, width)) @ mix + 0.3).astype(np.float32)
    background = (1.5 * rng.standard_normal((200, width))).astype(np.float32)
    new = (1.5 * rng.standard_normal((100, width))).astype(np.float32)
    return target, background, np.concatenate([new, target[:20] + np.float32(0.01)])


def ours(name, data, seed=3, **settings):
    target, background, new = data
    return registry.build(name, settings).fit(target, background, seed=seed).score(new)


@pytest.mark.usefixtures("by_harmonic_numbers")
@pytest.mark.parametrize("subsample", [2, 64, 256])
def test_isolation_forest_is_scikit_learns(data, subsample):
    from sklearn.ensemble import IsolationForest

    target, background, new = data
    # Algorithm 1: a tenth of the target's size from the background, drawn from the seed.
    chosen = np.random.default_rng(3).choice(len(background), 30, replace=False)
    both = np.concatenate([target, background[np.sort(chosen)]])
    peer = IsolationForest(n_estimators=100, max_samples=subsample, random_state=3).fit(both)
    got = ours("isolation_forest", data, subsample=subsample)
    np.testing.assert_allclose(got, peer.score_samples(new), atol=1e-6, rtol=0)
    scorer = registry.build("isolation_forest", {"subsample": subsample}).fit(
        target, background, seed=3
    )
    np.testing.assert_allclose(scorer.score(both), peer.score_samples(both), atol=1e-6, rtol=0)


@pytest.mark.usefixtures("by_harmonic_numbers")
def test_isolation_forest_of_the_target_alone(data):
    """TADPOLE, section 3.1: no text of the corpus, for any of which the scores are the same."""
    from sklearn.ensemble import IsolationForest

    target, background, new = data
    alone = [
        ours("isolation_forest", (target, other, new), background=0.0)
        for other in (background, background[::-1] + 1)
    ]
    np.testing.assert_array_equal(*alone)
    size = min(256, len(target))
    peer = IsolationForest(n_estimators=100, max_samples=size, random_state=3).fit(target)
    np.testing.assert_allclose(alone[0], peer.score_samples(new), atol=1e-6, rtol=0)


def test_isolation_forest_takes_at_least_one_background_text():
    target = np.zeros((3, 4), np.float32)
    background = np.ones((2, 4), np.float32)
    scorer = registry.build("isolation_forest", {}).fit(target, background, seed=0)
    near, far = scorer.score(np.stack([target[0], background[0]]))
    assert near > far


@pytest.mark.parametrize("k", [1, 5])
def test_knn_is_pyods_largest(data, k):
    from pyod.models.knn import KNN

    target, _, new = data
    peer = KNN(n_neighbors=k, method="largest").fit(target.astype(np.float64))
    want = -peer.decision_function(new.astype(np.float64))
    np.testing.assert_allclose(ours("knn", data, k=k), want, rtol=1e-5)


@pytest.mark.parametrize("centered", [False, True])
def test_domain_cosine_is_the_formula(data, centered):
    target, background, new = data
    mean = background.mean(axis=0, dtype=np.float64) * centered
    query = target.mean(axis=0, dtype=np.float64) - mean
    placed = new - mean
    want = placed @ query / (np.linalg.norm(placed, axis=1) * np.linalg.norm(query))
    np.testing.assert_allclose(ours("domain_cosine", data, centered=centered), want, atol=1e-6)


def test_domain_cosine_centered_on_the_target_itself_is_zero(data):
    target, _, new = data
    assert (ours("domain_cosine", (target, target, new), centered=True) == 0).all()
