"""The forest kernel against a plain walk over the same trees."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusfit.kernels.forest import complete_heap, floor_float32, walk

WIDTH = 5


def random_tree(rng, depth):
    """A random binary tree as parallel lists: left, right, feature, threshold, value."""
    nodes = []

    def grow(level):
        at = len(nodes)
        nodes.append([-1, -1, -2, 0.0, float(rng.standard_normal())])
        if level < depth and rng.random() < 0.7:
            # A third of the thresholds are float32 values that rows can hit exactly.
            cut = rng.choice([rng.standard_normal(), float(np.float32(rng.integers(-2, 3) / 4))])
            nodes[at][2:4] = [int(rng.integers(WIDTH)), float(cut)]
            nodes[at][0] = grow(level + 1)
            nodes[at][1] = grow(level + 1)
        return at

    grow(0)
    return [np.array(column) for column in zip(*nodes, strict=True)]


def plain_walk(row, tree):
    left, right, feature, threshold, value = tree
    at = 0
    while left[at] >= 0:
        at = left[at] if float(row[feature[at]]) <= threshold[at] else right[at]
    return np.float64(np.float32(value[at]))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 9), st.integers(1, 6), st.integers(0, 70))
def test_walk_is_the_plain_walk(seed, depth, trees, rows):
    rng = np.random.default_rng(seed)
    forest = [random_tree(rng, depth) for _ in range(trees)]
    x = rng.standard_normal((rows, WIDTH)).astype(np.float32)
    x[::2] = np.round(x[::2] * 4) / 4
    heaps = [complete_heap(*tree, depth=depth) for tree in forest]
    got = walk(x, *(np.stack(part) for part in zip(*heaps, strict=True)))
    want = [sum((plain_walk(row, tree) for tree in forest), np.float64(0)) for row in x]
    assert got.tolist() == want


@settings(max_examples=200, deadline=None)
@given(st.floats(-1e30, 1e30), st.floats(-(2.0**99), 2.0**99, width=32), st.booleans())
def test_rounded_thresholds_decide_as_float64_does(threshold, row, close):
    x = np.float32(threshold) if close else np.float32(row)
    rounded = floor_float32(np.array([threshold]))[0]
    assert (x <= rounded) == (float(x) <= threshold)


def test_a_shallow_tree_is_copied_downwards():
    stump = [np.array(c) for c in ([1, -1, -1], [2, -1, -1], [3, -2, -2], [0.5, 0, 0], [0, 7, 9])]
    feature, threshold, value = complete_heap(*stump, depth=3)
    assert value.tolist() == [7, 7, 7, 7, 9, 9, 9, 9]
    assert feature[0] == 3
    assert threshold[0] == pytest.approx(0.5)
    assert np.isinf(threshold[1:]).all()
