"""Cosines between bags of words: to one vector, and to the nearest of many.

What: for every text of a batch the cosine of its weighted word counts with one vector, or the
mean of its k highest cosines with m sparse vectors.
Why: one vector needs one addition a token, so it runs as fast as text is tokenised. Many need an
inverted index: a text's words, those with the most to give first, add to the vectors that have
them, until what is left cannot lift any other vector into the best k; only vectors that still can
get there are then multiplied out.
Trade-off: bounds prune, never guess: the best k are multiplied out in full, each in the order of
its own words, so a score is the exact one and the same bits whatever was pruned.
Reference: Turtle and Flood (1995), Query evaluation: strategies and optimizations (max-score);
Zobel and Moffat (2006), Inverted files for text search engines, section 4.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from corpusfit.kernels.grams import find
from corpusfit.kernels.tokens import tokenise

__all__ = ["cosines", "nearest_cosines"]

_SLACK = 1e-5  # above what sums in float32 can be off, as a share of the largest possible sum


@njit(cache=True, nogil=True)
def _longest(offsets: NDArray[np.int64]) -> int:
    longest = np.int64(0)
    for i in range(len(offsets) - 1):
        longest = max(longest, offsets[i + 1] - offsets[i])
    return longest


@njit(cache=True, nogil=True)
def cosines(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    characters: NDArray[np.uint32],
    keys: NDArray[np.uint64],
    places: NDArray[np.int32],
    weight: NDArray[np.float32],
    vector: NDArray[np.float32],
) -> NDArray[np.float32]:
    """The cosine of every text's weighted word counts with one vector.

    Args:
        data: uint8 [b], the bytes of n texts.
        offsets: int64 [n + 1], where they begin.
        characters: what `characters.table` returns.
        keys: the table of v words, see `grams.table_of`.
        places: the same.
        weight: float32 [v]; a text's entry for a word is its count times this.
        vector: float32 [v], of length 1.

    Returns:
        float32 [n]; 0 for a text without a known word.
    """
    n = len(offsets) - 1
    ids = np.empty(_longest(offsets), np.uint64)
    words = np.empty(len(ids), np.int64)
    counts = np.zeros(len(weight), np.float32)
    out = np.zeros(n, np.float32)
    for i in range(n):
        count = tokenise(data, offsets[i], offsets[i + 1], characters, False, ids, None, None)
        for j in range(count):
            words[j] = find(keys, places, ids[j])
        square, product = 0.0, 0.0
        for j in range(count):
            word = words[j]
            if word >= 0:
                had, w = counts[word], np.float64(weight[word])
                square += w * w * (2.0 * had + 1.0)  # (had + 1)² - had²
                product += w * vector[word]
                counts[word] = had + np.float32(1)
        for j in range(count):
            if words[j] >= 0:
                counts[words[j]] = 0
        if square > 0.0:
            out[i] = product / np.sqrt(square)
    return out


@njit(cache=True, nogil=True)
def _keep_best(best: NDArray[np.float64], value: float) -> None:
    """Put a value into the k best so far, which are decreasing."""
    j = len(best) - 1
    if value <= best[j]:
        return
    while j > 0 and best[j - 1] < value:
        best[j] = best[j - 1]
        j -= 1
    best[j] = value


@njit(cache=True, nogil=True)
def _threshold(
    best: NDArray[np.float64], sums: NDArray[np.float32], touched: NDArray[np.int32]
) -> float:
    """The k-th highest of the sums so far."""
    best[:] = 0.0
    for d in touched:
        _keep_best(best, sums[d])
    return best[-1]


@njit(cache=True, nogil=True)
def _add_list(
    sums: NDArray[np.float32],
    touched: NDArray[np.int32],
    reached: int,
    docs: NDArray[np.int32],
    values: NDArray[np.float32],
    q: np.float32,
) -> int:
    """Add one word's list to the sums of the vectors that have it; returns how many have a sum."""
    for at in range(len(docs)):
        d = docs[at]
        if sums[d] == 0:
            touched[reached] = d
            reached += 1
        sums[d] += q * values[at]
    return reached


@njit(cache=True, nogil=True)
def _multiply_out(
    d: int,
    query: NDArray[np.float32],
    ends: NDArray[np.int64],
    terms: NDArray[np.int32],
    values: NDArray[np.float32],
) -> float:
    """The full product of a text with vector d, in the order of the vector's words."""
    total = 0.0
    for at in range(ends[d], ends[d + 1]):
        total += np.float64(query[terms[at]]) * values[at]
    return total


@njit(cache=True, nogil=True)
def _best_mean(
    words: NDArray[np.int64],
    query: NDArray[np.float32],
    highest: NDArray[np.float32],
    lists: NDArray[np.int64],
    docs: NDArray[np.int32],
    in_list: NDArray[np.float32],
    ends: NDArray[np.int64],
    terms: NDArray[np.int32],
    values: NDArray[np.float32],
    sums: NDArray[np.float32],
    touched: NDArray[np.int32],
    best: NDArray[np.float64],
) -> float:
    """The mean of the k highest products of one text; leaves `sums` zero again."""
    bound = np.empty(len(words), np.float64)
    left, rest = 0, 0.0
    for j in range(len(words)):
        bound[j] = query[words[j]] * highest[words[j]]
        rest += bound[j]
        left += lists[words[j] + 1] - lists[words[j]]
    slack, reached, since, theta = _SLACK * rest, 0, 0, 0.0
    for j in np.argsort(-bound):
        word = words[j]
        first, last = lists[word], lists[word + 1]
        if since > reached and left > 2 * reached:
            since, theta = 0, _threshold(best, sums, touched[:reached])
            if theta > rest + slack:
                break
        q = query[word]
        reached = _add_list(sums, touched, reached, docs[first:last], in_list[first:last], q)
        since += last - first
        left -= last - first
        rest -= bound[j]
    else:
        rest = 0.0
    theta = _threshold(best, sums, touched[:reached])
    best[:] = 0.0
    for d in touched[:reached]:
        if sums[d] + rest + slack >= theta:
            _keep_best(best, _multiply_out(d, query, ends, terms, values))
        sums[d] = 0
    return best.mean()


@njit(cache=True, nogil=True)
def nearest_cosines(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    characters: NDArray[np.uint32],
    keys: NDArray[np.uint64],
    places: NDArray[np.int32],
    weight: NDArray[np.float32],
    ends: NDArray[np.int64],
    terms: NDArray[np.int32],
    values: NDArray[np.float32],
    lists: NDArray[np.int64],
    docs: NDArray[np.int32],
    in_list: NDArray[np.float32],
    highest: NDArray[np.float32],
    k: int,
) -> NDArray[np.float32]:
    """The mean of every text's k highest cosines with m sparse vectors of length 1 or 0.

    Args:
        data: uint8 [b], the bytes of n texts.
        offsets: int64 [n + 1], where they begin.
        characters: what `characters.table` returns.
        keys: the table of v words, see `grams.table_of`.
        places: the same.
        weight: float32 [v]; a text's entry for a word is its count times this.
        ends: int64 [m + 1]; vector d is `terms[ends[d] : ends[d + 1]]` with `values`.
        terms: int32 [e], words by place.
        values: float32 [e], above 0.
        lists: int64 [v + 1]; word w is in the vectors `docs[lists[w] : lists[w + 1]]`.
        docs: int32 [e].
        in_list: float32 [e], the same values in the lists' order.
        highest: float32 [v], the largest value in each list; 0 for an empty one.
        k: at most m.

    Returns:
        float32 [n]; 0 for a text without a known word.
    """
    n = len(offsets) - 1
    ids = np.empty(_longest(offsets), np.uint64)
    words = np.empty(len(ids), np.int64)
    query = np.zeros(len(weight), np.float32)
    sums = np.zeros(len(ends) - 1, np.float32)
    touched = np.empty(len(sums), np.int32)
    best = np.empty(k, np.float64)
    out = np.zeros(n, np.float32)
    for i in range(n):
        count = tokenise(data, offsets[i], offsets[i + 1], characters, False, ids, None, None)
        different = 0
        for j in range(count):
            word = find(keys, places, ids[j])
            if word >= 0:
                if query[word] == 0:
                    words[different] = word
                    different += 1
                query[word] += weight[word]
        square, shared = 0.0, 0
        for j in range(different):
            word = words[j]
            square += np.float64(query[word]) ** 2
            if highest[word] > 0:
                words[j], words[shared] = words[shared], word
                shared += 1
        if shared > 0:
            mean = _best_mean(
                words[:shared], query, highest, lists, docs, in_list,
                ends, terms, values, sums, touched, best,
            )  # fmt: skip
            out[i] = mean / np.sqrt(square)
        query[words[:different]] = 0
    return out
