"""`domain_moore_lewis`: first the target's domain, then Moore-Lewis within the domain.

What: log2 P(domain) + 4 (H_corpus(text) - H_target(text)): the probability by `consensus` that a
text is of the target's domain, and the cross-entropy difference of `moore_lewis`, in bits.
Why: a domain is often larger than the selection. `consensus` alone then ranks first the texts least
like the rest of the corpus, which are not the most like the target; `moore_lewis` alone also
selects texts of other domains that share words with the target. For texts certainly of the domain
the first term is 0 and words decide; elsewhere both terms count.
Trade-off: it finds less of a domain than `consensus`, because it prefers some of its texts
(docs/ranking.md), and it costs both methods; a model adapted on its selection predicts the target
better. With a factor of 1 instead of 4 both effects are smaller (benchmarks/log.md).
Reference: Moore and Lewis (2010), Intelligent Selection of Language Model Training Data;
`methods/consensus.py` for the probability. The sum is this project's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.contracts import (
    Effect,
    Method,
    Paired,
    Scorer,
    pack_scorer,
    unit_method,
    unpack_scorer,
)

_DOMAIN = "consensus"
_WORDS = "moore_lewis"

_PER_BIT = 4.0
"""Weight of a bit per token of cross-entropy difference against a bit of log2 P(domain)."""


@dataclass(frozen=True)
class DomainMooreLewisScorer(Scorer[Paired]):
    """The scorers of both methods."""

    domain: NDArray[np.uint8]  # a stored scorer of `consensus`
    words: NDArray[np.uint8]  # a stored scorer of `moore_lewis`

    @cached_property
    def by_domain(self) -> Scorer[NDArray[np.float32]]:
        """The scorer by domain, opened once per process."""
        return unpack_scorer(self.domain)

    @cached_property
    def by_words(self) -> Scorer[Any]:
        """The scorer by words, opened once per process."""
        return unpack_scorer(self.words)

    def score(self, batch: Paired) -> NDArray[np.float32]:
        """Score n texts with their embeddings [n, d]: float32 [n], in bits."""
        odds = self.by_domain.score(batch.vectors).astype(np.float64)
        surprise = np.logaddexp(0.0, -odds) / np.log(2.0)
        return np.asarray(_PER_BIT * self.by_words.score(batch.texts) - surprise, np.float32)

    def remark(self) -> str:
        """The remark of the domain's scorer."""
        return self.by_domain.remark()

    def explain(self, text: str) -> list[Effect]:
        """How much each n-gram raised the score; log2 P(domain) is added to their sum."""
        word_effects = self.by_words.explain(text)
        return [Effect(effect.part, _PER_BIT * effect.effect) for effect in word_effects]


@dataclass(frozen=True)
class DomainMooreLewis(Method[Paired]):
    """Moore-Lewis within the domain that `consensus` finds, both with their defaults."""

    reads = "both"
    family = "ensemble"
    scorer: ClassVar[type] = DomainMooreLewisScorer

    def fit(self, target: Paired, background: Paired, *, seed: int) -> DomainMooreLewisScorer:
        """Fit both."""
        domain = unit_method(_DOMAIN, {}).fit(target, background, seed=seed)
        by_words = unit_method(_WORDS, {}).fit(target.texts, background.texts, seed=seed)
        return DomainMooreLewisScorer(pack_scorer(_DOMAIN, domain), pack_scorer(_WORDS, by_words))
