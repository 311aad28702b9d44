"""Domains against scikit-learn's PCA and mixture, and their storage."""

import numpy as np
import pytest

from corpusfit.core.errors import ModelError
from corpusfit.scoring.clusters import (
    fit_cluster_model,
    principal,
    read_cluster_model,
    write_cluster_model,
)


@pytest.fixture(scope="module")
def vectors():
    rng = np.random.default_rng(0)
    made = [rng.normal(size=(n, 12)) * 0.3 + rng.normal(size=12) for n in (500, 300, 200)]
    return np.concatenate(made).astype(np.float32)


def test_components_are_scikit_learns(vectors):
    from sklearn.decomposition import PCA

    theirs = PCA(4, svd_solver="full").fit(vectors.astype(np.float64))
    ours = principal(vectors, 4)
    for own, other in zip(ours.axes, theirs.components_, strict=True):
        np.testing.assert_allclose(own, other * np.sign(own @ other), atol=1e-6)
        assert own[np.abs(own).argmax()] > 0
    np.testing.assert_allclose(
        np.abs(ours.project(vectors)), np.abs(theirs.transform(vectors)), atol=1e-4
    )


def test_stored_domains_give_the_same_shares(vectors, tmp_path):
    found = fit_cluster_model(vectors, 3, components=5, steps=150, seed=0)
    write_cluster_model(tmp_path / "d.safetensors", found)
    again = read_cluster_model(tmp_path / "d.safetensors")
    np.testing.assert_array_equal(found.shares(vectors), again.shares(vectors))
    assert again.mixture.bic() == found.mixture.bic()


def test_a_file_without_domains(tmp_path):
    (tmp_path / "d.safetensors").write_bytes(b"no")
    with pytest.raises(ModelError):
        read_cluster_model(tmp_path / "d.safetensors")


def test_the_largest_comes_first(vectors):
    weights = fit_cluster_model(
        vectors, 3, components=5, steps=150, seed=0
    ).mixture.gaussians.weights
    np.testing.assert_allclose(weights, [0.5, 0.3, 0.2], atol=0.01)


@pytest.mark.parametrize(("components", "n"), [(0, 12), (50, 12), (3, 3)])
def test_components_are_limited_by_rows_and_dimensions(vectors, components, n):
    found = fit_cluster_model(vectors, 2, components=components, steps=20, seed=0)
    assert len(found.projection.axes) == n
