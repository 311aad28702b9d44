"""Cynical selection: feature counts of texts, and their gains given the selection so far.

What: `count` counts the target's words and bigrams in texts, and how likely the order of the words
is; `gains` computes how much each text lowers the target's cross-entropy under the counts of the
text selected so far.
Why: a text is read once. Each round of the selection then reads only its counts, a few bytes per
distinct word, and looks up the logarithms of small counts, 1 to 4.
Trade-off: the count of a word in one text saturates at 65,535.
Reference: Axelrod (2017), Cynical Selection of Language Model Training Data (arXiv 1709.02279),
section 3.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from corpusfit.kernels import backoff
from corpusfit.kernels.backoff import MAX_BYTES, empty_table, find, read_on
from corpusfit.kernels.tokens import follow

USUAL = 4
"""Largest count of a word in a text whose gain is precomputed."""
USUAL_WORDS = 1024
"""Length of a text in words below which its cost is precomputed."""

ONE_FEATURE = 0.1
"""Largest share of the sum over a text's features that one feature may have."""

WORDLESS = np.float32(np.finfo(np.float32).min)
"""The gain of a text without words."""

_MAX_COUNT = np.uint16(65_535)


def number_features(identities: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A hash table from the identities of words and bigrams, uint64 [f], to their positions.

    Returns:
        uint64 [slots, 2]: identity, position.
    """
    table = empty_table(len(identities))
    _fill(table, identities)
    return table


def fits(table: NDArray[np.uint64], f: int) -> bool:
    """Whether `find` terminates in a table of features, and all its numbers are below f."""
    return backoff.fits(table, 1) and bool((table[table[:, 0] != 0, 1] < f).all())


@njit(cache=True, nogil=True)
def _fill(table: NDArray[np.uint64], identities: NDArray[np.uint64]) -> None:
    for i in range(len(identities)):
        slot, _ = find(table, identities[i])
        table[slot, 0] = identities[i]
        table[slot, 1] = np.uint64(i)


@njit(cache=True, nogil=True, inline="always")
def _add(
    table: NDArray[np.uint64],
    slot: Any,
    text_counts: NDArray[np.uint16],
    features: NDArray[np.uint32],
    n: int,
) -> int:
    """Count one occurrence of a feature; append it to `features[:n]` if it is new in the text."""
    feature = np.int64(table[slot, 1])
    count_before = text_counts[feature]
    if count_before == 0:
        features[n] = feature
        n += 1
    if count_before < _MAX_COUNT:
        text_counts[feature] = count_before + np.uint16(1)
    return n


@njit(cache=True, nogil=True)
def count(
    data: NDArray[np.uint8],  # data, offsets, characters: see `tokens`
    offsets: NDArray[np.int64],
    characters: NDArray[np.uint32],
    table: NDArray[np.uint64],  # what `number_features` returns
    size: int,  # number of features
    pairs: bool,  # whether some of the features are bigrams
    # hash table: for a bigram of two words of the target, its count in a sample of the corpus
    seen: NDArray[np.uint64],
    # float64 [f]; the product of two words' values is how often they would follow each other in
    # the sample by chance; empty for no sample
    commonness: NDArray[np.float64],
) -> tuple[
    NDArray[np.uint32],
    NDArray[np.uint16],
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[np.float64],
]:
    """Count the target's words and bigrams in texts.

    Returns:
        uint32 [e], the distinct features of each text, in order of occurrence; uint16 [e], their
        counts in it; int64 [m], where the features of each text end; int64 [m], words of each text;
        float64 [m], the logarithm of how much likelier the order of each text's words is in the
        sample than by chance, summed over its neighboring words of the target.
    """
    m = len(offsets) - 1
    capacity = offsets[m] - offsets[0] + 2 * m + 2
    features = np.empty(capacity, np.uint32)
    counts = np.empty(capacity, np.uint16)
    last = np.empty(m, np.int64)
    words = np.zeros(m, np.int64)
    odds = np.zeros(m, np.float64)
    text_counts = np.zeros(size, np.uint16)
    # buffers of `read_on`: tokens of one stretch of text, with their byte offsets
    ids = np.empty(MAX_BYTES, np.uint64)
    starts = np.empty(MAX_BYTES, np.int64)
    ends = np.empty(MAX_BYTES, np.int64)
    n = 0
    for t in range(m):
        first = n
        position = offsets[t]
        end = offsets[t + 1]
        previous_in_target = False
        previous = np.uint64(0)
        previous_feature = np.int64(0)
        while position < end:
            tokens, position = read_on(data, position, end, characters, False, ids, starts, ends)
            words[t] += tokens
            for i in range(tokens):
                slot, in_target = find(table, ids[i])
                if in_target:
                    feature = np.int64(table[slot, 1])
                    n = _add(table, slot, text_counts, features, n)
                    if previous_in_target:
                        bigram = follow(previous, ids[i])
                        if len(commonness):
                            slot, in_sample = find(seen, bigram)
                            # An unseen bigram counts as seen once, so that texts of the
                            # sample have no advantage.
                            times = float(seen[slot, 1]) if in_sample else 1.0
                            by_chance = commonness[previous_feature] * commonness[feature]
                            odds[t] += np.log(times / (1.0 + by_chance))
                        if pairs:
                            slot, bigram_in_target = find(table, bigram)
                            if bigram_in_target:
                                n = _add(table, slot, text_counts, features, n)
                    previous_feature = feature
                previous_in_target = in_target
                previous = ids[i]
        for e in range(first, n):
            counts[e] = text_counts[features[e]]
            text_counts[features[e]] = 0
        last[t] = n
    return features[:n].copy(), counts[:n].copy(), last, words, odds


def usual_gains(weights: NDArray[np.float64], selected: NDArray[np.float64]) -> NDArray[np.float64]:
    """Precompute weight * log((C + c) / C) for c = 1 to USUAL: float64 [f, USUAL]; 0 where C is 0.

    Args:
        weights: float64 [f], the features' weights in the target.
        selected: float64 [f], C, the features' counts in the text selected so far.
    """
    c = np.arange(1.0, USUAL + 1)
    ratio = np.divide(
        c,
        selected[:, None],
        where=selected[:, None] > 0,
        out=np.zeros((len(selected), USUAL)),
    )
    return np.asarray(weights[:, None] * np.log1p(ratio))


@njit(cache=True, nogil=True)
def gains(
    features: NDArray[np.uint32],  # uint32 [e], the distinct features of each text, from `count`
    counts: NDArray[np.uint16],  # uint16 [e], the count of each in its text
    last: NDArray[np.int64],  # int64 [m], where the features of each text end
    words: NDArray[np.int64],  # int64 [m], words of each text
    weights: NDArray[np.float64],  # float64 [f], the features' weights in the target
    # float64 [f], the features' counts in the text selected so far; above 0 for every feature of a
    # text
    selected: NDArray[np.float64],
    usual: NDArray[np.float64],  # what `usual_gains` returns for `weights` and `selected`
    total: float,  # words selected so far
    scale: float,  # sum of the weights
) -> NDArray[np.float32]:
    """How much each text lowers the target's cross-entropy, per word of the text.

    No feature counts for more than `ONE_FEATURE` of the sum over all: otherwise the best texts are
    short ones that repeat one rare word.

    Returns:
        float32 [m], in nats per word; `WORDLESS` for a text without words.
    """
    per_word = np.empty(len(words), np.float32)
    longest = 0
    first = 0
    for end in last:
        longest = max(longest, end - first)
        first = end
    # looked up once: the places of a text's features are all over the memory
    rises = np.empty(longest)
    costs = scale * np.log1p(np.arange(USUAL_WORDS) / total)
    first = 0
    for t in range(len(words)):
        if words[t] == 0:
            per_word[t] = WORDLESS
            continue
        gain = 0.0
        largest = 0.0
        size = last[t] - first
        for i in range(size):
            feature = features[first + i]
            count_in_text = counts[first + i]
            if count_in_text <= USUAL:
                rise = usual[feature, count_in_text - 1]
            else:
                rise = weights[feature] * np.log1p(count_in_text / selected[feature])
            rises[i] = rise
            gain += rise
            largest = max(largest, rise)
        first = last[t]
        most = ONE_FEATURE * gain
        if largest > most:
            gain = 0.0
            for i in range(size):
                gain += min(most, rises[i])
        usually = words[t] < USUAL_WORDS
        cost = costs[words[t]] if usually else scale * np.log1p(words[t] / total)
        per_word[t] = (gain - cost) / words[t]
    return per_word


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
