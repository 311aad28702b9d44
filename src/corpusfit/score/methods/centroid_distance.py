"""`centroid_distance`: nearer to the target's mean than to the corpus's.

What: distance to the mean of the background minus distance to the mean of the target.
Why: the difference asks what sets the target apart from the corpus, where `domain_cosine` also
rewards what all text shares.
Trade-off: two points stand for two sets; and a mean of the background says little of a corpus
with many topics.
Reference: Wang, Finch, Utiyama and Sumita (2017a), Sentence Embedding for Neural Machine
Translation Domain Adaptation, the score d(in) - d(out), here with its sign turned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.kernels.vectors import squared_distances
from corpusfit.score.blocks import blockwise, plain_rows
from corpusfit.score.contract import Family, Method, Scorer
from corpusfit.types import Reads, Vectors


@dataclass(frozen=True)
class CentroidDistanceScorer(Scorer[Vectors]):
    """The means of target and background, float32 [2, d]."""

    means: Vectors

    def score(self, batch: Vectors) -> NDArray[np.float32]:
        """Score float32 [n, d]: distance to the second minus to the first, float32 [n]."""

        def block(x: Vectors) -> NDArray[np.float32]:
            distance = np.sqrt(squared_distances(x, self.means))
            return np.asarray(distance[:, 1] - distance[:, 0])

        return blockwise(batch, self.means.shape[1], block)


@dataclass(frozen=True)
class CentroidDistance(Method[Vectors]):
    """On the target's side of the middle."""

    reads: ClassVar[Reads] = "embedding"
    family: ClassVar[Family] = "centroid"
    scorer: ClassVar[type] = CentroidDistanceScorer
    cost: ClassVar[str] = "9,800,000/s"

    def fit(self, target: Vectors, background: Vectors, *, seed: int) -> CentroidDistanceScorer:
        """Average both; the seed is not used."""
        means = [part.mean(axis=0, dtype=np.float64) for part in (target, background)]
        return CentroidDistanceScorer(plain_rows(np.stack(means)))
