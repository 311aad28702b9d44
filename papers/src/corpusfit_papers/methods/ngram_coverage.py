"""`ngram_coverage`: contains the target's most frequent n-grams.

What: the sum of the relative frequencies of a text's different n-grams that are among the `top`
most frequent of the target (adaptive) or of the corpus (not adaptive), divided by the number of
n-grams in the text unless `per_token` is false.
Why: the simplest selection by words; TextGram builds on it and compares with it.
Trade-off: frequent n-grams are mostly function words, so it finds a style more than a topic;
trigrams carry more of the topic than words or bigrams (benchmarks/log.md). Without the
division long texts always win; with it repetition within a text is not rewarded. A text of fewer
than `order` tokens scores 0.
Reference: Hiwarkhedkar et al. (2024), TextGram, section 4.3, equation 1 (S = frequency(n-gram));
the division by length is from Eck, Vogel and Waibel (2005), section 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.contracts import (
    Effect,
    Method,
    Scorer,
    Texts,
    as_texts,
    require_fit,
    setting,
)
from corpusfit_papers.coverage import coverage
from corpusfit_papers.words import (
    OWN,
    check_words,
    found_in,
    in_words,
    is_table,
    most_frequent,
    tokens_in,
)


@dataclass(frozen=True)
class NgramCoverageScorer(Scorer[Texts]):
    """The v listed n-grams."""

    keys: NDArray[np.uint64]  # [c], the table of n-grams, see `table_of`
    places: NDArray[np.int32]  # [c], the table's other array
    frequency: NDArray[np.float64]  # [v], share of all counted n-grams, most frequent first
    order: int
    per_token: bool = True  # whether the sum is divided by a text's number of n-grams
    words: str = OWN  # the tokens to use, `own` or `nltk`

    def __post_init__(self) -> None:
        require_fit(is_table(self.keys, self.places, len(self.frequency)), self.order >= 1)

    def score(self, batch: Texts) -> NDArray[np.float32]:
        """Score n texts: mean or summed frequency, float32 [n] in [0, 1]."""
        texts = in_words(as_texts(batch), self.words)
        found, ends = found_in(texts, self.keys, self.places, self.order)
        return np.asarray(coverage(found, ends, self.frequency, self.per_token))

    def explain(self, text: str) -> list[Effect]:
        """The effect of each listed n-gram; the effects add up to the score."""
        spelling = tokens_in(text, self.words)
        texts = in_words(as_texts([text]), self.words)
        listed = found_in(texts, self.keys, self.places, self.order)[0]
        grams = len(listed) if self.per_token else 1
        known, first = np.unique(listed, return_index=True)
        return [
            Effect(" ".join(spelling[i : i + self.order]), self.frequency[index] / grams)
            for index, i in zip(known.tolist(), first.tolist(), strict=True)
            if index >= 0
        ]


@dataclass(frozen=True)
class NgramCoverage(Method[Texts]):
    """Mean frequency of a text's n-grams among the target's most frequent ones.

    Attributes:
        order: Length of the n-grams, in tokens (default: 3).
        top: Number of listed n-grams (default: 10000).
        adaptive: List n-grams of the target; false lists those of the corpus sample (default:
            true).
        per_token: Divide by the number of n-grams in a text; false sums (default: true).
        words: Tokens: `own`, lower-cased words, or `nltk`, those of its word tokenizer (default:
            own).
    """

    reads = "text"
    family = "lexical"
    scorer: ClassVar[type] = NgramCoverageScorer
    cost: ClassVar[str] = "250,000/s"

    order: int = setting(3, minimum=1)
    top: int = setting(10_000, minimum=1)
    adaptive: bool = True
    per_token: bool = True
    words: str = OWN

    def __post_init__(self) -> None:
        super().__post_init__()
        check_words(self.words)

    def fit(self, target: Texts, background: Texts, *, seed: int) -> NgramCoverageScorer:
        """Count the n-grams of target or background; ties go by hash, the seed is not used."""
        texts, role = (target, "target") if self.adaptive else (background, "corpus")
        listed = most_frequent(in_words(texts, self.words), role, self.order, self.top)
        index = (listed.keys, listed.places, listed.counts / listed.total)
        return NgramCoverageScorer(*index, self.order, self.per_token, self.words)
