"""Estimate an n-gram model: interpolated modified Kneser-Ney without pruning.

What: counts the n-grams of order 1 to 5 of texts and estimates the same probabilities and back-offs
as KenLM's `lmplz --discount_fallback`.
Why: a model of the target and one of the corpus are estimated for every target. Every n-gram gets a
number by its first occurrence; it is then the pair (number of its prefix, its last word), exactly
64 bits, and prefix and suffix are known without a search. Frequent n-grams get small numbers and so
are close together in memory.
Trade-off: everything is held in memory, about 75 bytes per different n-gram during estimation;
lmplz sorts on disk. Sums are in float64 where lmplz uses float32.
Reference: Heafield, Pouzyrevsky, Clark and Koehn (2013), Scalable Modified Kneser-Ney Language
Model Estimation, section 3; Chen and Goodman (1998), equation 26 (discounts).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from corpusfit.kernels.backoff import MAX_BYTES, UNKNOWN, empty_table, put, read_on
from corpusfit.kernels.machine_words import Word, twice
from corpusfit.kernels.tokens import BEGIN, END, follow

FALLBACK = (0.5, 1.0, 1.5)
"""Discounts of counts 1, 2 and above if the counts do not determine them (as in lmplz)."""

_BOS = 1  # numbers of begin and end; 0 is the unknown word, 3 the first word
_EOS = 2
_NONE = np.uint32(0xFFFFFFFF)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_ONE = np.uint64(1)
_FREE = np.uint64(0)
_MULTIPLY = np.uint64(0x9E3779B97F4A7C15)
_FINAL = np.uint64(0xD6E8FEB86659FD93)
_MIN_PROBABILITY = 1e-37
"""Smallest probability and back-off, so that logarithms are finite; lmplz has minus infinity."""


@njit(cache=True, nogil=True, inline="always")
def _spread(key: Word) -> Word:
    h = key * _MULTIPLY
    return (h ^ (h >> _HALF)) * _FINAL


@njit(cache=True, nogil=True, inline="always")
def _number(slots: NDArray[np.uint64], keys: NDArray[np.uint64], key: Word, n: int) -> Any:
    """The number of a key; a new key is stored with number n.

    A slot is 0 or 32 bits of hash and a number plus one.
    """
    h = _spread(key)
    mask = np.uint64(len(slots) - 1)
    tag = h & ~_LOW
    at = (h >> _HALF) & mask
    while True:
        held = slots[at]
        if held == _FREE:
            slots[at] = tag | np.uint64(n + 1)
            keys[n] = key
            return n
        if held & ~_LOW == tag:
            number = np.int64(held & _LOW) - 1
            if keys[number] == key:
                return number
        at = (at + _ONE) & mask


@njit(cache=True, nogil=True)
def _number_all(
    slots: NDArray[np.uint64],
    keys: NDArray[np.uint64],
    new: NDArray[np.uint64],
    known: int,
    numbers: NDArray[np.uint32],
) -> int:
    """Number many keys, for which there must be room; returns how many keys are known afterwards.

    A separate function, because a loop in which numba sees `slots` replaced is twice as slow.
    """
    for i in range(len(new)):
        number = _number(slots, keys, new[i], known)
        known = max(known, number + 1)
        numbers[i] = number
    return known


@njit(cache=True, nogil=True)
def _doubled(slots: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The same numbers in twice as many slots."""
    wider = np.zeros(2 * len(slots), np.uint64)
    mask = np.uint64(len(wider) - 1)
    for held in slots:
        if held != _FREE:
            at = (held >> _HALF) & mask
            while wider[at] != _FREE:
                at = (at + _ONE) & mask
            wider[at] = held
    return wider


def number_words(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], characters: NDArray[np.uint32], signs: bool
) -> tuple[NDArray[np.uint32], NDArray[np.uint64]]:
    """Texts as numbers of words.

    Args:
        data, offsets, characters, signs: see `tokens`.

    Returns:
        uint32 [p], the words of all texts, 1 before and 2 after each; uint64 [v], the identity of
        every word by its number; the first three are unknown, begin and end.
    """
    size = int(offsets[-1] - offsets[0])
    texts = len(offsets) - 1
    max_tokens = size if signs else size // 2 + texts  # a token and its separator: 2 bytes
    words = np.empty(max_tokens + 2 * texts + 3, np.uint32)
    p, keys = _number_words(data, offsets, characters, signs, words)
    return words[:p], keys


@njit(cache=True, nogil=True)
def _number_words(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    characters: NDArray[np.uint32],
    signs: bool,
    words: NDArray[np.uint32],
) -> tuple[int, NDArray[np.uint64]]:
    """Fill `words`; returns their number, and the identity of every number."""
    ids = np.empty(MAX_BYTES, np.uint64)
    starts = np.empty(MAX_BYTES, np.int64)
    ends = np.empty(MAX_BYTES, np.int64)
    slots = np.zeros(1 << 12, np.uint64)
    keys = np.empty(1 << 11, np.uint64)
    # a literal would have a type of its own, for which numba compiles again
    known: Any = np.int64(0)
    p = 0
    ids[0] = UNKNOWN
    ids[1] = BEGIN
    ids[2] = END
    known = _number_all(slots, keys, ids[:3], known, words[:3])
    for t in range(len(offsets) - 1):
        words[p] = _BOS
        p += 1
        at = offsets[t]
        end = offsets[t + 1]
        while at < end:
            n, at = read_on(data, at, end, characters, signs, ids, starts, ends)
            while 2 * (known + n) > len(slots):
                slots = _doubled(slots)
                keys = twice(keys)
            known = _number_all(slots, keys, ids[:n], known, words[p : p + n])
            p += n
        words[p] = _EOS
        p += 1
    return p, keys[:known].copy()


def _lengthen(
    words: NDArray[np.uint32], numbers: NDArray[np.uint32]
) -> tuple[NDArray[np.uint64], NDArray[np.uint32], NDArray[np.uint32]]:
    """Extend n-grams by one word.

    Args:
        words: uint32 [p].
        numbers: uint32 [p], the number of the n-gram that ends at each position; replaced by that
            of the longer n-gram, or by no number if it would begin before its text.

    Returns:
        For each longer n-gram uint64 [m] its prefix's number and its last word, uint32 [m] its
        suffix's number, uint32 [m] its count.
    """
    p = len(words)  # numpy gives large arrays large pages, which numba does not: 3 times as fast
    keys = np.empty(p, np.uint64)
    suffix = np.empty(p, np.uint32)
    counts = np.empty(p, np.uint32)
    slots = np.zeros(1 << (3 * p // 2).bit_length(), np.uint64)
    known = _count(words, numbers, slots, keys, suffix, counts)
    return keys[:known], suffix[:known], counts[:known]


@njit(cache=True, nogil=True)
def _count(
    words: NDArray[np.uint32],
    numbers: NDArray[np.uint32],
    slots: NDArray[np.uint64],
    keys: NDArray[np.uint64],
    suffix: NDArray[np.uint32],
    counts: NDArray[np.uint32],
) -> int:
    """Fill the arrays of `_lengthen`; returns the number of different n-grams."""
    known = 0
    before = _NONE
    for i in range(len(words)):
        current = numbers[i]
        numbers[i] = _NONE
        if before != _NONE and words[i] != _BOS:
            key = np.uint64(before) << _HALF | np.uint64(words[i])
            number = _number(slots, keys, key, known)
            if number == known:
                suffix[number] = current
                counts[number] = 0
                known += 1
            counts[number] += np.uint32(1)
            numbers[i] = number
        before = current
    return known


@njit(cache=True, nogil=True)
def _adjust(
    counts: NDArray[np.uint32], at_begin: NDArray[np.bool_], longer_suffix: NDArray[np.uint32]
) -> None:
    """Replace counts by numbers of different preceding words, except at the begin of a text."""
    for i in range(len(counts)):
        if not at_begin[i]:
            counts[i] = 0
    for i in longer_suffix:
        counts[i] += np.uint32(1)


@njit(cache=True, nogil=True)
def _counts_of_counts(counts: NDArray[np.uint32]) -> NDArray[np.float64]:
    """float64 [6]: numbers of n-grams with each count from 0 to 4, and with a higher count."""
    n = np.zeros(6)
    for count in counts:
        n[min(count, 5)] += 1.0
    return n


def _discounts(counts: NDArray[np.uint32]) -> NDArray[np.float64]:
    """float64 [4]: discounts of counts 0, 1, 2 and 3 or more."""
    n = _counts_of_counts(counts)
    if (n[1:4] > 0).all():
        j = np.arange(4.0)
        y = n[1] / (n[1] + 2.0 * n[2])
        off = j - (j + 1) * y * np.append(0.0, n[2:5] / n[1:4])
        off[0] = 0.0
        if (off >= 0.0).all() and (off <= j).all():
            return np.asarray(off)
    return np.array((0.0, *FALLBACK))


@njit(cache=True, nogil=True)
def _weigh(
    keys: NDArray[np.uint64],  # uint64 [m], prefix's number and last word
    suffix: NDArray[np.uint32],  # uint32 [m]
    counts: NDArray[np.uint32],  # uint32 [m], adjusted
    off: NDArray[np.float64],  # float64 [4], discounts
    shorter: NDArray[np.float32],  # float32 [s], probabilities of the n-grams one word shorter
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Probabilities of n-grams from those of their suffixes.

    Returns:
        float32 [m], probabilities; float32 [s], the back-off of each shorter n-gram, 1 if nothing
        follows it.
    """
    total = np.zeros(len(shorter), np.int64)
    left = np.zeros(len(shorter), np.float64)
    for i in range(len(keys)):
        prefix = np.int64(keys[i] >> _HALF)
        total[prefix] += counts[i]
        left[prefix] += off[min(counts[i], 3)]
    backoff = np.ones(len(shorter), np.float32)
    for i in range(len(shorter)):
        if total[i] > 0:
            backoff[i] = max(left[i] / total[i], _MIN_PROBABILITY)
    probability = np.empty(len(keys), np.float32)
    for i in range(len(keys)):
        prefix = np.int64(keys[i] >> _HALF)
        discounted = (counts[i] - off[min(counts[i], 3)]) / total[prefix]
        probability[i] = max(discounted + backoff[prefix] * shorter[suffix[i]], _MIN_PROBABILITY)
    return probability, backoff


@njit(cache=True, nogil=True)
def _identify(
    keys: NDArray[np.uint64], names: NDArray[np.uint64], words: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """uint64 [m]: identities of n-grams from those of their prefixes and of single words."""
    out = np.empty(len(keys), np.uint64)
    for i in range(len(keys)):
        out[i] = follow(names[keys[i] >> _HALF], words[keys[i] & _LOW])
    return out


def estimate(
    words: NDArray[np.uint32], identities: NDArray[np.uint64], order: int, vocabulary: int = 0
) -> NDArray[np.uint64]:
    """Estimate a model.

    Args:
        words: uint32 [p], texts as from `number_words`; at least one text.
        identities: uint64 [v], of the words by number.
        order: length of the longest n-grams, 1 to 5.
        vocabulary: number of different words in all, if these texts lack some; unknown, begin and
            end count (lmplz's `--vocab_pad`, plus one for begin).

    Returns:
        The model as a table for `kernels/backoff.py`.
    """
    counts = [np.bincount(words, minlength=len(identities)).astype(np.uint32)]
    counts[0][_BOS] = 0
    at_begin = np.zeros(len(identities), np.bool_)
    at_begin[_BOS] = True
    keys = []
    suffixes = []
    numbers = words.copy()
    for _ in range(1, order):
        longer = _lengthen(words, numbers)
        keys.append(longer[0])
        suffixes.append(longer[1])
        _adjust(counts[-1], at_begin, longer[1])
        at_begin = at_begin[longer[0] >> _HALF]
        counts.append(longer[2])
    # of single words: what discounts take is spread evenly over all, including the unknown word
    discounts = _discounts(np.delete(counts[0], _BOS))[np.minimum(counts[0], 3)]
    total = int(counts[0].sum())
    even = discounts.sum() / total / (max(vocabulary, len(identities)) - 1)
    probability = np.maximum((counts[0] - discounts) / total + even, _MIN_PROBABILITY).astype(
        np.float32
    )
    probability[_BOS] = 1.0  # as in lmplz, outside the sum
    table = empty_table(sum(len(c) for c in counts))
    names = identities
    for key, suffix, count in zip(keys, suffixes, counts[1:], strict=True):
        longer_probability, backoff = _weigh(key, suffix, count, _discounts(count), probability)
        put(table, names, np.log10(probability), np.log10(backoff))
        names = _identify(key, names, identities)
        probability = longer_probability
    put(table, names, np.log10(probability), np.zeros(len(names), np.float32))
    return table
