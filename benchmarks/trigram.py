"""An interpolated Kneser-Ney trigram with three discounts, apart from the project's own.

It judges selections in benchmarks/cuts.py: over a closed vocabulary, without ends of texts and
without words across them.
Reference: Chen and Goodman (1998), An Empirical Study of Smoothing Techniques for Language
Modeling.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from corpusfit.core.types import buffers, text_array
from corpusfit.kernels.characters import table as characters
from corpusfit.kernels.kneser_ney import number_words

BORDER = 0
PLACES = 21
"""What stands before a text, and the bits of a word's number."""


class Trigram:
    """An interpolated Kneser-Ney model of order 3 with modified discounts.

    Args:
        words: int64 [p], numbers of words below 2**21, two `BORDER`s before each text.
        vocabulary: number of words that share what the discounts of single words leave.
    """

    def __init__(self, words: np.ndarray, vocabulary: int) -> None:
        grams = packed(words[:-2], words[1:-1], words[2:])[words[2:] != BORDER]
        self.vocabulary = vocabulary
        self.levels = []
        keys, counts = np.unique(grams, return_counts=True)
        for order in (2, 1, 0):
            self.levels.insert(0, Level(keys, counts))
            if order:  # a shorter n-gram counts once for each word before it
                shorter = keys & ((1 << (PLACES * order)) - 1)
                keys, counts = np.unique(shorter, return_counts=True)

    def bits(self, words: np.ndarray) -> np.ndarray:
        """float64: of each word of texts, in the form of the training words, without borders."""
        before = words[:-2]
        previous = words[1:-1]
        own = words[2:]
        known = (own >= 0, previous != BORDER, before != BORDER)
        grams = (own, packed(BORDER, previous, own), packed(before, previous, own))
        chance = np.full(len(own), 1 / self.vocabulary)
        for level, keys, use in zip(self.levels, grams, known, strict=True):
            chance = np.where(use, level.chance(keys, chance), chance)
        return -np.log2(chance[own != BORDER])


class Level:
    """n-grams of one order with their counts, and what their contexts leave to shorter ones."""

    def __init__(self, keys: np.ndarray, counts: np.ndarray) -> None:
        self.keys = keys
        discounts = discounts_of(counts)[np.minimum(counts, 3)]
        self.kept = counts - discounts
        self.contexts, owner = np.unique(keys >> PLACES, return_inverse=True)
        self.total = np.bincount(owner, counts)
        self.left = np.bincount(owner, discounts)

    def chance(self, keys: np.ndarray, shorter: np.ndarray) -> np.ndarray:
        """Probabilities of n-grams, given those by the shorter context."""
        context, known = place_in(self.contexts, keys >> PLACES)
        gram, found = place_in(self.keys, keys)
        own = np.where(found, self.kept[gram], 0.0)
        mixed = (own + self.left[context] * shorter) / self.total[context]
        return np.where(known, mixed, shorter)


def discounts_of(counts: np.ndarray) -> np.ndarray:
    """float64 [4]: what counts of 0, 1, 2, and 3 or more lose; .5, 1 and 1.5 for too few counts."""
    n = np.bincount(np.minimum(counts, 5), minlength=6)[1:5].astype(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = n[0] / (n[0] + 2 * n[1])
        found = np.array([k - (k + 1) * share * n[k] / n[k - 1] for k in (1, 2, 3)])
    usual = np.array([0.5, 1.0, 1.5])
    fits = np.isfinite(found) & (found > 0) & (found < [1, 2, 3])
    return np.concatenate(([0.0], np.where(fits, found, usual)))


def packed(*words: Any) -> np.ndarray:
    """The keys of n-grams, the first word highest."""
    key = np.int64(0)
    for word in words:
        key = (key << PLACES) | word
    return key


def place_in(keys: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where sorted keys hold the wanted ones, and whether they do."""
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return at, keys[at] == wanted


def bordered(numbers: np.ndarray) -> np.ndarray:
    """What `number_words` numbers (1 begins a text, 2 ends it), as `Trigram` reads it."""
    kept = numbers[numbers != 2].astype(np.int64)
    return np.repeat(np.where(kept == 1, BORDER, kept), np.where(kept == 1, 2, 1))


def judged(texts: Sequence[str], unseen: Sequence[str], vocabulary: int, most: int) -> float:
    """Bits a word of unseen texts under a model of the first `most` words of texts."""
    numbers, _ = number_words(*buffers(text_array([*texts, *unseen])), characters(), False)
    border = int(np.flatnonzero(numbers == 1)[len(texts)])
    selected = bordered(numbers[:border])
    test = bordered(numbers[border:])
    words = np.cumsum(selected != BORDER)
    if words[-1] < most:
        raise ValueError(f"{words[-1]} words were selected, of {most} to judge by")
    model = Trigram(selected[: int(np.searchsorted(words, most)) + 1], vocabulary)
    return float(model.bits(test).mean())
