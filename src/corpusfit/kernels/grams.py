"""N-grams of texts, and hash tables from n-grams to indices.

What: the n-grams of a batch of texts as 64-bit identities, the different ones of each text with
their counts, and an open-addressing table from an identity to its index in arrays.
Why: lexical methods learn numbers for n-grams and look them up for every token of the corpus; two
flat arrays are sent to a worker unchanged, and most look-ups touch one cache line.
Trade-off: tables are at most half full, at least 24 bytes per entry, so that runs of occupied slots
stay short; an n-gram whose identity is 0 (probability 2^-64) is never found.
Reference: Knuth, The Art of Computer Programming, volume 3, section 6.4, algorithm L.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from corpusfit.kernels.machine_words import Word
from corpusfit.kernels.tokens import follow, tokenise

_EMPTY = np.uint64(0)
_ONE = np.uint64(1)
# The high bits of an identity are mixed best; a shift by 34 leaves enough for 2^30 slots.
_HIGH = np.uint64(34)


@njit(cache=True, nogil=True)
def longest(offsets: NDArray[np.int64]) -> Any:
    """Bytes (at least the tokens) of the longest of n texts that begin at offsets [n + 1]."""
    longest = np.int64(0)
    for i in range(len(offsets) - 1):
        longest = max(longest, offsets[i + 1] - offsets[i])
    return longest


@njit(cache=True, nogil=True, inline="always")
def gram_at(ids: NDArray[np.uint64], i: int, order: int) -> Word:
    """The identity of the n-gram of `order` tokens that begins at token i."""
    gram = ids[i]
    for j in range(i + 1, i + order):
        gram = follow(gram, ids[j])
    return gram


@njit(cache=True, nogil=True)
def grams_of(
    data: NDArray[np.uint8],  # data, offsets, characters: see `tokens`
    offsets: NDArray[np.int64],
    characters: NDArray[np.uint32],
    order: int,  # tokens in an n-gram
    signs: bool = False,  # whether runs of signs are tokens too
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """All n-grams of a batch of texts, in reading order; none crosses a text.

    Returns:
        uint64 [m] identities, and int64 [n + 1]: text i has those in `[bounds[i] : bounds[i + 1]]`.
    """
    n = len(offsets) - 1
    grams = np.empty(offsets[n] - offsets[0], np.uint64)
    bounds = np.zeros(n + 1, np.int64)
    m = 0
    for i in range(n):
        ids = grams[m:]
        count = tokenise(data, offsets[i], offsets[i + 1], characters, signs, ids, None, None)
        complete = max(0, count - order + 1)
        for j in range(complete):
            ids[j] = gram_at(ids, j, order)
        m += complete
        bounds[i + 1] = m
    return grams[:m].copy(), bounds


@njit(cache=True, nogil=True)
def count_each(
    grams: NDArray[np.uint64], bounds: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.int32], NDArray[np.int64]]:
    """The different n-grams of every text and their counts.

    Args:
        grams: uint64 [m], as `grams_of` returns them.
        bounds: int64 [n + 1].

    Returns:
        uint64 [d] identities, increasing within a text, int32 [d] counts, and int64 [n + 1] bounds.
    """
    n = len(bounds) - 1
    different = np.empty(len(grams), np.uint64)
    counts = np.empty(len(grams), np.int32)
    ends = np.zeros(n + 1, np.int64)
    d = 0
    for i in range(n):
        ordered = np.sort(grams[bounds[i] : bounds[i + 1]])
        for j in range(len(ordered)):
            if j > 0 and ordered[j] == ordered[j - 1]:
                counts[d - 1] += 1
            else:
                different[d] = ordered[j]
                counts[d] = 1
                d += 1
        ends[i + 1] = d
    return different[:d].copy(), counts[:d].copy(), ends


def within(values: NDArray[Any], least: int, end: int) -> bool:
    """Whether all values are in [least, end); so are none."""
    return not values.size or (least <= values.min() and values.max() < end)


@njit(cache=True, nogil=True, inline="always")
def find(keys: NDArray[np.uint64], places: NDArray[np.int32], gram: Word) -> Any:
    """The index of an identity in the input of `table_of`; -1 if it is not there."""
    mask = np.uint64(len(keys) - 1)
    slot = (gram >> _HIGH) & mask
    while keys[slot] != gram and keys[slot] != _EMPTY:
        slot = (slot + _ONE) & mask
    return np.int64(places[slot])


@njit(cache=True, nogil=True)
def table_of(grams: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """A hash table from v different identities to their indices.

    Args:
        grams: uint64 [v], different, none of them 0.

    Returns:
        keys uint64 [c] and places int32 [c], c a power of two of at least 2 v; for `find`.
    """
    size = 16
    while size < 2 * len(grams):
        size *= 2
    keys = np.zeros(size, np.uint64)
    places = np.full(size, -1, np.int32)
    mask = np.uint64(size - 1)
    for index in range(len(grams)):
        slot = (grams[index] >> _HIGH) & mask
        while keys[slot] != _EMPTY:
            slot = (slot + _ONE) & mask
        keys[slot] = grams[index]
        places[slot] = index
    return keys, places


@njit(cache=True, nogil=True)
def find_each(
    keys: NDArray[np.uint64], places: NDArray[np.int32], grams: NDArray[np.uint64]
) -> NDArray[np.int64]:
    """int64 [n]: the index of each of n identities, -1 for an identity that is not there."""
    indices = np.empty(len(grams), np.int64)
    for i in range(len(grams)):
        indices[i] = find(keys, places, grams[i])
    return indices
