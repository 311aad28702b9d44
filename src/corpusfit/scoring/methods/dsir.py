"""`dsir`: log importance weight of a text under hashed n-gram models.

What: p and q are the bags of hashed 1- to n-grams of target and corpus, and

    score(x) = sum over the n-grams g of x of  log(p(g) + s) - log(q(g) + s),

divided by their number with `per_token` (the default). Without it the score is the paper's log
importance weight (a segment's is the sum of its units'), and `--policy resample` then draws as
DSIR does, in proportion to its exponential, by Gumbel top-k.
Why: it scores text almost as fast as a disk reads it and needs only a few hundred target texts.
Trade-off: it compares words, not meaning, and q is estimated on the background sample instead of
the whole corpus.
Reference: Xie et al. (2023), Data Selection for Language Models via Importance Resampling (arXiv
2302.03169), sections 3 and 4. Its published code has s = 1e-8, with which one bucket that a small
target lacks outweighs all others; 1e-5 finds more (benchmarks/log.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.settings import setting
from corpusfit.core.types import Texts
from corpusfit.kernels import characters, hashed
from corpusfit.scoring.contract import Effect, Method, Scorer, require_fit, sum_by_part
from corpusfit.scoring.tokens import word_buffers, written_tokens


@dataclass(frozen=True)
class DsirScorer(Scorer[Texts]):
    """log(p + s) - log(q + s) for each bucket, float32 [buckets]."""

    table: NDArray[np.float32]
    order: int
    signs: bool
    per_token: bool

    def __post_init__(self) -> None:
        require_fit(hashed.fits(self.table, self.order))

    def score(self, batch: Texts) -> NDArray[np.float32]:
        """Log importance weights, per n-gram with `per_token`; a text without tokens is lowest."""
        sums, grams = hashed.score(
            *word_buffers(batch), characters.table(), self.signs, self.order, self.table
        )
        scores: NDArray[np.float32] = sums.astype(np.float32)
        if self.per_token:
            scores = (sums / np.maximum(grams, 1)).astype(np.float32)
        return np.where(grams > 0, scores, self.table.min())

    def explain(self, text: str) -> list[Effect]:
        """The effect of every n-gram; the effects add up to the score."""
        ids, words = written_tokens(text, signs=self.signs)
        first, length, weight = hashed.grams(ids, self.order, self.table)
        share = 1 / max(1, len(weight)) if self.per_token else 1.0
        grams = (" ".join(words[j : j + k]) for j, k in zip(first, length, strict=True))
        return sum_by_part(grams, (w * share for w in weight.tolist()))


@dataclass(frozen=True)
class Dsir(Method[Texts]):
    """Log importance weight under hashed n-gram models of target and corpus (DSIR).

    Attributes:
        order: Length of the longest n-grams, in tokens (default: 2).
        buckets: Number of hash buckets (default: 10000).
        signs: Count runs of punctuation as tokens, as the published code does (default: false).
        per_token: Divide by the number of n-grams, so that length does not count (default: true).
        smoothing: Constant s added to both probabilities (default: 1e-05).
    """

    order: int = setting(2, minimum=1, maximum=hashed.MAX_ORDER)
    buckets: int = setting(10_000, minimum=1, maximum=2**31)
    signs: bool = False
    per_token: bool = True
    smoothing: float = setting(1e-5, above=0)

    cost: ClassVar = "about 400 MB/s"
    reads: ClassVar = "text"
    family: ClassVar = "lexical"
    scorer: ClassVar = DsirScorer

    @property
    def log_weights(self) -> bool:
        """Sums are log importance weights; means are not."""
        return not self.per_token

    def fit(self, target: Texts, background: Texts, *, seed: int) -> DsirScorer:
        """Count the n-grams of both; the seed is not used."""
        p = self._shares(target)
        q = self._shares(background)
        table = np.log(p + self.smoothing) - np.log(q + self.smoothing)
        return DsirScorer(table.astype(np.float32), self.order, self.signs, self.per_token)

    def _shares(self, texts: Texts) -> NDArray[np.float64]:
        """float64 [buckets]: each bucket's share of all n-grams; equal shares if there are none."""
        counts = hashed.count(
            *word_buffers(texts),
            characters.table(),
            self.signs,
            self.order,
            np.ones(len(texts)),
            self.buckets,
        )
        total = counts.sum()
        return counts / total if total else np.full(self.buckets, 1 / self.buckets)
