"""`random`: the baseline that knows nothing of the target.

What: a uniform number from a hash of the text and the seed.
Why: every claim of relevance is measured against taking any text (TADPOLE, section 4.1;
Domain Clusters, section 4).
Trade-off: a hash instead of a generator, because a text's score may depend on the text alone;
equal texts therefore get equal scores.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.score.contract import Family, Method, Scorer
from corpusfit.types import Reads, Texts

__all__ = ["Random", "RandomScorer"]


@dataclass(frozen=True)
class RandomScorer(Scorer[Texts]):
    """Uniform in [0, 1), from BLAKE2b keyed with the seed."""

    seed: int

    def score(self, batch: Texts) -> NDArray[np.float32]:
        """Score n texts; float32 [n] in [0, 1)."""
        key = self.seed.to_bytes(16, "little", signed=True)
        out = np.empty(len(batch), np.float32)
        for i, text in enumerate(batch.to_pylist()):
            digest = hashlib.blake2b(text.encode(), digest_size=3, key=key).digest()
            out[i] = int.from_bytes(digest, "little") / 2**24
        return out


@dataclass(frozen=True)
class Random(Method[Texts]):
    """Take any text."""

    reads: ClassVar[Reads] = "text"
    family: ClassVar[Family] = "baseline"
    scorer: ClassVar[type] = RandomScorer
    cost: ClassVar[str] = "700,000/s"

    def fit(self, target: Texts, background: Texts, *, seed: int) -> RandomScorer:
        """Learn nothing; keep the seed."""
        return RandomScorer(seed)
