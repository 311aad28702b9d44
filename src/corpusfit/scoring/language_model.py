"""n-gram language models for scoring methods: train on texts, score texts, explain one text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.types import Texts
from corpusfit.kernels.backoff import fits, log_probabilities, token_probabilities
from corpusfit.kernels.characters import table as characters
from corpusfit.kernels.kneser_ney import estimate, number_words
from corpusfit.kernels.tokens import END
from corpusfit.scoring.contract import Effect, Scorer, require_fit, sum_by_part
from corpusfit.scoring.tokens import word_buffers, written_tokens

_BITS = float(np.log2(10.0))

WORDLESS = -32.0
"""Score of a text without tokens, in bits per token; its end token alone would score high."""


def train_models(samples: Sequence[Texts], order: int, *, signs: bool) -> list[NDArray[np.uint64]]:
    """Estimate one model per sample, all over one vocabulary: the words of all samples."""
    # A word that a sample lacks gets the probability of an unknown word from its model. In each
    # model the unknown words share the probability that discounting removed from the known words,
    # so the models' scores are comparable.
    read = [number_words(*word_buffers(texts), characters(), signs) for texts in samples]
    everything = np.unique(np.concatenate([words for _, words in read]))
    return [estimate(text, words, order, len(everything)) for text, words in read]


def entropy(
    table: NDArray[np.uint64], order: int, texts: Texts, *, signs: bool
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Cross-entropy of n texts in bits per token; the end of a text is a token."""
    log10, tokens = log_probabilities(table, order, *word_buffers(texts), characters(), signs)
    return -_BITS * log10 / tokens, tokens


def equal_sample(
    texts: Texts, like: Texts, *, seed: int, signs: bool, by_tokens: bool = True
) -> Texts:
    """Draw texts that together have about as many tokens as other texts.

    Reference: Moore and Lewis (2010), section 2 (a sample of equal size).
    """
    order = np.random.default_rng(seed % 2**64).permutation(len(texts))
    count = len(like)
    if by_tokens:
        total = np.cumsum(_lengths(texts, signs)[order])
        count = 1 + int(np.argmin(np.abs(total - _lengths(like, signs).sum())))
    return texts.take(np.sort(order[:count]))


def _lengths(texts: Texts, signs: bool) -> NDArray[np.int64]:
    """Number of tokens of each text, begin and end included; int64 [n]."""
    words, identities = number_words(*word_buffers(texts), characters(), signs)
    return np.diff(np.flatnonzero(identities[words] == END), prepend=-1)


def bits_of_tokens(
    table: NDArray[np.uint64], order: int, text: str, *, signs: bool
) -> tuple[list[str], NDArray[np.float64]]:
    """The contribution of each token of one text to its negative entropy."""
    ids, written = written_tokens(text, signs=signs)
    log10, matched = token_probabilities(table, order, ids)
    written = ["<s>", *written, "</s>"]
    grams = [" ".join(written[i + 2 - max(m, 1) : i + 2]) for i, m in enumerate(matched.tolist())]
    return grams, _BITS * log10 / len(log10)


def sum_effects(
    grams: Sequence[str], effects: NDArray[np.float64], wordless: float | None = WORDLESS
) -> list[Effect]:
    """One effect per different n-gram, strongest raise first."""
    # A lone end token has the effect `wordless`, if given.
    if len(effects) == 1 and wordless is not None:
        return [Effect(grams[0], wordless)]
    return sum_by_part(grams, effects.tolist())


@dataclass(frozen=True)
class PredictableScorer(Scorer[Texts]):
    """One model; the more predictable a text, the higher its score."""

    table: NDArray[np.uint64]  # [slots, 2], see `kernels/backoff.py`
    order: int
    signs: bool  # whether runs of punctuation are tokens

    def __post_init__(self) -> None:
        require_fit(fits(self.table, self.order))

    def score(self, batch: Texts) -> NDArray[np.float32]:
        """Score n texts: float32 [n], negative bits per token; 2^-score is the perplexity."""
        # A text without tokens gets `WORDLESS`.
        bits, tokens = entropy(self.table, self.order, batch, signs=self.signs)
        return np.where(tokens > 1, -bits, WORDLESS).astype(np.float32)

    def explain(self, text: str) -> list[Effect]:
        """How much each n-gram lowered the score; the effects add up to the score."""
        return sum_effects(*bits_of_tokens(self.table, self.order, text, signs=self.signs))
