"""word2vec: vectors of words by skip-grams with negative sampling.

What: trains a vector for each word to tell the words beside it from randomly sampled words.
Why: the baseline of Domain Clusters, trained on the corpus at hand; gensim's license is not
permissive, and its result depends on the number of threads.
Trade-off: one thread and plain stochastic gradient descent, so that the result is a function of the
seed alone; a million words with the defaults take about half a minute.
Reference: Mikolov et al. (2013), Distributed Representations of Words and Phrases and their
Compositionality, sections 2.2 and 2.3; windows, table and learning rate as in their program.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

# share of the learning rate that is left at the end
_LOWEST = 1e-4
# the step between two states of SplitMix64
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@njit(cache=True, nogil=True, inline="always")
def _next_chance(state: NDArray[np.uint64]) -> Any:
    """A number in [0, 1) from the next state of SplitMix64, by its finalizer."""
    state[0] += _GOLDEN
    x = state[0]
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return float((x ^ (x >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53


@njit(cache=True, nogil=True)
def _sampled(
    ids: NDArray[np.int32],
    begin: int,
    end: int,
    counts: NDArray[np.int64],
    sample: float,
    state: NDArray[np.uint64],
    sampled: NDArray[np.int32],
    line: NDArray[np.int64],
) -> int:
    """Fill `sampled` and `line` with the words of a sentence that stay; returns their number."""
    m = 0
    for i in range(begin, end):
        share = counts[ids[i]] / len(ids)
        if sample > 0 and share > sample:
            left = (math.sqrt(share / sample) + 1) * sample / share
            if left < _next_chance(state):
                continue
        sampled[m] = ids[i]
        line[m] = i
        m += 1
    return m


@njit(cache=True, nogil=True)
def _step(
    word: NDArray[np.float32],
    center: int,
    outputs: NDArray[np.float32],
    table: NDArray[np.float64],
    negative: int,
    step: np.float32,
    state: NDArray[np.uint64],
    error: NDArray[np.float32],
) -> None:
    """A step for a word beside another, against sampled words."""
    error[:] = 0
    for k in range(negative + 1):
        other = center
        label = np.float32(1)
        if k:
            other = np.searchsorted(table, _next_chance(state) * table[-1], "right")
            label = np.float32(0)
            if other == center:
                continue
        out = outputs[other]
        dot = np.float32(0)
        for j in range(len(word)):
            dot += word[j] * out[j]
        g = (label - np.float32(1 / (1 + math.exp(-dot)))) * step
        for j in range(len(word)):
            error[j] += g * out[j]
            out[j] += g * word[j]
    for j in range(len(word)):
        word[j] += error[j]


@njit(cache=True, nogil=True)
def train_words(
    ids: NDArray[np.int32],  # int32 [n], the words of all sentences, end to end
    starts: NDArray[np.int64],  # int64 [s + 1], where each sentence begins, and n
    counts: NDArray[np.int64],  # int64 [v], occurrences of each word
    vectors: NDArray[np.float32],  # float32 [v, d], with which training begins
    window: int,  # most words to either side; each word's own window is uniform in 1 to this
    negative: int,  # words sampled for each word beside another, by their counts to the power 0.75
    # share of the words above which frequent words are left out at random; 0 for none
    sample: float,
    epochs: int,  # passes over the sentences
    rate: float,  # learning rate, which falls linearly
    seed: int,  # random seed
) -> None:
    """Train the vectors of words in place."""
    n = len(ids)
    outputs = np.zeros_like(vectors)
    error = np.empty(vectors.shape[1], np.float32)
    state = np.array([seed], np.uint64)
    table = np.cumsum(counts**0.75)
    sampled = np.empty_like(ids)
    line = np.empty(n, np.int64)
    for epoch in range(epochs):
        for s in range(len(starts) - 1):
            m = _sampled(ids, starts[s], starts[s + 1], counts, sample, state, sampled, line)
            for a in range(m):
                done = (epoch * n + line[a]) / (epochs * n)
                step = np.float32(rate * max(_LOWEST, 1 - done))
                reach = 1 + int(_next_chance(state) * window)
                for b in range(max(0, a - reach), min(m, a + reach + 1)):
                    if b != a:
                        word = vectors[sampled[b]]
                        _step(word, sampled[a], outputs, table, negative, step, state, error)
