"""Word vectors by skip-grams with negative sampling, from a few megabytes of text in seconds.

What: for each word and each word near it, a step of gradient descent on
`-log s(v·u) - sum over negatives n of log s(-v·n)`: `v` is the vector of the word, `u` that of its
neighbor, and s(x) = 1 / (1 + exp(-x)). Negatives are drawn by count**0.75, frequent words are left
out by chance, the window is drawn from 1 to its size for each word, the rate falls to 0.
Why: what vectors of a selection know of words is what the selection teaches.
Trade-off: one thread, so that the seed decides every vector; the last bits may be others on another
kind of processor.
Reference: Mikolov, Sutskever, Chen, Corrado and Dean (2013), Distributed Representations of Words
and Phrases and their Compositionality, sections 2.2 and 2.3; what is left out is by fastText's
formula, sqrt(t/f) + t/f.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from corpusfit.kernels.machine_words import Word

WIDTH = 64
WINDOW = 5
NEGATIVES = 5
EPOCHS = 12
RATE = 0.05
FEWEST = 2
"""Occurrences below which a word has no vector."""
FREQUENT = 1e-4
"""Share of all words from which a word is left out more often than not."""

_BORDERS = 3  # numbers below it are unknown, begin and end
_BOUND = 8.0  # beyond it a sigmoid is taken as 0 or 1
_STEPS = 1024  # of the table of sigmoids
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)

_FAST = {"contract", "reassoc", "nsz"}

Floats = NDArray[np.float32]


def skipgram(
    words: NDArray[np.uint32], seed: int, *, epochs: int = EPOCHS, rate: float = RATE
) -> tuple[NDArray[np.int64], Floats]:
    """Learn a vector of each word that occurs at least twice.

    Args:
        words: uint32 [p], texts as from `kneser_ney.number_words`: 1 before and 2 after each.
        seed: decides the order of the texts, the first vectors and all draws.
        epochs: how often the texts are read.
        rate: learning rate of the first step.

    Returns:
        numbers: int64 [v], the words that have a vector, by falling count.
        vectors: float32 [v, WIDTH].
    """
    counts = np.bincount(words, minlength=_BORDERS)
    counts[:_BORDERS] = 0
    total = int(counts.sum())
    numbers = np.argsort(-counts, kind="stable")
    numbers = numbers[: np.count_nonzero(counts >= FEWEST)]
    rng = np.random.default_rng(seed % 2**64)
    inputs = rng.uniform(-1 / WIDTH, 1 / WIDTH, (len(numbers), WIDTH)).astype(np.float32)
    if len(numbers) < 2:  # no word but itself could be a negative
        return numbers, inputs

    # texts in random order, with ranks in the place of numbers; -1 for a word without a vector
    ranks = np.full(len(counts), -1, np.int32)
    ranks[numbers] = np.arange(len(numbers))
    begins = np.flatnonzero(words == 1) + 1
    ends = np.flatnonzero(words == 2)
    order = rng.permutation(len(begins))

    share = FREQUENT * total / counts[numbers]
    kept = np.minimum((np.sqrt(share) + share) * 2.0**32, 2.0**32 - 1).astype(np.uint64)
    chances, others = alias_table(np.asarray(counts[numbers] ** 0.75, np.float64))
    _train(
        ranks[words],
        begins[order],
        ends[order],
        kept,
        chances,
        others,
        _sigmoids(),
        inputs,
        np.zeros_like(inputs),
        epochs,
        rate,
        np.uint64(rng.integers(2**63)),
    )
    return numbers, inputs


def alias_table(weights: NDArray[np.float64]) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """Draw by weights with one look: a place by chance, which keeps the draw or hands it on.

    Reference: Vose (1991), A Linear Algorithm for Generating Random Numbers with a Given
    Distribution.

    Args:
        weights: float64 [v], positive.

    Returns:
        chances: uint64 [v], of 2**32, that a place keeps a draw.
        others: int32 [v], the place that gets it otherwise.
    """
    scaled = weights * (len(weights) / weights.sum())
    others = np.arange(len(weights), dtype=np.int32)
    small = np.flatnonzero(scaled < 1).tolist()
    large = np.flatnonzero(scaled >= 1).tolist()
    while small and large:
        little = small.pop()
        others[little] = large[-1]
        scaled[large[-1]] -= 1 - scaled[little]
        if scaled[large[-1]] < 1:
            small.append(large.pop())
    # what is left of either differs from 1 by rounding alone
    scaled[[*small, *large]] = 1.0
    return np.minimum(scaled * 2.0**32, 2.0**32).astype(np.uint64), others


def _sigmoids() -> Floats:
    """float32 [_STEPS], of the middles of equal parts of [-_BOUND, _BOUND]."""
    middles = ((np.arange(_STEPS) + 0.5) / _STEPS * 2 - 1) * _BOUND
    return (1 / (1 + np.exp(-middles))).astype(np.float32)


@njit(cache=True, nogil=True, inline="always")
def _next(state: Word) -> tuple[Word, Word]:
    """SplitMix64: the next state, and 64 random bits."""
    state += _GOLDEN
    x = (state ^ (state >> np.uint64(30))) * _FIRST
    x = (x ^ (x >> np.uint64(27))) * _SECOND
    return state, x ^ (x >> np.uint64(31))


@njit(cache=True, nogil=True, inline="always", fastmath=_FAST)
def toward(
    vector: Floats, other: Floats, grad: Floats, label: Any, rate: Any, table: Floats
) -> None:
    """A step of one pair: `other` moves, and what `vector` shall move by is added to `grad`.

    Args:
        vector, other, grad: float32 [WIDTH].
        label: 1 for a neighbor, 0 for a negative.
        rate: the learning rate.
        table: as from `_sigmoids`.
    """
    product = np.float32(0.0)
    for j in range(WIDTH):
        product += vector[j] * other[j]
    at: Any = np.int64((product + np.float32(_BOUND)) * np.float32(_STEPS / (2 * _BOUND)))
    chance = table[min(max(at, 0), _STEPS - 1)]
    step = np.float32(rate) * (np.float32(label) - chance)
    for j in range(WIDTH):
        grad[j] += step * other[j]
        other[j] += step * vector[j]


@njit(cache=True, nogil=True, fastmath=_FAST)
def _train(
    ranks: NDArray[np.int32],
    begins: NDArray[np.int64],
    ends: NDArray[np.int64],
    kept: NDArray[np.uint64],
    chances: NDArray[np.uint64],
    others: NDArray[np.int32],
    table: Floats,
    inputs: Floats,
    outputs: Floats,
    epochs: int,
    rate: float,
    state: Word,
) -> None:
    """Read the texts `epochs` times, and move `inputs` and `outputs` at every pair."""
    total = np.int64(0)
    longest = np.int64(0)
    for i in range(len(begins)):
        total += ends[i] - begins[i]
        longest = max(longest, ends[i] - begins[i])
    line = np.empty(longest, np.int32)
    grad = np.zeros(WIDTH, np.float32)
    size = np.uint64(len(inputs))
    seen = np.int64(0)
    for _ in range(epochs):
        for i in range(len(begins)):
            n = 0
            for p in range(begins[i], ends[i]):
                word = ranks[p]
                if word < 0:
                    continue
                state, bits = _next(state)
                if (bits >> _HALF) <= kept[word]:
                    line[n] = word
                    n += 1
            for at in range(n):
                # as if the words that were left out had been spread evenly over the text
                read = seen + (ends[i] - begins[i]) * at / n
                now = np.float32(rate * (1 - read / (total * epochs)))
                state, bits = _next(state)
                reach: Any = 1 + np.int64(((bits >> _HALF) * np.uint64(WINDOW)) >> _HALF)
                vector = inputs[line[at]]
                for near in range(max(0, at - reach), min(n, at + reach + 1)):
                    if near == at:
                        continue
                    target = line[near]
                    toward(vector, outputs[target], grad, 1, now, table)
                    drawn = 0
                    while drawn < NEGATIVES:
                        state, bits = _next(state)
                        place = np.int64(((bits >> _HALF) * size) >> _HALF)
                        if bits & _LOW >= chances[place]:
                            place = np.int64(others[place])
                        if place == target:
                            continue
                        toward(vector, outputs[place], grad, 0, now, table)
                        drawn += 1
                    for j in range(WIDTH):
                        vector[j] += grad[j]
                        grad[j] = 0
            seen += ends[i] - begins[i]
