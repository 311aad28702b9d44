"""`domain_cosine`: cosine to the target's mean.

What: cosine similarity between a text's embedding and the mean embedding of the target, after the
corpus's mean is subtracted from both.
Why: Aharoni and Goldberg's simplest selector, and with a sentence encoder one of the strongest.
They do not center (`centered` false) and average vectors of any length (`embed.unit_length` false);
centering ranked better on average, most of all for rare domains (benchmarks/log.md).
Trade-off: one point stands for the whole target, so a target of several topics is blurred; in
return a score costs one pass over the embedding.
Reference: Aharoni and Goldberg (2020), Unsupervised Domain Clusters, section 4.1, Domain-Cosine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.types import Reads, Vectors
from corpusfit.kernels.vectors import lengths, products
from corpusfit.scoring.blocks import blockwise, plain_rows
from corpusfit.scoring.contract import Family, Method, Scorer


@dataclass(frozen=True)
class DomainCosineScorer(Scorer[Vectors]):
    """The direction of the target."""

    mean: Vectors  # [1, d], subtracted first; zero without centering
    query: Vectors  # [1, d], the target's mean, scaled to length 1; zero if the mean is zero

    def score(self, batch: Vectors) -> NDArray[np.float32]:
        """Score float32 [n, d]: the cosine, float32 [n] in [-1, 1]; 0 for a zero vector."""
        centered = bool(self.mean.any())

        def block(x: Vectors) -> NDArray[np.float32]:
            placed = x - self.mean if centered else x
            cosine = products(placed, self.query) / lengths(placed)
            return np.asarray(np.clip(cosine[:, 0], -1.0, 1.0))

        return blockwise(batch, self.query.shape[1], block)


@dataclass(frozen=True)
class DomainCosine(Method[Vectors]):
    """Cosine to the target's mean embedding.

    Attributes:
        centered: Subtract the background's mean from target and text first, so that what all texts
            share does not count; false as in the paper (default: true).
    """

    reads: ClassVar[Reads] = "embedding"
    family: ClassVar[Family] = "centroid"
    scorer: ClassVar[type] = DomainCosineScorer
    cost: ClassVar[str] = "5,000,000/s"

    centered: bool = True

    def fit(self, target: Vectors, background: Vectors, *, seed: int) -> DomainCosineScorer:
        """Average the target, and for centering the background; the seed is not used."""
        query = target.mean(axis=0, keepdims=True, dtype=np.float64)
        mean = np.zeros_like(query)
        if self.centered:
            mean = background.mean(axis=0, keepdims=True, dtype=np.float64)
            query = query - mean
        length = float(np.sqrt((query**2).sum()))
        return DomainCosineScorer(
            plain_rows(mean), plain_rows(query / length if length > 0.0 else query)
        )
