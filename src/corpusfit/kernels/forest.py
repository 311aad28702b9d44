"""Walk a forest of binary trees: many rows, many trees, no branches.

What: trees as complete heaps (node p's children are 2p + 1 and 2p + 2), and the sum of the leaf
values that each row reaches.
Why: isolation forests score every unit of a corpus, and a pointer-chasing walk mispredicts half of
its branches. In a complete heap every walk has exactly `depth` steps, and a step is `p = 2p + 1 +
(x[feature[p]] > threshold[p])`. A block of rows goes through one tree before the next, so that the
tree (4 KB at depth 8) stays in the first-level cache, and the rows of a block take each step
together, which hides the latency of every single walk.
Trade-off: leaves above the last level are copied downwards, 2^depth slots per tree; fine up to a
depth of about 12, wasteful beyond.
Reference: Liu, Ting and Zhou (2008), Isolation Forest; the heap layout follows Asadi, Lin and de
Vries (2014), Runtime Optimizations for Tree-Based Machine Learning Models.
"""

from __future__ import annotations

import numba as nb
import numpy as np
from numpy.typing import NDArray

from corpusfit.kernels.grams import within

_ROWS = 32


def floor_float32(value: NDArray[np.float64]) -> NDArray[np.float32]:
    """The largest float32 not above each value.

    For every float32 x, `x <= floor_float32(t)` decides as `x <= t` does in float64.
    """
    near = value.astype(np.float32)
    below = np.nextafter(near, np.float32(-np.inf))
    return np.where(near.astype(np.float64) > value, below, near)


def complete_heap(
    # int [nodes], the child taken when `x[feature] <= threshold`; -1 in a leaf
    left: NDArray[np.int64],
    right: NDArray[np.int64],  # int [nodes], the other child
    feature: NDArray[np.int64],  # int [nodes], ignored in leaves
    threshold: NDArray[np.float64],  # float64 [nodes], ignored in leaves
    value: NDArray[np.float64],  # float64 [nodes], read in leaves only
    *,
    depth: int,  # levels of decisions, at least the tree's own
) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.float32]]:
    """Lay one binary tree out as a complete heap.

    Returns:
        feature int32 [2^depth - 1], threshold float32 [2^depth - 1], value float32 [2^depth]. Slots
        below a leaf send every row left, and hold the leaf's value on both sides.
    """
    at = np.zeros(1, np.int64)
    features: list[NDArray[np.int32]] = []
    thresholds: list[NDArray[np.float32]] = []
    for _ in range(depth):
        leaf = left[at] < 0
        features.append(np.where(leaf, 0, feature[at]).astype(np.int32))
        level = floor_float32(threshold[at])
        thresholds.append(np.where(leaf, np.float32(np.inf), level).astype(np.float32))
        lower = np.where(leaf, at, left[at])
        upper = np.where(leaf, at, right[at])
        at = np.stack([lower, upper], axis=1).reshape(-1)
    return np.concatenate(features), np.concatenate(thresholds), value[at].astype(np.float32)


def fits(
    feature: NDArray[np.int32],
    threshold: NDArray[np.float32],
    value: NDArray[np.float32],
    width: int,
) -> bool:
    """Whether `walk` may take rows of `width` numbers through trees."""
    trees, inner = feature.shape
    return (
        threshold.shape == (trees, inner)
        and value.shape == (trees, inner + 1)
        and inner & (inner + 1) == 0
        and within(feature, 0, width)
    )


@nb.njit(nogil=True, cache=True)
def walk(
    x: NDArray[np.float32],  # float32 [n, d], C-contiguous, finite
    feature: NDArray[np.int32],  # int32 [trees, 2^depth - 1], each in [0, d)
    threshold: NDArray[np.float32],  # float32 [trees, 2^depth - 1]
    value: NDArray[np.float32],  # float32 [trees, 2^depth]
) -> NDArray[np.float64]:
    """Sum, over the trees, of the leaf value each row reaches.

    Returns:
        float64 [n], summed in the trees' order for every row.
    """
    n, d = x.shape
    flat = x.reshape(-1)
    inner = np.uint32(feature.shape[1])
    at = np.zeros(_ROWS, np.int32)
    out = np.zeros(n, np.float64)
    for first in range(0, n, _ROWS):
        rows = min(_ROWS, n - first)
        block = flat[first * d : (first + rows) * d]
        for tree in range(feature.shape[0]):
            f = feature[tree]
            t = threshold[tree]
            v = value[tree]
            at[:] = 0
            steps = inner
            while steps > 0:
                for r in range(rows):
                    p = np.uint32(at[r])
                    right = np.int32(block[np.uint32(f[p] + r * d)] > t[p])
                    at[r] = np.int32(2 * p + 1) + right
                steps >>= np.uint32(1)
            for r in range(rows):
                out[first + r] += v[np.uint32(at[r]) - inner]
    return out
