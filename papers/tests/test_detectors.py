"""Every detector against the library that others use for it: scikit-learn or PyOD."""

import sys

import numpy as np
import pytest

from corpusfit.core.errors import InputError, UsageError
from corpusfit.scoring import registry


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


def test_lof_is_scikit_learns(data):
    from sklearn.neighbors import LocalOutlierFactor

    target, _, new = data
    peer = LocalOutlierFactor(n_neighbors=20, novelty=True).fit(target.astype(np.float64))
    want = peer.score_samples(new.astype(np.float64))
    np.testing.assert_allclose(ours("lof", data), want, rtol=1e-4)


@pytest.mark.parametrize("nu", [0.1, 0.5])
def test_one_class_svm_is_scikit_learns(data, nu):
    from sklearn.svm import OneClassSVM

    target, _, new = data
    peer = OneClassSVM(nu=nu, gamma="scale").fit(target.astype(np.float64))
    want = peer.decision_function(new.astype(np.float64))
    scale = abs(float(peer.intercept_[0]))
    np.testing.assert_allclose(ours("one_class_svm", data, nu=nu), want, atol=1e-5 * scale)


@pytest.mark.parametrize("variance", [0.5, 0.95])
def test_pca_is_scikit_learns_reconstruction_error(data, variance):
    from sklearn.decomposition import PCA

    target, _, new = data
    peer = PCA(n_components=variance, svd_solver="full").fit(target.astype(np.float64))
    wide = new.astype(np.float64)
    want = -np.linalg.norm(wide - peer.inverse_transform(peer.transform(wide)), axis=1)
    np.testing.assert_allclose(ours("pca", data, variance=variance), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("components", [5, 50])
def test_robust_covariance_is_scikit_learns(data, components):
    from sklearn.covariance import MinCovDet
    from sklearn.decomposition import PCA

    target, background, new = data
    # The subsets that MinCovDet draws follow the rows' order, and ours come sorted.
    rows = np.unique(target, axis=0).astype(np.float64)
    count = min(components, 24, len(rows) // 5)
    drawn = np.sort(np.random.default_rng(3).permutation(len(background))[: len(rows)])
    both = np.concatenate([rows, background[drawn].astype(np.float64)])
    peer = PCA(n_components=count, svd_solver="full").fit(both)
    mcd = MinCovDet(random_state=3).fit(peer.transform(rows))
    want = -np.sqrt(mcd.mahalanobis(peer.transform(new.astype(np.float64))))
    got = ours("robust_covariance", data, components=count)
    np.testing.assert_allclose(got, want, rtol=1e-3)


@pytest.mark.parametrize("width", [384, 768])
@pytest.mark.parametrize("n", [3, 9, 12, 40])
def test_robust_covariance_works_where_dimensions_outnumber_texts(width, n):
    rng = np.random.default_rng(width + n)
    target, background = rng.standard_normal((2, n, width)).astype(np.float32)
    scorer = registry.build("robust_covariance", {}).fit(target, background, seed=0)
    assert np.isfinite(scorer.score(background)).all()
    assert len(scorer.whiten) in (0, *range(2, n // 5 + 1))


def test_robust_covariance_sees_directions_in_which_only_the_corpus_varies():
    rng = np.random.default_rng(0)
    target, background = rng.standard_normal((2, 200, 20)).astype(np.float32) * 0.1
    target[:, :2] += rng.standard_normal((200, 2)) * 0.3
    background[:, 10] += 5
    scorer = registry.build("robust_covariance", {"components": 3}).fit(target, background, seed=0)
    assert scorer.score(target).min() > scorer.score(background).max()


def test_robust_covariance_is_not_pulled_by_outliers():
    rng = np.random.default_rng(0)
    target = rng.standard_normal((200, 4)).astype(np.float32)
    target[:20] += 50
    scorer = registry.build("robust_covariance", {}).fit(target, target, seed=0)
    assert scorer.score(target[:20]).max() < 3 * scorer.score(target[20:]).min()


def test_centroid_distance_is_the_formula(data):
    target, background, new = data
    to_target, to_rest = (
        np.linalg.norm(new - part.mean(axis=0, dtype=np.float64), axis=1)
        for part in (target, background)
    )
    np.testing.assert_allclose(ours("centroid_distance", data), to_rest - to_target, atol=1e-4)


@pytest.mark.parametrize("detector", ["KNN", "HBOS", "IForest", "PCA"])
def test_pyod_is_pyod(data, detector):
    from pyod.models.hbos import HBOS
    from pyod.models.iforest import IForest
    from pyod.models.knn import KNN
    from pyod.models.pca import PCA

    target, _, new = data
    new = new[:20]
    peers = {"KNN": KNN, "HBOS": HBOS, "IForest": lambda: IForest(random_state=3), "PCA": PCA}
    want = -peers[detector]().fit(target).decision_function(new)
    got = ours(f"pyod:{detector}", (target, data[1], new))
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_a_detector_names_the_library_that_it_needs(monkeypatch, capsys):
    """The extra `pyod` does not bring it, and PyOD prints what is missing."""
    monkeypatch.delitem(sys.modules, "pyod.models.xgbod", raising=False)
    monkeypatch.setitem(sys.modules, "xgboost", None)
    rows = np.eye(8, dtype=np.float32)
    with pytest.raises(UsageError, match=r"^pyod:XGBOD .*pip install xgboost\b"):
        ours("pyod:XGBOD", (rows, rows, rows))
    assert capsys.readouterr().out == ""


def test_pyod_detectors_that_rank_a_batch_are_asked_about_one_text_at_a_time():
    from pyod.models.ecod import ECOD

    rng = np.random.default_rng(0)
    target, other = rng.standard_normal((2, 60, 6)).astype(np.float32)
    scorer = registry.build("pyod:ECOD", {}).fit(target, other, seed=0)
    assert scorer.alone
    peer = ECOD().fit(target)
    want = [-peer.decision_function(row[None])[0] for row in other]
    np.testing.assert_allclose(scorer.score(other), want, rtol=1e-6)
    assert not registry.build("pyod:HBOS", {}).fit(target, other, seed=0).alone


def test_pyod_options_reach_the_detector():
    target = np.random.default_rng(0).standard_normal((30, 4)).astype(np.float32)
    build = registry.build
    one = build("pyod:KNN", {"parameters": '{"n_neighbors": 1}'}).fit(target, target, seed=0)
    assert np.abs(one.score(target)).max() == 0
    with pytest.raises(UsageError, match="n_neighbors"):
        build("pyod:KNN", {"parameters": '{"neighbors": 1}'}).fit(target, target, seed=0)
    with pytest.raises(UsageError, match=r"method\.parameters"):
        build("pyod:KNN", {"parameters": "[1"})


def test_pyod_names_the_nearest_detector():
    with pytest.raises(UsageError, match="COPOD"):
        registry.build("pyod:copodd", {})


def test_pyod_says_when_the_target_is_too_small():
    one = np.zeros((1, 4), np.float32)
    with pytest.raises(InputError, match=r"CBLOF.*\b1 target"):
        registry.build("pyod:CBLOF", {}).fit(one, one, seed=0)


def test_pyod_leaves_the_global_generator_alone():
    target = np.random.default_rng(0).standard_normal((30, 4)).astype(np.float32)
    np.random.seed(5)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    registry.build("pyod:LODA", {}).fit(target, target, seed=0)
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002


def test_a_missing_library_is_named(monkeypatch):
    pyod = sys.modules[registry.load("pyod").__module__]
    monkeypatch.setattr(pyod, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match="pip install"):
        registry.build("pyod", {})
