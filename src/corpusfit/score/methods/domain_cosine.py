"""`domain_cosine`: the cosine to the target's mean.

What: cosine similarity between a text's vector and the mean vector of the target.
Why: Aharoni and Goldberg's simplest selector, and with a sentence encoder one of the strongest.
Trade-off: one point stands for the whole target, so a target of several topics is blurred; in
return a text costs one pass over its vector.
Reference: Aharoni and Goldberg (2020), Unsupervised Domain Clusters, section 4.1, Domain-Cosine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.kernels.vectors import products, squared_distances
from corpusfit.score.blocks import blockwise, plain_rows
from corpusfit.score.contract import Family, Method, Scorer
from corpusfit.types import Reads, Vectors

__all__ = ["DomainCosine", "DomainCosineScorer"]


@dataclass(frozen=True)
class DomainCosineScorer(Scorer[Vectors]):
    """The target's mean at length one, float32 [1, d]; zero where the mean is zero."""

    query: Vectors

    def score(self, batch: Vectors) -> NDArray[np.float32]:
        """Score float32 [n, d]: the cosine, float32 [n] in [-1, 1]; 0 for a zero vector."""
        origin = np.zeros_like(self.query)

        def block(x: Vectors) -> NDArray[np.float32]:
            length = np.sqrt(squared_distances(x, origin)[:, 0])
            length[length == 0.0] = 1.0
            return np.asarray(np.clip(products(x, self.query)[:, 0] / length, -1.0, 1.0))

        return blockwise(batch, self.query.shape[1], block)


@dataclass(frozen=True)
class DomainCosine(Method[Vectors]):
    """In the target's mean direction."""

    reads: ClassVar[Reads] = "embedding"
    family: ClassVar[Family] = "centroid"
    scorer: ClassVar[type] = DomainCosineScorer
    cost: ClassVar[str] = "8,500,000/s"

    def fit(self, target: Vectors, background: Vectors, *, seed: int) -> DomainCosineScorer:
        """Average the target; background and seed are not used."""
        mean = target.mean(axis=0, keepdims=True, dtype=np.float64)
        length = float(np.sqrt((mean**2).sum()))
        return DomainCosineScorer(plain_rows(mean / length if length > 0.0 else mean))
