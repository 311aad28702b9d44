"""Coverage of a weighted set of n-grams by texts, and the order in which they cover it fastest.

What: for every text of a batch the summed weights of the listed n-grams in it, which may be divided
by its number of n-grams; and the greedy order over all texts by the weight of n-grams that no
earlier text had.
Why: a stamp marks n-grams already met in this text, so a text costs little more than to look up its
n-grams. Selecting one text changes the gain of all others; a gain
only falls, so an old gain is a bound, and nearly always the best bound is still exact when it is
checked again (lazy greedy).
Trade-off: one stamp per listed n-gram, 4 bytes each, allocated for each batch. The order is exact,
at the price of a heap over all texts, 16 bytes each.
Reference: Eck, Vogel and Waibel (2005), Low Cost Portability for Statistical Machine Translation
based on N-gram Coverage, section 3; Minoux (1978), Accelerated greedy algorithms for maximizing
submodular set functions.
"""

from __future__ import annotations

from heapq import heapify, heappop, heapreplace

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True, nogil=True)
def coverage(
    found: NDArray[np.int64],  # the listed n-gram that each n-gram of n texts is, or -1
    ends: NDArray[np.int64],  # int64 [n + 1], text i has `found[ends[i] : ends[i + 1]]`
    weight: NDArray[np.float64],  # float64 [v]
    per_token: bool,  # whether to divide by the text's number of n-grams
) -> NDArray[np.float32]:
    """The summed weights of the different listed n-grams in every text.

    Returns:
        float32 [n]; 0 for a text without n-grams.
    """
    n = len(ends) - 1
    met = np.full(len(weight), -1, np.int32)
    out = np.zeros(n, np.float32)
    for i in range(n):
        count = ends[i + 1] - ends[i]
        total = 0.0
        for index in found[ends[i] : ends[i + 1]]:
            if index >= 0 and met[index] != i:
                met[index] = i
                total += weight[index]
        if count:
            out[i] = total / count if per_token else total
    return out


@njit(cache=True, nogil=True)
def listed_in(
    found: NDArray[np.int64],  # found, ends: see `coverage`
    ends: NDArray[np.int64],
    listed: int,  # the number of listed n-grams
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int32]]:
    """The different listed n-grams of every text of a batch.

    Returns:
        int32 [e] indices, text by text; int64 [n] number of listed n-grams of each text; int32 [n]
        number of all its n-grams.
    """
    n = len(ends) - 1
    grams = np.empty(len(found), np.int32)
    met = np.full(listed, -1, np.int32)
    counts = np.zeros(n, np.int64)
    lengths = np.zeros(n, np.int32)
    e = 0
    for i in range(n):
        lengths[i] = ends[i + 1] - ends[i]
        for index in found[ends[i] : ends[i + 1]]:
            if index >= 0 and met[index] != i:
                met[index] = i
                grams[e] = index
                counts[i] += 1
                e += 1
    return grams[:e].copy(), counts, lengths


@njit(cache=True, nogil=True, inline="always")
def _loss(
    grams: NDArray[np.int32], weight: NDArray[np.int64], seen: NDArray[np.bool_], length: int
) -> float:
    """Negated weight of one text's new n-grams, over its length; a sum of whole numbers."""
    new = np.int64(0)
    for gram in grams:
        if not seen[gram]:
            new += weight[gram]
    return -(new / max(length, 1))


@njit(cache=True, nogil=True)
def greedy_order(
    grams: NDArray[np.int32],  # int32 [e], the different listed n-grams of every text, text by text
    ends: NDArray[np.int64],  # int64 [n + 1], text i has `grams[ends[i] : ends[i + 1]]`
    lengths: NDArray[np.int32],  # int32 [n], by which a text's new weight is divided
    weight: NDArray[np.int64],  # int64 [v], above 0
) -> NDArray[np.int64]:
    """The greedy order of n texts; ties go to the first text.

    Texts without new n-grams follow, ordered by the weight of all their n-grams.

    Returns:
        int64 [n], the texts in greedy order.
    """
    n = len(lengths)
    seen = np.zeros(len(weight), np.bool_)
    full = np.empty(n, np.float64)
    for i in range(n):
        full[i] = _loss(grams[ends[i] : ends[i + 1]], weight, seen, lengths[i])
    heap = [(full[i], i) for i in range(n)]
    heapify(heap)
    order = np.empty(n, np.int64)
    left = np.ones(n, np.bool_)
    taken = 0
    while heap:
        bound, i = heap[0]
        own = grams[ends[i] : ends[i + 1]]
        loss = _loss(own, weight, seen, lengths[i])
        if loss == 0.0:
            heappop(heap)
        elif loss > bound:
            # the old gain was too high: the text stays, with its exact gain
            heapreplace(heap, (loss, i))
        else:
            # an exact gain that is above all bounds is the highest
            heappop(heap)
            seen[own] = True
            left[i] = False
            order[taken] = i
            taken += 1
    rest = np.flatnonzero(left)
    order[taken:] = rest[np.argsort(full[rest], kind="mergesort")]
    return order
