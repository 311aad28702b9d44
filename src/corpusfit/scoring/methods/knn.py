"""`knn`: distance to the k-th nearest target text.

What: the Euclidean distance to the k-th nearest target embedding, negated.
Why: it assumes nothing about the target's shape; one of TADPOLE's six detectors (section 3.1, Table
1; Gu et al., 2019), as PyOD's KNN with method "largest".
Trade-off: every score reads the whole target: 3,000 target texts cost about 2.3 million
multiplications per text at 768 dimensions. k above 1 tolerates stray target texts.
Reference: Ramaswamy, Rastogi and Shim (2000), Efficient Algorithms for Mining Outliers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.settings import setting
from corpusfit.core.types import Reads, Vectors
from corpusfit.kernels.vectors import squared_distances
from corpusfit.scoring.blocks import blockwise, plain_rows
from corpusfit.scoring.contract import Family, Method, Scorer, require_fit


@dataclass(frozen=True)
class KnnScorer(Scorer[Vectors]):
    """The target's embeddings, float32 [m, d], and k, at most m."""

    target: Vectors
    k: int

    def __post_init__(self) -> None:
        require_fit(self.target.ndim == 2, 1 <= self.k <= len(self.target))

    def score(self, batch: Vectors) -> NDArray[np.float32]:
        """Score float32 [n, d]: the distance to the k-th nearest, negated, float32 [n] <= 0."""

        def block(x: Vectors) -> NDArray[np.float32]:
            near = np.partition(squared_distances(x, self.target), self.k - 1, axis=1)
            return -np.sqrt(near[:, self.k - 1])

        return blockwise(batch, self.target.shape[1], block)


@dataclass(frozen=True)
class Knn(Method[Vectors]):
    """Distance to the k-th nearest target text, negated.

    Attributes:
        k: Neighbor whose distance counts, at most the target's size (default: 5).
    """

    reads: ClassVar[Reads] = "embedding"
    family: ClassVar[Family] = "detector"
    scorer: ClassVar[type] = KnnScorer
    cost: ClassVar[str] = "19,000/s"

    k: int = setting(5, minimum=1)

    def fit(self, target: Vectors, background: Vectors, *, seed: int) -> KnnScorer:
        """Keep the target; background and seed are not used."""
        return KnnScorer(plain_rows(target), min(self.k, len(target)))
