"""`dsir`: log importance weight of a text under hashed n-gram models.

What: p and q are the bags of hashed 1- to n-grams of target and corpus, and

    score(x) = sum over the n-grams g of x of  log(p(g) + s) - log(q(g) + s),

divided by their number if `per_token` (its default). Without it the score is the log importance
weight of the paper (a segment's is the sum of its units'), and `--weights resample` then draws as
DSIR does, in proportion to its exponential, by Gumbel top-k.
Why: it reads text about as fast as a disk gives it and needs a few hundred target texts.
Trade-off: it sees words, not what they mean; and q is estimated on the background sample, not on
the whole corpus.
Reference: Xie et al. (2023), Data Selection for Language Models via Importance Resampling
(arXiv 2302.03169), sections 3 and 4. Its published code has s = 1e-8, under which a bucket that a
small target misses outweighs all else; 1e-5 finds more (docs/log.md).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.errors import bad_setting
from corpusfit.kernels import characters, hashed
from corpusfit.score.contract import Effect, Method, Scorer
from corpusfit.score.surface_forms import spelled
from corpusfit.types import Texts, buffers


@dataclass(frozen=True)
class DsirScorer(Scorer[Texts]):
    """log(p + s) - log(q + s) for each bucket, float32 [buckets]."""

    table: NDArray[np.float32]
    order: int
    signs: bool
    per_token: bool

    def score(self, batch: Texts) -> NDArray[np.float32]:
        """Log importance weight, per n-gram if so set; a text without tokens is least like it."""
        sums, grams = hashed.score(
            *buffers(batch), characters.table(), self.signs, self.order, self.table
        )
        scores: NDArray[np.float32] = sums.astype(np.float32)
        if self.per_token:
            scores = (sums / np.maximum(grams, 1)).astype(np.float32)
        return np.where(grams > 0, scores, self.table.min())

    def explain(self, text: str) -> list[Effect]:
        """Every n-gram's share; they add up to the score, n-grams that share a bucket apart."""
        ids, words = spelled(text, signs=self.signs)
        first, length, weight = hashed.grams(ids, self.order, self.table)
        share = 1 / max(1, len(weight)) if self.per_token else 1.0
        effects: defaultdict[str, float] = defaultdict(float)
        for j, k, w in zip(first.tolist(), length.tolist(), weight.tolist(), strict=True):
            effects[" ".join(words[j : j + k])] += w * share
        return [Effect(p, e) for p, e in sorted(effects.items(), key=lambda i: (-i[1], i[0]))]


@dataclass(frozen=True)
class Dsir(Method[Texts]):
    """Log importance weight under bags of hashed n-grams of target and corpus.

    Attributes:
        order: n-grams of 1 to this many tokens.
        buckets: how many hash buckets; 10,000 in the paper.
        signs: whether runs of punctuation are tokens, as they are in the published code.
        per_token: divide by the number of n-grams, so that length does not count.
        smoothing: s above.
    """

    order: int = 2
    buckets: int = 10_000
    signs: bool = False
    per_token: bool = True
    smoothing: float = 1e-5

    cost: ClassVar = "about 400 MB/s"
    reads: ClassVar = "text"
    family: ClassVar = "lexical"
    scorer: ClassVar = DsirScorer

    def __post_init__(self) -> None:
        """Check the settings."""
        if not 1 <= self.order <= hashed.MOST:
            raise bad_setting("method.order", f"from 1 to {hashed.MOST}", self.order)
        if not 1 <= self.buckets <= 2**31:
            raise bad_setting("method.buckets", "from 1 to 2147483648", self.buckets)
        if not self.smoothing > 0:
            raise bad_setting("method.smoothing", "above 0", self.smoothing)

    @property
    def log_weights(self) -> bool:
        """The sum over a text is; a mean is not."""
        return not self.per_token

    def fit(self, target: Texts, background: Texts, *, seed: int) -> DsirScorer:
        """Count both; no chance is involved."""
        p, q = self._shares(target), self._shares(background)
        table = np.log(p + self.smoothing) - np.log(q + self.smoothing)
        return DsirScorer(table.astype(np.float32), self.order, self.signs, self.per_token)

    def _shares(self, texts: Texts) -> NDArray[np.float64]:
        """float64 [buckets]: each bucket's share of all n-grams; equal ones without any n-gram."""
        counts = hashed.count(
            *buffers(texts),
            characters.table(),
            self.signs,
            self.order,
            np.ones(len(texts)),
            self.buckets,
        )
        total = counts.sum()
        return counts / total if total else np.full(self.buckets, 1 / self.buckets)
