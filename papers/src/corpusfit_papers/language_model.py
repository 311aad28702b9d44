"""An n-gram model as a scorer, of our tokens or NLTK's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpusfit.contracts import Effect, PredictableScorer, Texts, as_texts
from corpusfit_papers.words import NLTK, OWN, in_words, spelled


@dataclass(frozen=True)
class TokenScorer(PredictableScorer):
    """One model; the more predictable a text, the higher its score."""

    words: str = OWN  # whose tokens, `own` or `nltk`

    def score(self, batch: Texts) -> NDArray[np.float32]:
        """Score n texts: float32 [n], negative bits per token; 2^-score is the perplexity."""
        return super().score(in_words(as_texts(batch), self.words))

    def explain(self, text: str) -> list[Effect]:
        """How much each n-gram lowered the score; the effects add up to the score."""
        if self.words == OWN:
            return super().explain(text)
        (encoded,) = in_words(as_texts([text]), self.words).to_pylist()
        effects = [
            Effect(" ".join(_spelled(token) for token in effect.part.split()), effect.effect)
            for effect in super().explain(encoded)
        ]
        return sorted(effects, key=lambda effect: (-effect.effect, effect.part))


def _spelled(token: str) -> str:
    """NLTK's token as it is written; the ends of a text are no tokens."""
    return token if token.startswith("<") else spelled(token, NLTK)
