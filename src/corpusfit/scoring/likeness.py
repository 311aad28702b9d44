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
FEWEST_WORDS = 200
"""Words that each model is trained on, below which nothing is said: below 50, nine of ten targets
with their domain in the corpus looked foreign, below 100 one in three (benchmarks/log.md,
2026-11-29)."""
MAX_WORDS = 5_000
_APART = 0.5  # bits: a selection that is this near to target texts is like them
_MAX_TARGET = 2_000  # target units
_MAX_BYTES = 3_000_000  # of the corpus sample
_DISCOUNT = 0.75
_DEVIATIONS = 1.96
_BEGIN = 1  # numbers of the begin of a text and of the first word (`number_words`)
_FIRST = 3


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
        if self.closed <= 0:
            return f"A selection is no more like the target than random text is: {bits}."
        closed = f"{100 * self.closed:.0f} % of the gap between random text and texts of the target"
        return f"A selection closes {closed}: {bits}."

    def warning(self) -> str:
        """What to do about a foreign target."""
        return (
            f"The corpus has little like your target. {self} Look for another corpus, or look at "
            "the first texts of the selection before you train on it."
        )


def likeness(
    target: Texts, sample: Texts, documents: NDArray[np.int64] | None, *, seed: int
) -> Likeness | None:
    """Measure what a sample of the corpus has of a target.

    Args:
        target: n texts.
        sample: texts of the corpus.
        documents: int64 [n], the document of each target text (default: each is one).
        seed: of the draws.

    Returns:
        None if the target has too few documents or too few words.
    """
    rng = np.random.default_rng(seed % 2**64)
    documents = np.arange(len(target)) if documents is None else documents
    if len(np.unique(documents)) < FEWEST:
        return None
    kept = np.sort(rng.permutation(len(target))[:_MAX_TARGET])
    target = take_texts(target, kept)
    documents = documents[kept]
    most = round(len(sample) * min(1.0, _MAX_BYTES / max(1, sample.nbytes)))
    sample = take_texts(sample, np.sort(rng.permutation(len(sample))[: max(1, most)]))
    m = len(sample)
    buffers = word_buffers(pa.concat_arrays([sample, target]))
    numbers, identities = number_words(*buffers, characters(), False)
    texts = np.split(numbers, np.flatnonzero(numbers == _BEGIN)[1:])
    sizes = np.array([len(text) - 2 for text in texts])
    # both halves of the documents are held out in turn
    different, document = np.unique(documents, return_inverse=True)
    half = (rng.permutation(len(different)) % 2)[document]
    sides = [m + np.flatnonzero(half == i) for i in (0, 1)]
    limit = min(MAX_WORDS, *(int(sizes[side].sum()) for side in (*sides, np.arange(m))))
    if limit < FEWEST_WORDS:
        return None
    method = registry.build("cynical", {})
    bits = np.zeros((3, len(different)))
    tokens = np.zeros(len(different))
    for held, others in (sides, sides[::-1]):
        scores = fit_to_sample(method, take_texts(target, others - m), sample, seed=seed)()
        orders = rng.permutation(m), best_first(scores), rng.permutation(others)
        evaluated = np.concatenate([texts[i] for i in held])
        owners = np.repeat(document[held - m], sizes[held] + 1)
        tokens += np.bincount(owners, minlength=len(different))
        for i, order in enumerate(orders):
            enough = int(np.searchsorted(np.cumsum(sizes[order]), limit)) + 1
            read = np.concatenate([texts[k] for k in order[:enough]])
            # the first words, equally many for all
            read = read[: int(np.searchsorted(np.cumsum(read >= _FIRST), limit, side="right"))]
            found = bigram_bits(read, evaluated, len(identities))
            bits[i] += np.bincount(owners, found, minlength=len(different))
    drawn, selected, own = (bits.sum(axis=1) / tokens.sum()).tolist()
    # What the selection closes beyond `LITTLE` of the gap, with its standard error over documents:
    # a ratio of sums, by its residuals. A difference is safe where the gap itself is 0.
    beyond = (1 - LITTLE) * bits[0] - bits[1] + LITTLE * bits[2]
    mean = beyond.sum() / tokens.sum()
    error = np.sqrt(np.square(beyond - mean * tokens).sum()) / tokens.sum()
    foreign = bool(mean + _DEVIATIONS * error < 0) and selected - own > _APART
    closed = (drawn - selected) / (drawn - own) if drawn > own else None
    return Likeness(limit, drawn, selected, own, closed, foreign)


def bigram_bits(
    trained: NDArray[np.uint32], evaluated: NDArray[np.uint32], vocabulary: int
) -> NDArray[np.float64]:
    """Bits of each word and end of text under a bigram model with absolute discounting."""
    before, word = _pairs(trained)
    counts = np.bincount(word, minlength=vocabulary)
    spread = _DISCOUNT * np.count_nonzero(counts) / vocabulary
    alone = (np.maximum(counts - _DISCOUNT, 0) + spread) / max(1, counts.sum())
    keys, seen = np.unique(before * vocabulary + word, return_counts=True)
    follows = np.bincount(before, minlength=vocabulary)
    different = np.bincount(keys // vocabulary, minlength=vocabulary)
    before, word = _pairs(evaluated)
    sought = before * vocabulary + word
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
