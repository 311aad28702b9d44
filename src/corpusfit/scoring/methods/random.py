"""`random`: a random score; a baseline that ignores the target.

What: a number from a hash of the text and the random seed; a segment's mean is distributed like a
unit's score.
Why: relevance is measured against random selection (TADPOLE, section 4.1; Domain Clusters, section
4). A segment's score is the mean of its units' scores. Means of uniform numbers concentrate with
the number of units, so short segments would rank first. The mean of Cauchy numbers is distributed
like one of them, so long and short segments have the same chance for any share.
Trade-off: a hash instead of a generator, because a text's score must depend only on the text; equal
texts therefore get equal scores. Cauchy numbers have no variance, so as weights they are nearly
equal.
Reference: Johnson, Kotz and Balakrishnan (1994), Continuous Univariate Distributions, chapter 16.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.types import Reads, Texts, as_texts
from corpusfit.scoring.contract import Family, Method, Scorer

_BITS = 48


@dataclass(frozen=True)
class RandomScorer(Scorer[Texts]):
    """Standard Cauchy numbers from BLAKE2b, keyed with the seed."""

    seed: int

    def score(self, batch: Texts) -> NDArray[np.float32]:
        """Score n texts; float32 [n], half of them below 0."""
        key = self.seed.to_bytes(16, "little", signed=True)
        out = np.empty(len(batch), np.float32)
        for i, text in enumerate(as_texts(batch).to_pylist()):
            digest = hashlib.blake2b(text.encode(), digest_size=_BITS // 8, key=key).digest()
            uniform = (int.from_bytes(digest, "little") + 0.5) / 2**_BITS
            out[i] = math.tan(math.pi * (uniform - 0.5))
        return out


@dataclass(frozen=True)
class Random(Method[Texts]):
    """Random score; ignores the target (baseline)."""

    reads: ClassVar[Reads] = "text"
    family: ClassVar[Family] = "baseline"
    higher: ClassVar[str] = "by chance alone"
    ignores_target: ClassVar[bool] = True
    scorer: ClassVar[type] = RandomScorer
    cost: ClassVar[str] = "700,000/s"

    def fit(self, target: Texts, background: Texts, *, seed: int) -> RandomScorer:
        """Store the seed; target and background are not used."""
        return RandomScorer(seed)
