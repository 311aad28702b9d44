"""How much of a target's language a corpus has: what its best text is worth beside target texts.

What: three bigram models are trained on equally many words: of a selection of the corpus, of random
text of it, and of other target texts. `closed` is the part of the way from random text to target
texts that the selection goes, in bits per word of held-out target texts.
Why: every method puts some text first, also where a corpus has nothing of a domain.
Trade-off: of a sample, so a domain below about one per cent of a corpus looks foreign. A target
that repeats itself (questions to one bank) has less in any corpus than prose does.
Reference: Ney, Essen and Kneser (1994), On Structuring Probabilistic Dependences (absolute
discounting). The measure and `LITTLE`, by `benchmarks/foreign.py`, are this project's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from corpusfit.core.types import Texts, take_texts
from corpusfit.kernels.characters import table as characters
from corpusfit.kernels.kneser_ney import number_words
from corpusfit.scoring import registry
from corpusfit.scoring.heldout_bits import best_first, fit_to_sample
from corpusfit.scoring.tokens import word_buffers

LITTLE = 0.4
"""Part closed below which a corpus has little like the target."""
FEWEST = 20
"""Target documents below which nothing is said."""
MAX_WORDS = 5_000
_APART = 0.5  # bits: a selection that is this near to target texts is like them
_MAX_TARGET = 2_000  # target units
_MAX_BYTES = 3_000_000  # of the corpus sample
_DISCOUNT = 0.75
_DEVIATIONS = 1.96
_BEGIN, _FIRST = 1, 3  # numbers of the begin of a text and of the first word (`number_words`)


@dataclass(frozen=True)
class Likeness:
    """Bits per word of held-out target text under models of equally many words.

    Attributes:
        words: words that each model is trained on.
        drawn: bits with random text of the corpus.
        selected: bits with a selection of the corpus.
        target: bits with other target texts.
        closed: part of the way from `drawn` to `target` that the selection goes; None if random
            text is as good as target texts.
        foreign: whether the corpus is shown to have little like the target.
    """

    words: int
    drawn: float
    selected: float
    target: float
    closed: float | None
    foreign: bool

    def __str__(self) -> str:
        """The figures in a sentence."""
        bits = (
            f"{self.drawn:.1f} bits per word with random text of the corpus, {self.selected:.1f} "
            f"with a selection and {self.target:.1f} with other texts of the target "
            f"({self.words:,} words of each)"
        )
        if self.closed is None:
            return f"Random text of the corpus is as good as texts of the target: {bits}."
        closed = f"a selection closes {100 * self.closed:.0f} % of the gap between random text and"
        return f"{closed[0].upper()}{closed[1:]} texts of the target: {bits}."

    def warning(self) -> str:
        """What to do about a foreign target."""
        return (
            f"The corpus has little like your target. {self} Look for another corpus, or look at "
            "the first texts of the selection before you train on it."
        )


def likeness(
    target: Texts, sample: Texts, documents: NDArray[np.int64] | None, *, seed: int
) -> Likeness | None:
    """Measure what a corpus sample has of a target; None if the target has too few documents.

    Args:
        target: n texts.
        sample: texts of the corpus.
        documents: int64 [n], the document of each target text (default: each is one).
        seed: of the draws.
    """
    rng = np.random.default_rng(seed % 2**64)
    documents = np.arange(len(target)) if documents is None else documents
    if len(np.unique(documents)) < FEWEST:
        return None
    kept = np.sort(rng.permutation(len(target))[:_MAX_TARGET])
    target, documents = take_texts(target, kept), documents[kept]
    share = _MAX_BYTES / max(1, sample.nbytes)
    places = np.sort(rng.permutation(len(sample))[: max(1, round(share * len(sample)))])
    sample = take_texts(sample, places)
    m = len(sample)
    buffers = word_buffers(pa.concat_arrays([sample, target]))
    numbered, identities = number_words(*buffers, characters(), False)
    begins = np.append(np.flatnonzero(numbered == _BEGIN), len(numbered))
    texts = _Numbered(numbered, begins, len(identities))
    # both halves of the documents are held out in turn
    _, document = np.unique(documents, return_inverse=True)
    half = (rng.permutation(document.max() + 1) % 2)[document]
    method = registry.build("cynical", {})
    bits = np.zeros((3, document.max() + 1))
    tokens = np.zeros(document.max() + 1)
    limit = min(MAX_WORDS, *(texts.words(m + np.flatnonzero(half == i)) for i in (0, 1)))
    limit = min(limit, texts.words(np.arange(m)))
    for held in (0, 1):
        others = rng.permutation(np.flatnonzero(half != held))
        scores = fit_to_sample(method, take_texts(target, np.sort(others)), sample, seed=seed)()
        orders = rng.permutation(m), best_first(scores), m + others
        places = np.flatnonzero(half == held)
        owners = np.repeat(document[places], texts.sizes[m + places] + 1)
        tokens += np.bincount(owners, minlength=len(tokens))
        evaluated = texts.joined(m + places)
        for i, order in enumerate(orders):
            found = texts.bits(texts.first(order, limit), evaluated)
            bits[i] += np.bincount(owners, found, minlength=len(tokens))
    return _concluded(limit, bits, tokens)


def _concluded(words: int, bits: NDArray[np.float64], tokens: NDArray[np.float64]) -> Likeness:
    """The figures, from bits [3, d] and words [d] of each document."""
    drawn, selected, target = (bits.sum(axis=1) / tokens.sum()).tolist()
    # What the selection closes beyond `LITTLE` of the gap, with its standard error over documents:
    # a ratio of sums, by its residuals. A difference is safe where the gap itself is 0.
    beyond = (1 - LITTLE) * bits[0] - bits[1] + LITTLE * bits[2]
    mean = beyond.sum() / tokens.sum()
    error = np.sqrt(np.square(beyond - mean * tokens).sum()) / tokens.sum()
    foreign = bool(mean + _DEVIATIONS * error < 0) and selected - target > _APART
    closed = (drawn - selected) / (drawn - target) if drawn > target else None
    return Likeness(words, drawn, selected, target, closed, foreign)


@dataclass(frozen=True)
class _Numbered:
    """Texts as numbers of words, each with its begin and end."""

    numbers: NDArray[np.uint32]
    begins: NDArray[np.int64]  # [n + 1]
    vocabulary: int

    @property
    def sizes(self) -> NDArray[np.int64]:
        """int64 [n], words of each text."""
        return np.diff(self.begins) - 2

    def words(self, places: NDArray[np.int64]) -> int:
        """Words of some texts."""
        return int(self.sizes[places].sum())

    def joined(self, places: NDArray[np.int64]) -> NDArray[np.uint32]:
        """The numbers of some texts."""
        parts = (self.numbers[self.begins[i] : self.begins[i + 1]] for i in places)
        return np.concatenate([self.numbers[:0], *parts])

    def first(self, order: NDArray[np.int64], words: int) -> NDArray[np.uint32]:
        """The first so many words of texts in an order."""
        enough = int(np.searchsorted(np.cumsum(self.sizes[order]), words)) + 1
        numbers = self.joined(order[:enough])
        return numbers[: int(np.searchsorted(np.cumsum(numbers >= _FIRST), words, side="right"))]

    def bits(
        self, trained: NDArray[np.uint32], evaluated: NDArray[np.uint32]
    ) -> NDArray[np.float64]:
        """Bits of each word and end of text under a bigram model with absolute discounting."""
        before, word = _pairs(trained)
        counts = np.bincount(word, minlength=self.vocabulary)
        spread = _DISCOUNT * np.count_nonzero(counts) / self.vocabulary
        alone = (np.maximum(counts - _DISCOUNT, 0) + spread) / max(1, counts.sum())
        keys, seen = np.unique(before * self.vocabulary + word, return_counts=True)
        follows = np.bincount(before, minlength=self.vocabulary)
        different = np.bincount(keys // self.vocabulary, minlength=self.vocabulary)
        before, word = _pairs(evaluated)
        sought = before * self.vocabulary + word
        at = np.minimum(np.searchsorted(keys, sought), len(keys) - 1)
        found = np.where(keys[at] == sought, seen[at], 0)
        discounted = np.maximum(found - _DISCOUNT, 0) + _DISCOUNT * different[before] * alone[word]
        known = follows[before] > 0
        probability = np.where(known, discounted / np.maximum(follows[before], 1), alone[word])
        return np.asarray(-np.log2(probability))


def _pairs(numbers: NDArray[np.uint32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Every word and end of a text, after the one before it; int64 [p] both."""
    within = numbers[1:] != _BEGIN
    return numbers[:-1][within].astype(np.int64), numbers[1:][within].astype(np.int64)
