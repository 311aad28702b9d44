"""`centroid_distance`: closer to the target's mean than to the corpus's mean.

What: distance to the mean of the background minus distance to the mean of the target.
Why: the difference measures what separates the target from the corpus; `domain_cosine` without
centering also rewards what all texts share.
Trade-off: two points stand for two sets of texts, and the mean of a corpus with many topics says
little about it.
Reference: Wang, Finch, Utiyama and Sumita (2017a), Sentence Embedding for Neural Machine
Translation Domain Adaptation: the score d(in) - d(out), here negated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.contracts import (
    Method,
    Scorer,
    blockwise,
    plain_rows,
    squared_distances,
)


@dataclass(frozen=True)
class CentroidDistanceScorer(Scorer[NDArray[np.float32]]):
    """The means of target and background, float32 [2, d]."""

    means: NDArray[np.float32]

    def score(self, batch: NDArray[np.float32]) -> NDArray[np.float32]:
        """Score float32 [n, d]: distance to the second mean minus the first, float32 [n]."""

        def block(x: NDArray[np.float32]) -> NDArray[np.float32]:
            distance = np.sqrt(squared_distances(x, self.means))
            return np.asarray(distance[:, 1] - distance[:, 0])

        return blockwise(batch, self.means.shape[1], block)


@dataclass(frozen=True)
class CentroidDistance(Method[NDArray[np.float32]]):
    """Distance to the corpus's mean minus distance to the target's mean."""

    reads = "embedding"
    family = "centroid"
    scorer: ClassVar[type] = CentroidDistanceScorer
    cost: ClassVar[str] = "9,800,000/s"

    def fit(
        self, target: NDArray[np.float32], background: NDArray[np.float32], *, seed: int
    ) -> CentroidDistanceScorer:
        """Average target and background; the seed is not used."""
        means = [part.mean(axis=0, dtype=np.float64) for part in (target, background)]
        return CentroidDistanceScorer(plain_rows(np.stack(means)))
