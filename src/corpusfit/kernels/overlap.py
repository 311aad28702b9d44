"""Overlap of texts by their n-grams: of a batch with listed texts, and keys of near-duplicates.

What: a sketch of each listed text (its n-grams, or the k with the smallest identities), inverted
from n-gram to listed texts; and a scan that counts, for every text of a batch, how many of each
sketch's n-grams it contains. And MinHash: b keys of a text, each of the lowest of its n-grams in r
random orders.
Why: a corpus is scanned at about the speed of tokenisation, because nearly all of its n-grams are
in no sketch: a small bitmap excludes them without access to the large table. Two texts whose sets
of n-grams have the Jaccard similarity s share a key with the probability 1 - (1 - s^r)^b, so
near-duplicates are found by equal keys, and no two texts are compared.
Trade-off: an n-gram that many listed texts share costs a step for each of them. An n-gram whose
identity is 0 (probability 2^-64) is never found. MinHash is a probability; its orders are linear
functions of 32 bits of an n-gram's hash, which the processor computes eight at a time; they are not
quite independent.
Reference: Broder (1997), On the resemblance and containment of documents; Bloom (1970); Leskovec et
al., Mining of Massive Datasets, section 3.4.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from corpusfit.kernels.grams import count_each, find, gram_at, grams_of, longest
from corpusfit.kernels.machine_words import Word
from corpusfit.kernels.tokens import follow, tokenise

_ONE = np.uint64(1)
_SIX = np.uint64(6)
_HALF = np.uint64(32)
_LOW = np.uint64(63)
# distance in bytes from which two n-grams of a sketch belong to different runs
_APART = 2_000
# bits of the bitmap per n-gram of a sketch: at most one foreign n-gram in 16 passes
_SPARSE = 16


def sketches(
    data: NDArray[np.uint8],  # data, offsets, characters: see `tokens`
    offsets: NDArray[np.int64],
    characters: NDArray[np.uint32],
    order: int,  # tokens in an n-gram
    max_ngrams: int,  # most n-grams of a sketch
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The sketch of each of n texts: its different n-grams with the smallest identities.

    An identity is a hash, so these are a uniform sample; two texts share the sample of their shared
    n-grams.

    Returns:
        uint64 [m] identities, increasing within a text, and int64 [n + 1]: text i has those in
        `[bounds[i] : bounds[i + 1]]`; all of its n-grams if it has at most `max_ngrams`.
    """
    grams, _, ends = count_each(*grams_of(data, offsets, characters, order, True))
    counts = np.diff(ends)
    in_sketch = np.arange(len(grams)) - np.repeat(ends[:-1], counts) < max_ngrams
    return grams[in_sketch], np.concatenate([[0], np.cumsum(np.minimum(counts, max_ngrams))])


def inverted(
    grams: NDArray[np.uint64], bounds: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int32]]:
    """Invert sketches: from n-grams to the texts that have them.

    Args:
        grams: uint64 [m], as `sketches` returns them.
        bounds: int64 [n + 1].

    Returns:
        uint64 [v], the different n-grams, increasing; int64 [v + 1], int32 [m]: the texts with
        n-gram g are `owners[begins[g] : begins[g + 1]]`.
    """
    owners = np.repeat(np.arange(len(bounds) - 1, dtype=np.int32), np.diff(bounds))
    by_gram = np.argsort(grams, kind="stable")
    different, begins = np.unique(grams[by_gram], return_index=True)
    return different, np.append(begins, len(grams)), owners[by_gram]


@njit(cache=True, nogil=True)
def bitmap(grams: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """uint64 [a power of two]: a bitmap that excludes most other n-grams."""
    size = 1
    while size * 64 < _SPARSE * len(grams):
        size *= 2
    bits = np.zeros(size, np.uint64)
    mask = np.uint64(size - 1)
    for gram in grams:
        bits[(gram >> _SIX) & mask] |= _ONE << (gram & _LOW)
    return bits


@njit(cache=True, nogil=True, inline="always")
def _maybe(bits: NDArray[np.uint64], gram: Word) -> Any:
    word = bits[(gram >> _SIX) & np.uint64(len(bits) - 1)]
    return (word >> (gram & _LOW)) & _ONE != 0


@njit(cache=True, nogil=True, inline="always")
def _hit(
    owner: int,
    byte: int,
    hits: NDArray[np.int32],
    first: NDArray[np.int64],
    run: NDArray[np.int64],
    last: NDArray[np.int64],
    need: NDArray[np.int32],
) -> None:
    """Count an n-gram of a sketch at a byte of the text."""
    if hits[owner] == 0 or byte > last[owner] + _APART:
        run[owner] = byte
    last[owner] = byte
    hits[owner] += 1
    if hits[owner] == (need[owner] + 1) // 2:
        first[owner] = run[owner]


@njit(cache=True, nogil=True)
def _take_enough(
    matches: list[Any],
    text: int,
    touched: NDArray[np.int32],
    hits: NDArray[np.int32],
    need: NDArray[np.int32],
    first: NDArray[np.int64],
) -> None:
    """Record the listed texts that share enough n-grams with a text; reset its counts."""
    for owner in touched:
        if 0 < need[owner] <= hits[owner]:
            matches.append((np.int64(text), owner, hits[owner], first[owner]))
        hits[owner] = 0


@njit(cache=True, nogil=True)
def _columns(
    matches: list[Any],
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
    """The results as arrays: text, listed text, n-grams, first byte."""
    pairs = len(matches)
    texts = np.empty(pairs, np.int64)
    firsts = np.empty(pairs, np.int64)
    listed = np.empty(pairs, np.int32)
    counts = np.empty(pairs, np.int32)
    for p in range(pairs):
        texts[p], listed[p], counts[p], firsts[p] = matches[p]
    return texts, listed, counts, firsts


@njit(cache=True, nogil=True)
def overlaps(
    data: NDArray[np.uint8],  # data, offsets, characters: see `tokens`
    offsets: NDArray[np.int64],
    characters: NDArray[np.uint32],
    order: int,  # tokens in an n-gram
    bits: NDArray[np.uint64],  # result of `bitmap` for the different n-grams of all sketches
    keys: NDArray[np.uint64],  # with `places`, the result of `grams.table_of` for them
    places: NDArray[np.int32],  # see `keys`
    begins: NDArray[np.int64],  # int64 [v + 1], as `inverted` returns it
    owners: NDArray[np.int32],  # int32 [m], as `inverted` returns it
    # int32 [t], number of different n-grams of each sketch that is enough; 0 for never
    need: NDArray[np.int32],
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
    """Find the texts of a batch that contain enough n-grams of listed texts.

    Returns:
        For every pair found, by text and then by listed text as encountered: text int64, listed
        text int32, n-grams of the sketch in the text int32, and the byte in the text at which the
        run begins that holds the middle one of the needed n-grams, int64.
    """
    size = longest(offsets)
    ids = np.empty(size, np.uint64)
    starts = np.empty(size, np.int64)
    # the last text in which each n-gram occurred, so that it counts once per text
    counted = np.zeros(len(begins) - 1, np.int64)
    hits = np.zeros(len(need), np.int32)
    first = np.zeros(len(need), np.int64)
    run = np.zeros(len(need), np.int64)
    last = np.zeros(len(need), np.int64)
    touched = np.empty(len(need), np.int32)
    matches = [(np.int64(0), np.int32(0), np.int32(0), np.int64(0)) for _ in range(0)]
    for i in range(len(offsets) - 1):
        n = tokenise(data, offsets[i], offsets[i + 1], characters, True, ids, starts, None)
        m = 0
        for j in range(n - order + 1):
            gram = gram_at(ids, j, order)
            if not _maybe(bits, gram):
                continue
            index = find(keys, places, gram)
            if index < 0 or counted[index] == i + 1:
                continue
            counted[index] = i + 1
            for k in range(begins[index], begins[index + 1]):
                owner = owners[k]
                if hits[owner] == 0:
                    touched[m] = owner
                    m += 1
                _hit(owner, starts[j] - offsets[i], hits, first, run, last, need)
        _take_enough(matches, i, touched[:m], hits, need, first)
    texts, listed, counts, firsts = _columns(matches)
    return texts, listed, counts, firsts


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
    grams: NDArray[np.uint64],  # uint64 [m], as `grams.grams_of` returns them
    bounds: NDArray[np.int64],  # int64 [n + 1]
    factors: NDArray[np.uint32],  # uint32 [b * r], odd; with `offsets` the random orders
    offsets: NDArray[np.uint32],  # uint32 [b * r]
    rows: int,  # orders of a key, r
) -> NDArray[np.uint64]:
    """The keys of n texts.

    Returns:
        uint64 [b, n]; texts without an n-gram share all keys.
    """
    n = len(bounds) - 1
    bands = len(factors) // rows
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
