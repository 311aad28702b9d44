"""Hashed n-grams: counts, and sums of weights.

What: every n-gram of a text up to a length falls into one of some thousand buckets by its hash;
`count` counts the buckets, `score` sums their weights.
Why: a linear model over n-grams needs no vocabulary, and its whole state fits in a core's cache, so
a text is scored almost as fast as it is tokenised.
Trade-off: n-grams that share a bucket share a weight.
Reference: Weinberger et al. 2009 (feature hashing); Xie et al. 2023 (DSIR), section 3.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from corpusfit.kernels.grams import longest
from corpusfit.kernels.machine_words import Word
from corpusfit.kernels.tokens import follow, tokenise

MAX_ORDER = 5
"""Length of the longest n-grams, in tokens."""

_HALF = np.uint64(32)


def fits(table: NDArray[np.float32], order: int) -> bool:
    """Whether `score` may read a table: it has one dimension, and a bucket."""
    return table.ndim == 1 and len(table) > 0 and 1 <= order <= MAX_ORDER


@njit(cache=True, nogil=True, inline="always")
def _bucket(gram: Word, buckets: Word) -> Word:
    """The hash's upper half, scaled to the number of buckets."""
    return ((gram >> _HALF) * buckets) >> _HALF


@njit(cache=True, nogil=True)
def count(
    data: NDArray[np.uint8],  # data, offsets, characters, signs: see `tokens`
    offsets: NDArray[np.int64],
    characters: NDArray[np.uint32],
    signs: bool,
    order: int,  # n-grams of 1 to this many tokens, `MAX_ORDER` at most
    weights: NDArray[np.float64],  # float64 [n], weight of each text
    buckets: int,  # number of buckets
) -> NDArray[np.float64]:
    """Count the n-grams of texts by bucket.

    Returns:
        float64 [buckets].
    """
    counts = np.zeros(buckets, np.float64)
    size = np.uint64(buckets)
    ids = np.empty(longest(offsets), np.uint64)
    for i in range(len(offsets) - 1):
        n = tokenise(data, offsets[i], offsets[i + 1], characters, signs, ids, None, None)
        for j in range(n):
            gram = ids[j]
            counts[_bucket(gram, size)] += weights[i]
            for k in range(j + 1, min(n, j + order)):
                gram = follow(gram, ids[k])
                counts[_bucket(gram, size)] += weights[i]
    return counts


@njit(cache=True, nogil=True)
def score(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    characters: NDArray[np.uint32],
    signs: bool,
    order: int,
    table: NDArray[np.float32],
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Sum of the weights of each text's n-grams.

    Takes texts as `count` does, and the buckets' weights, float32 [buckets].

    Returns:
        sums: float64 [n].
        grams: int64 [n], number of n-grams of each text.
    """
    texts = len(offsets) - 1
    sums = np.zeros(texts, np.float64)
    grams = np.zeros(texts, np.int64)
    size = np.uint64(len(table))
    ids = np.empty(longest(offsets), np.uint64)
    for i in range(texts):
        n = tokenise(data, offsets[i], offsets[i + 1], characters, signs, ids, None, None)
        total = 0.0
        for j in range(n):
            gram = ids[j]
            total += table[_bucket(gram, size)]
            for k in range(j + 1, min(n, j + order)):
                gram = follow(gram, ids[k])
                total += table[_bucket(gram, size)]
        sums[i] = total
        grams[i] = _grams(n, order)
    return sums, grams


@njit(cache=True, nogil=True)
def _grams(tokens: int, order: int) -> int:
    """N-grams of 1 to `order` tokens in a text."""
    total = 0
    for length in range(1, order + 1):
        total += max(0, tokens - length + 1)
    return total


@njit(cache=True, nogil=True)
def grams(
    ids: NDArray[np.uint64], order: int, table: NDArray[np.float32]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """The n-grams of one text, one by one.

    Args:
        ids: uint64 [n], its tokens.
        order: as in `count`.
        table: as in `score`.

    Returns:
        first: int64 [m], the n-gram's first token.
        length: int64 [m], its number of tokens.
        weight: float32 [m], its bucket's weight.
    """
    m = _grams(len(ids), order)
    n = len(ids)
    first = np.empty(m, np.int64)
    length = np.empty(m, np.int64)
    weight = np.empty(m, np.float32)
    size = np.uint64(len(table))
    at = 0
    for j in range(n):
        gram = ids[j]
        for k in range(j, min(n, j + order)):
            if k > j:
                gram = follow(gram, ids[k])
            first[at] = j
            length[at] = k - j + 1
            weight[at] = table[_bucket(gram, size)]
            at += 1
    return first, length, weight
