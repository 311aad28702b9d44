"""`moore_lewis`: more likely under a model of the target than under a model of the corpus.

What: H_corpus(text) - H_target(text), cross-entropies in bits per token under two n-gram models of
equal size, with the end of the text as a token; with models of order 1, a log ratio of words.
Why: the standard of data selection. The difference cancels what makes a text hard for any model
(length, rare names), which perplexity under the target's model alone rewards or punishes.
Trade-off: it compares words, not meaning. Moore and Lewis limit the vocabulary to words that occur
twice in the target, which for a few hundred target texts maps most words to one; here both models
share the words of both samples, and a word that a model lacks is unknown to it. Order 1 is the
default, because models of a few thousand sentences know too few pairs (benchmarks/log.md). Domain
Clusters runs a script with other choices: `order=5`, `signs=true`, `sample=texts`,
`shared_vocabulary=false`, `per_token=false`; papers/results/moore_lewis.md compares each.
Reference: Moore and Lewis (2010), Intelligent Selection of Language Model Training Data; TADPOLE,
section 4.1; Domain Clusters, sections 4 and A.5 (github.com/pamelashapiro/moore-lewis).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.errors import bad_setting
from corpusfit.core.settings import setting
from corpusfit.core.types import Reads, Texts
from corpusfit.kernels.backoff import fits
from corpusfit.scoring.arpa import read_arpa
from corpusfit.scoring.contract import Effect, Family, Method, Scorer, require_fit
from corpusfit.scoring.language_model import (
    WORDLESS,
    bits_of_tokens,
    entropy,
    equal_sample,
    sum_effects,
    train_models,
)


@dataclass(frozen=True)
class MooreLewisScorer(Scorer[Texts]):
    """Two models; see `kernels/backoff.py`."""

    target: NDArray[np.uint64]  # [slots, 2], the table of the target's model
    corpus: NDArray[np.uint64]  # [slots, 2], the table of the corpus's model
    target_order: int  # length of the longest n-grams of the target's model
    corpus_order: int  # length of the longest n-grams of the corpus's model
    signs: bool  # whether runs of punctuation are tokens
    per_token: bool = True  # whether scores are per token, not of whole texts

    def __post_init__(self) -> None:
        require_fit(fits(self.target, self.target_order), fits(self.corpus, self.corpus_order))

    def score(self, batch: Texts) -> NDArray[np.float32]:
        """Score n texts: float32 [n], bits per token; a text without tokens gets `WORDLESS`.

        Without `per_token` the score is in bits, and a text without tokens has that of its end.
        """
        target, tokens = entropy(self.target, self.target_order, batch, signs=self.signs)
        corpus, _ = entropy(self.corpus, self.corpus_order, batch, signs=self.signs)
        if not self.per_token:
            return np.asarray((corpus - target) * tokens, np.float32)
        return np.where(tokens > 1, corpus - target, WORDLESS).astype(np.float32)

    def explain(self, text: str) -> list[Effect]:
        """How much each n-gram raised the score; the effects add up to the score."""
        near, bits = bits_of_tokens(self.target, self.target_order, text, signs=self.signs)
        far, less = bits_of_tokens(self.corpus, self.corpus_order, text, signs=self.signs)
        grams = [max(a, b, key=len) for a, b in zip(near, far, strict=True)]
        if not self.per_token:
            return sum_effects(grams, (bits - less) * len(bits), wordless=None)
        return sum_effects(grams, bits - less)


@dataclass(frozen=True)
class MooreLewis(Method[Texts]):
    """Cross-entropy difference of n-gram models of corpus and target (Moore-Lewis).

    Attributes:
        order: Length of the longest n-grams of the trained models, 1 to 5 (default: 1).
        signs: Count runs of punctuation as tokens (default: false).
        sample: Size of the background's sample: `tokens` for as many tokens as the target, `texts`
            for as many texts, as in Domain Clusters (default: tokens).
        shared_vocabulary: Give both models the words of both samples; false gives each its own, as
            in Domain Clusters (default: true).
        per_token: Divide a text's score by its number of tokens; false as in Domain Clusters
            (default: true).
        arpa_in: ARPA file of a model of the target's domain, on lower-cased text, used instead of
            training; needs `arpa_general`, a model of about equal size (default: none).
        arpa_general: ARPA file of a model of general, lower-cased text; needs `arpa_in` (default:
            none).
    """

    reads: ClassVar[Reads] = "text"
    family: ClassVar[Family] = "lexical"
    scorer: ClassVar[type] = MooreLewisScorer
    cost: ClassVar[str] = "120,000/s"

    order: int = setting(1, minimum=1, maximum=5)
    signs: bool = False
    sample: str = setting("tokens", allowed=("tokens", "texts"))
    shared_vocabulary: bool = True
    per_token: bool = True
    arpa_in: str = ""
    arpa_general: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.arpa_in) != bool(self.arpa_general):
            arpa_files = (self.arpa_in, self.arpa_general)
            raise bad_setting(
                "method.arpa_in and method.arpa_general", "two files, or both empty", arpa_files
            )

    @property
    def files(self) -> tuple[str, ...]:
        """The ARPA files."""
        return (self.arpa_in, self.arpa_general) if self.arpa_in else ()

    def fit(self, target: Texts, background: Texts, *, seed: int) -> MooreLewisScorer:
        """Train on the target and on a sample of the background of its size, drawn at random."""
        if self.arpa_in:
            near = read_arpa(self.arpa_in)
            far = read_arpa(self.arpa_general)
            return MooreLewisScorer(near[0], far[0], near[1], far[1], self.signs, self.per_token)
        sample = equal_sample(
            background, target, seed=seed, signs=self.signs, by_tokens=self.sample == "tokens"
        )
        together = [[target, sample]] if self.shared_vocabulary else [[target], [sample]]
        inside, outside = (
            m for samples in together for m in train_models(samples, self.order, signs=self.signs)
        )
        return MooreLewisScorer(inside, outside, self.order, self.order, self.signs, self.per_token)
