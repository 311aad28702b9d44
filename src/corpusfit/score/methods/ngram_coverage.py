"""`ngram_coverage`: has the commonest n-grams of the target.

What: over the different n-grams of a text that are among the `top` commonest of the target
(adaptive) or of the corpus (not adaptive), the sum of their relative frequencies there, divided by
the number of n-grams in the text.
Why: the simplest choice of text by its words; what TextGram builds on and compares with.
Trade-off: frequent n-grams are mostly function words, so it finds a manner of writing more than a
topic; three words carry more of the topic than one or two (docs/benchmarks.md). Without the
division long texts always win; with it a text that says common things twice is not rewarded, and
one of fewer than `order` tokens scores 0.
Reference: Hiwarkhedkar et al. (2024), TextGram, section 4.3, equation 1 (S = frequency(n-gram));
the division by length is from Eck, Vogel and Waibel (2005), section 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.kernels.characters import table
from corpusfit.kernels.coverage import coverage
from corpusfit.kernels.grams import find_each, grams_in
from corpusfit.score.contract import Effect, Family, Method, Scorer
from corpusfit.score.surface_forms import spelled
from corpusfit.score.top_ngrams import check_listing, commonest
from corpusfit.types import Reads, Texts, buffers


@dataclass(frozen=True)
class NgramCoverageScorer(Scorer[Texts]):
    """The listed n-grams, v of them.

    Attributes:
        keys: uint64 [c], the table of n-grams, see `kernels/grams.py`.
        places: int32 [c], the same.
        frequency: float64 [v], as a share of all n-grams counted, commonest first.
        order: tokens in an n-gram.
    """

    keys: NDArray[np.uint64]
    places: NDArray[np.int32]
    frequency: NDArray[np.float64]
    order: int

    def score(self, batch: Texts) -> NDArray[np.float32]:
        """Score n texts: mean frequency, float32 [n] in [0, 1]."""
        index = (self.keys, self.places, self.frequency)
        return np.asarray(coverage(*buffers(batch), table(), *index, self.order))

    def explain(self, text: str) -> list[Effect]:
        """What each listed n-gram gives; the effects add up to the score."""
        ids, spelling = spelled(text)
        listed = find_each(self.keys, self.places, grams_in(ids, self.order))
        known, first = np.unique(listed, return_index=True)
        return [
            Effect(" ".join(spelling[i : i + self.order]), self.frequency[place] / len(listed))
            for place, i in zip(known.tolist(), first.tolist(), strict=True)
            if place >= 0
        ]


@dataclass(frozen=True)
class NgramCoverage(Method[Texts]):
    """Mean frequency of the text's n-grams among the target's commonest (TextGram, section 4.3).

    Attributes:
        order: tokens in an n-gram.
        top: how many n-grams are listed.
        adaptive: list those of the target; false takes those of the corpus sample.
    """

    reads: ClassVar[Reads] = "text"
    family: ClassVar[Family] = "lexical"
    scorer: ClassVar[type] = NgramCoverageScorer
    cost: ClassVar[str] = "250,000/s"

    order: int = 3
    top: int = 10_000
    adaptive: bool = True

    def __post_init__(self) -> None:
        check_listing(self.order, self.top)

    def fit(self, target: Texts, background: Texts, *, seed: int) -> NgramCoverageScorer:
        """Count the n-grams of the target or the background; ties go by identity, seed is not used.

        Raises:
            InputError: no text there has as many tokens as an n-gram.
        """
        texts, role = (target, "target") if self.adaptive else (background, "corpus")
        listed = commonest(texts, role, self.order, self.top)
        frequency = listed.counts / listed.total
        return NgramCoverageScorer(listed.keys, listed.places, frequency, self.order)
