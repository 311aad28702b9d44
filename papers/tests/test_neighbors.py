"""Nearest neighbors against all products by numpy."""

from functools import cache

import numpy as np
import pytest

from corpusfit_papers import neighbors
from corpusfit_papers.neighbors import ONE, fixed_point, nearest, strongest_pairs

ALL = 10**9


def clustered(seed, n, d, clusters, spread=0.5):
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((clusters, d))
    rows = centers[rng.integers(0, clusters, n)] + spread * rng.standard_normal((n, d))
    return rows.astype(np.float32)


def by_hand(rows, k):
    """Of each row, (product, place) of the k best: highest first, then the nearest place."""
    found = rows.astype(np.int64) @ rows.T.astype(np.int64)
    lists = []
    for i, products in enumerate(found.tolist()):
        others = [(-p, abs(i - j), j < i, j) for j, p in enumerate(products) if j != i and p > 0]
        lists.append([(-p, j) for p, _, _, j in sorted(others)[:k]])
    return lists


def as_lists(places, products):
    return [
        [(p, j) for p, j in zip(ps, js, strict=True) if j >= 0]
        for ps, js in zip(products.tolist(), places.tolist(), strict=True)
    ]


def pairs_by_hand(lists):
    return {(min(i, j), max(i, j)): p for i, found in enumerate(lists) for p, j in found}


def as_pairs(first, second, product):
    pairs = [(min(i, j), max(i, j)) for i, j in zip(first.tolist(), second.tolist(), strict=True)]
    assert len(set(pairs)) == len(pairs)
    return dict(zip(pairs, product.tolist(), strict=True))


CASES = {
    "clusters": clustered(0, 1500, 40, 12),
    "wide": clustered(1, 700, 300, 5),
    "narrow": clustered(2, 300, 3, 4),
    "noise": clustered(3, 600, 130, 600),
    "copies": np.repeat(clustered(4, 6, 20, 6), 70, axis=0),
    "zeros among others": np.concatenate([clustered(5, 90, 8, 3), np.zeros((40, 8), np.float32)]),
    "all zeros": np.zeros((30, 5), np.float32),
    "opposites": np.array([[1, 0], [-1, 0], [1, 0.001], [-1, 0.001]], np.float32),
}


@cache
def hundred_by_hand(name):
    return by_hand(fixed_point(CASES[name]), 100)


def case_by_hand(name, k):
    return [found[:k] for found in hundred_by_hand(name)]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("k", [1, 10, 100])
def test_as_all_products_by_numpy(name, k):
    rows = fixed_point(CASES[name])
    assert as_lists(*nearest(rows, k, exact=ALL)) == case_by_hand(name, k)


@pytest.mark.parametrize("name", CASES)
def test_every_pair_once(name):
    rows = fixed_point(CASES[name])
    found = as_pairs(*strongest_pairs(*nearest(rows, 20, exact=ALL)))
    assert found == pairs_by_hand(case_by_hand(name, 20))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("most", [1, 50, 3000])
def test_the_strongest_pairs(name, most):
    rows = fixed_point(CASES[name])
    want = pairs_by_hand(case_by_hand(name, 20))
    found = as_pairs(*strongest_pairs(*nearest(rows, 20, pairs=most, exact=ALL), most))
    assert sorted(found.values()) == sorted(want.values())[-most:]
    assert found.items() <= want.items()


@pytest.mark.slow
def test_more_pairs_are_found_than_a_sample_of_rows_promises():
    """Every tenth row, the sample from which a threshold is estimated, has near-duplicates."""
    x = np.random.default_rng(8).standard_normal((2560, 16)).astype(np.float32)
    x[::10] = x[0] + 0.001 * x[::10]
    rows = fixed_point(x)
    want = pairs_by_hand(by_hand(rows, 20))
    found = as_pairs(*strongest_pairs(*nearest(rows, 20, pairs=9000, exact=ALL), 9000))
    assert sorted(found.values()) == sorted(want.values())[-9000:]
    assert found.items() <= want.items()


def test_cosines_by_numpy():
    x = CASES["clusters"]
    unit = (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float64)
    places, products = nearest(fixed_point(x), 5, exact=ALL)
    cosines = (unit[:, None] * unit[places]).sum(2)
    np.testing.assert_allclose(products / ONE**2, cosines, atol=1e-4)
    want = np.sort(unit @ unit.T, axis=1)[:, -6:-1][:, ::-1]
    np.testing.assert_allclose(cosines, want, atol=1e-4)


@pytest.mark.parametrize("n", [0, 1, 2])
@pytest.mark.parametrize("pairs", [0, 5])
def test_hardly_any_rows(n, pairs):
    rows = fixed_point(np.ones((n, 4), np.float32))
    places, products = nearest(rows, 3, pairs=pairs, exact=ALL)
    assert places.tolist() == ([], [[]], [[1], [0]])[n]
    assert len(strongest_pairs(places, products, pairs)[0]) == (n == 2)


def test_a_row_has_the_length_one_in_fixed_point():
    rows = fixed_point(np.array([[3, 4], [0, 0], [1e-20, 0], [-1e20, 0]], np.float32))
    assert rows.tolist() == [[19200, 25600], [0, 0], [ONE, 0], [-ONE, 0]]


def cells(monkeypatch, rows, **settings):
    monkeypatch.setattr(neighbors, "ROWS_PER_CELL", 100)
    monkeypatch.setattr(neighbors, "NEAR_CELLS", 8)
    return nearest(rows, 10, exact=len(rows) - 1, **settings)


@pytest.mark.slow
def test_with_cells_most_neighbors_are_found(monkeypatch):
    rows = fixed_point(clustered(6, 4000, 48, 60))
    found, want = as_lists(*cells(monkeypatch, rows)), by_hand(rows, 10)
    recall = np.mean([len({*a} & {*b}) / 10 for a, b in zip(found, want, strict=True)])
    assert recall > 0.95
    for i, listed in enumerate(found):
        assert listed == sorted(listed, key=lambda pair: -pair[0])
        for product, j in listed:
            assert product == int(rows[i].astype(np.int64) @ rows[j])
            assert i != j


def test_with_cells_the_strongest_pairs_are_found(monkeypatch):
    rows = fixed_point(clustered(7, 4000, 48, 60))
    want = as_pairs(*strongest_pairs(*nearest(rows, 10, pairs=2000, exact=ALL), 2000))
    found = as_pairs(*strongest_pairs(*cells(monkeypatch, rows, pairs=2000), 2000))
    assert len(found.keys() & want.keys()) > 0.95 * 2000


def test_no_tile_of_cells_comes_twice():
    ends = np.array([0, 5, 5, 9, 20])
    near = np.array([[0, 1], [0, 1], [2, 3], [3, 2]])
    tiles = list(neighbors.near_cells(ends, near))
    assert len(set(tiles)) == len(tiles)
    assert {(0, 5, 0, 5), (0, 5, 5, 5), (5, 9, 9, 20)} <= set(tiles)
    assert all(a == c or b <= c for a, b, c, _ in tiles)
