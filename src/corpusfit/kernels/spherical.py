"""Cluster directions: spherical k-means.

What: k directions such that every row is near one of them by cosine.
Why: clusters must be the same for any number of threads; scikit-learn adds up each thread's share
of a cluster, and its last bits change with their number. Here a row's nearest direction comes from
`vectors.products`, and sums are in the rows' order.
Trade-off: plain Lloyd steps from one start, without restarts and without bounds that skip
distances: 10,000 rows of 768 dimensions to 256 clusters take seconds.
Reference: Dhillon and Modha (2001), Concept Decompositions for Large Sparse Text Data; Arthur and
Vassilvitskii (2007), k-means++.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corpusfit.kernels.vectors import lengths, products

_STEPS = 15


def spherical_k_means(
    x: NDArray[np.float32], k: int, rng: np.random.Generator
) -> NDArray[np.float32]:
    """The directions of k clusters.

    Args:
        x: float32 [n, d], rows of length 1 (or zero); n at least 1.
        k: clusters, at least 1; fewer if there are fewer different rows.
        rng: draws the start.

    Returns:
        float32 [at most k, d], each the mean of its rows, scaled to length 1. At most 15 steps.
    """
    centres = _start(x, k, rng)
    before = np.full(len(x), -1)
    for _ in range(_STEPS):
        of = products(x, centres).argmax(axis=1)
        if (of == before).all():
            break
        centres[np.unique(of)] = _sums(x, of)
        centres /= lengths(centres)
        before = of
    return centres


def _sums(x: NDArray[np.float32], of: NDArray[np.int64]) -> NDArray[np.float64]:
    """The sum of the rows of each cluster that has rows, by cluster number."""
    order = np.argsort(of, kind="stable")
    first = np.unique(of[order], return_index=True)[1]
    return np.asarray(np.add.reduceat(x[order], first, axis=0, dtype=np.float64))


def _start(x: NDArray[np.float32], k: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Draw rows far from each other, in proportion to 1 - cosine to the nearest drawn row."""
    drawn = [int(rng.integers(len(x)))]
    far = np.full(len(x), np.inf)
    while len(drawn) < k:
        last = 1.0 - products(x, x[drawn[-1:]])[:, 0].astype(np.float64)
        far = np.minimum(far, np.where(last > 1e-6, last, 0.0))
        if not far.any():
            break
        up_to = np.cumsum(far)
        drawn.append(int(np.searchsorted(up_to, rng.random() * up_to[-1], side="right")))
    return x[drawn].copy()
