"""The counts and gains of cynical selection: what a text adds to what has been taken.

What: `count` finds the words and pairs of words of the target in texts; `gains` computes how much
each text lowers the target's cross-entropy under the counts of what has been taken so far.
Why: a text is read once. A round of the selection then reads only its counts, a few bytes for each
different word, and the logarithms of the usual counts, 1 to 4, are looked up.
Trade-off: a word counts at most 65,535 times in one text.
Reference: Axelrod (2017), Cynical Selection of Language Model Training Data (arXiv 1709.02279),
section 3.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from corpusfit.kernels import backoff
from corpusfit.kernels.backoff import LONGEST, empty_table, find, read_on
from corpusfit.kernels.tokens import follow

USUAL = 4
"""Counts of a word in a text whose logarithms are looked up: 1 to this."""

WORDLESS = np.float32(np.finfo(np.float32).min)
"""The gain of a text without a word."""

_MOST = np.uint16(65_535)


def number_features(identities: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A hash table from the identities of words and pairs, uint64 [f], to their positions.

    Returns:
        uint64 [slots, 2]: identity, position.
    """
    table = empty_table(len(identities))
    _fill(table, identities)
    return table


def fits(table: NDArray[np.uint64], f: int) -> bool:
    """Whether `find` ends in a table of features, and finds numbers below f."""
    return backoff.fits(table, 1) and bool((table[table[:, 0] != 0, 1] < f).all())


@njit(cache=True, nogil=True)
def _fill(table: NDArray[np.uint64], identities: NDArray[np.uint64]) -> None:
    for i in range(len(identities)):
        at, _ = find(table, identities[i])
        table[at, 0] = identities[i]
        table[at, 1] = np.uint64(i)


@njit(cache=True, nogil=True, inline="always")
def _add(
    table: NDArray[np.uint64],
    slot: Any,
    held: NDArray[np.uint16],
    features: NDArray[np.uint32],
    first: int,
    n: int,
) -> int:
    """Count one occurrence; `features[first:n]` are those that the text has so far."""
    feature = np.int64(table[slot, 1])
    before = held[feature]
    if before == 0:
        features[n] = feature
        n += 1
    if before < _MOST:
        held[feature] = before + np.uint16(1)
    return n


@njit(cache=True, nogil=True)
def count(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    characters: NDArray[np.uint32],
    table: NDArray[np.uint64],
    size: int,
    pairs: bool,
) -> tuple[NDArray[np.uint32], NDArray[np.uint16], NDArray[np.int64], NDArray[np.int64]]:
    """Count the target's words and pairs of words in texts.

    Args:
        data: uint8 [b], UTF-8 bytes of all texts.
        offsets: int64 [m + 1]; text i is data[offsets[i] : offsets[i + 1]].
        characters: what `characters.table` returns.
        table: what `number_features` returns.
        size: number of features.
        pairs: whether some of the features are pairs of words.

    Returns:
        uint32 [e], the features of all texts, each once a text, in order of occurrence; uint16 [e],
        how often; int64 [m], where the features of each text end; int64 [m], words of each text.
    """
    m = len(offsets) - 1
    room = offsets[m] - offsets[0] + 2 * m + 2
    features = np.empty(room, np.uint32)
    counts = np.empty(room, np.uint16)
    last, words = np.empty(m, np.int64), np.zeros(m, np.int64)
    held = np.zeros(size, np.uint16)
    ids = np.empty(LONGEST, np.uint64)
    starts, ends = np.empty(LONGEST, np.int64), np.empty(LONGEST, np.int64)
    n = 0
    for t in range(m):
        first = n
        at, end = offsets[t], offsets[t + 1]
        known, before = False, np.uint64(0)
        while at < end:
            found, at = read_on(data, at, end, characters, False, ids, starts, ends)
            words[t] += found
            for i in range(found):
                slot, here = find(table, ids[i])
                if here:
                    n = _add(table, slot, held, features, first, n)
                    if pairs and known:
                        slot, both = find(table, follow(before, ids[i]))
                        if both:
                            n = _add(table, slot, held, features, first, n)
                known, before = here, ids[i]
        for e in range(first, n):
            counts[e] = held[features[e]]
            held[features[e]] = 0
        last[t] = n
    return features[:n].copy(), counts[:n].copy(), last, words


def usual_gains(weights: NDArray[np.float64], taken: NDArray[np.float64]) -> NDArray[np.float64]:
    """float64 [f, USUAL]: weight times log((C + c) / C) for c = 1, 2, …; 0 for a C of 0.

    Args:
        weights: float64 [f], the features' weights in the target.
        taken: float64 [f], how often each was taken, C.
    """
    c = np.arange(1.0, USUAL + 1)
    ratio = np.divide(
        c, taken[:, None], where=taken[:, None] > 0, out=np.zeros((len(taken), USUAL))
    )
    return np.asarray(weights[:, None] * np.log1p(ratio))


@njit(cache=True, nogil=True)
def gains(
    features: NDArray[np.uint32],
    counts: NDArray[np.uint16],
    last: NDArray[np.int64],
    words: NDArray[np.int64],
    weights: NDArray[np.float64],
    taken: NDArray[np.float64],
    usual: NDArray[np.float64],
    total: float,
    scale: float,
) -> NDArray[np.float32]:
    """How much a word of each text lowers the target's cross-entropy, on average.

    Args:
        features: uint32 [e], as from `count`.
        counts: uint16 [e], how often each is in its text.
        last: int64 [m], where the features of each text end.
        words: int64 [m], words of each text.
        weights: float64 [f], the features' weights in the target.
        taken: float64 [f], how often each was taken; above 0 for every feature of a text.
        usual: what `usual_gains` returns for these.
        total: words taken.
        scale: sum of the weights.

    Returns:
        float32 [m], in nats per word; `WORDLESS` for a text without words.
    """
    found = np.empty(len(words), np.float32)
    first = 0
    for t in range(len(words)):
        if words[t] == 0:
            found[t] = WORDLESS
            continue
        gain = 0.0
        for e in range(first, last[t]):
            feature, c = features[e], counts[e]
            if c <= USUAL:
                gain += usual[feature, c - 1]
            else:
                gain += weights[feature] * np.log1p(c / taken[feature])
        first = last[t]
        found[t] = (gain - scale * np.log1p(words[t] / total)) / words[t]
    return found


@njit(cache=True, nogil=True)
def add_counts(
    features: NDArray[np.uint32],
    counts: NDArray[np.uint16],
    last: NDArray[np.int64],
    chosen: NDArray[np.bool_],
    sums: NDArray[np.int64],
) -> None:
    """Add the counts of the chosen texts, bool [m], to the sums by feature, int64 [f]."""
    first = 0
    for t in range(len(last)):
        if chosen[t]:
            for e in range(first, last[t]):
                sums[features[e]] += counts[e]
        first = last[t]
