"""Distances and products against numpy in float64, and the same bits in any batch."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusfit.kernels.vectors import lengths, products, squared_distances


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 40), st.integers(0, 21), st.integers(0, 70))
def test_against_float64(seed, n, m, d):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d)).astype(np.float32)
    y = rng.standard_normal((m, d)).astype(np.float32)
    exact_x, exact_y = x.astype(np.float64), y.astype(np.float64)
    exact = ((exact_x[:, None] - exact_y[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(squared_distances(x, y), exact, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(products(x, y), exact_x @ exact_y.T, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("d", [1, 50, 384, 768])
@pytest.mark.parametrize("m", [1, 7, 301])
def test_a_row_gets_the_same_bits_in_any_batch(d, m):
    rng = np.random.default_rng(d * m)
    x = rng.standard_normal((65, d)).astype(np.float32)
    y = rng.standard_normal((m, d)).astype(np.float32)
    order = rng.permutation(65)
    for kernel in (squared_distances, products):
        whole = kernel(x, y)
        assert (kernel(x[order], y) == whole[order]).all()
        assert (np.concatenate([kernel(x[i : i + 1], y) for i in range(65)]) == whole).all()


def test_a_vector_is_at_distance_zero_from_itself():
    x = np.random.default_rng(0).standard_normal((9, 384)).astype(np.float32) + 1000
    assert (np.diag(squared_distances(x, x)) == 0).all()


def test_lengths_are_never_zero():
    x = np.random.default_rng(0).standard_normal((9, 384)).astype(np.float32) * 1000
    x[4] = 0
    want = np.linalg.norm(x.astype(np.float64), axis=1, keepdims=True)
    want[4] = 1
    np.testing.assert_allclose(lengths(x), want, rtol=1e-6)
