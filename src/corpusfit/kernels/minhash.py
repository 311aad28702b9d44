"""MinHash of a batch of texts: keys that two texts share if they are alike.

What: for every text b keys, each of the lowest of its n-grams in r random orders.
Why: two texts whose sets of n-grams have the Jaccard similarity s share a key with the probability
1 - (1 - s^r)^b, so near-duplicates are found by equal keys, and no two texts are compared.
Trade-off: it is a probability. Orders are linear functions of 32 bits of an n-gram's hash, which
the processor computes eight at a time; they are not quite independent.
Reference: Broder (1997), On the resemblance and containment of documents; Leskovec et al., Mining
of Massive Datasets, section 3.4.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from corpusfit.kernels.tokens import follow

_HALF = np.uint64(32)


@njit(cache=True, nogil=True)
def _lower(
    low: NDArray[np.uint32],
    gram: np.uint32,
    factors: NDArray[np.uint32],
    offsets: NDArray[np.uint32],
) -> None:
    """Lower the minima of all orders by one n-gram."""
    for j in range(len(low)):
        low[j] = min(low[j], np.uint32(gram * factors[j] + offsets[j]))


@njit(cache=True, nogil=True)
def band_keys(
    grams: NDArray[np.uint64],
    bounds: NDArray[np.int64],
    factors: NDArray[np.uint32],
    offsets: NDArray[np.uint32],
    rows: int,
) -> NDArray[np.uint64]:
    """The keys of n texts.

    Args:
        grams: uint64 [m], as `grams.grams_of` returns them.
        bounds: int64 [n + 1].
        factors: uint32 [b * r], odd; with `offsets` the random orders.
        offsets: uint32 [b * r].
        rows: orders of a key, r.

    Returns:
        uint64 [b, n]; texts without an n-gram share all keys.
    """
    n, bands = len(bounds) - 1, len(factors) // rows
    keys = np.empty((bands, n), np.uint64)
    low = np.empty(len(factors), np.uint32)
    for i in range(n):
        low[:] = 0xFFFFFFFF
        for at in range(bounds[i], bounds[i + 1]):
            _lower(low, np.uint32(grams[at] >> _HALF), factors, offsets)
        for band in range(bands):
            key = np.uint64(band + 1)
            for j in range(band * rows, (band + 1) * rows):
                key = follow(key, np.uint64(low[j]))
            keys[band, i] = key
    return keys
