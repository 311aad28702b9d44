"""`domain_moore_lewis`: of the target's domain first, and within the domain by Moore-Lewis.

What: log2 P(domain) + 4 (H_corpus(text) - H_target(text)): the probability, by `consensus`, that a
text is of the target's domain, and the cross-entropy difference of `moore_lewis`, in bits.
Why: a domain is often larger than what is taken of it. `consensus` alone then ranks first what is
least like the rest of the corpus, which is not what is most like the target; `moore_lewis` alone
also takes texts of other domains that share words with it. Where a text is surely of the domain the
first part is 0 and words alone decide; elsewhere doubt is weighed against them.
Trade-off: finds less of a domain than `consensus`, because it prefers some of it (docs/auto.md),
and reads vectors and words, so costs both; a model adapted on what it takes predicts the target
better. Words counted once instead of four times: a little the other way round (docs/log.md).
Reference: Moore and Lewis (2010), Intelligent Selection of Language Model Training Data; the
probability: `methods/consensus.py`. Their sum is our own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.score import registry
from corpusfit.score.contract import Effect, Family, Method, Scorer
from corpusfit.types import Paired, Reads, Vectors

_DOMAIN, _WORDS = "consensus", "moore_lewis"

_PER_BIT = 4.0
"""What a bit a token of cross-entropy difference is worth, in bits of doubt about the domain."""


@dataclass(frozen=True)
class DomainMooreLewisScorer(Scorer[Paired]):
    """Two scorers.

    Attributes:
        domain: uint8, a scorer of `consensus` as stored.
        words: uint8, one of `moore_lewis`.
    """

    domain: NDArray[np.uint8]
    words: NDArray[np.uint8]

    @cached_property
    def by_domain(self) -> Scorer[Vectors]:
        """The scorer by domain, opened once in a process."""
        return registry.from_array(self.domain)

    @cached_property
    def by_words(self) -> Scorer[Any]:
        """The scorer by words, opened once in a process."""
        return registry.from_array(self.words)

    def score(self, batch: Paired) -> NDArray[np.float32]:
        """Score n texts with their float32 [n, d]: float32 [n], bits."""
        odds = self.by_domain.score(batch.vectors).astype(np.float64)
        doubt = np.logaddexp(0.0, -odds) / np.log(2.0)
        return np.asarray(_PER_BIT * self.by_words.score(batch.texts) - doubt, np.float32)

    def remark(self) -> str:
        """What the domain's scorer found."""
        return self.by_domain.remark()

    def nearest(self, vectors: Vectors) -> list[tuple[str, float]]:
        """The corpus texts that the domain's scorer learned from."""
        return self.by_domain.nearest(vectors)

    def explain(self, text: str) -> list[Effect]:
        """By what each n-gram raised the score; the doubt about its domain comes off their sum."""
        found = self.by_words.explain(text)
        return [Effect(effect.part, _PER_BIT * effect.effect) for effect in found]


@dataclass(frozen=True)
class DomainMooreLewis(Method[Paired]):
    """Moore-Lewis inside the domain that `consensus` finds; both with their defaults."""

    reads: ClassVar[Reads] = "both"
    family: ClassVar[Family] = "ensemble"
    scorer: ClassVar[type] = DomainMooreLewisScorer
    needs: ClassVar[str] = "embed"

    def fit(self, target: Paired, background: Paired, *, seed: int) -> DomainMooreLewisScorer:
        """Fit both.

        Raises:
            MissingDependencyError: a member's library is not installed.
        """
        domain = registry.fitting(_DOMAIN, {}).fit(target, background, seed=seed)
        words = registry.fitting(_WORDS, {}).fit(target.texts, background.texts, seed=seed)
        return DomainMooreLewisScorer(
            registry.as_array(_DOMAIN, domain), registry.as_array(_WORDS, words)
        )
