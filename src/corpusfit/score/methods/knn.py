"""`knn`: the distance to the k-th nearest target text.

What: minus the Euclidean distance to the k-th nearest target vector.
Why: no assumption about the target's shape; one of TADPOLE's six detectors (section 3.1, Table 1;
Gu et al., 2019), in PyOD's form KNN with method "largest".
Trade-off: scoring reads the whole target for every text: 3,000 targets cost about 2.3 million
multiplications a text at 768 dimensions. k above 1 forgives stray texts in the target.
Reference: Ramaswamy, Rastogi and Shim (2000), Efficient Algorithms for Mining Outliers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.errors import bad_setting
from corpusfit.kernels.vectors import squared_distances
from corpusfit.score.blocks import blockwise, plain_rows
from corpusfit.score.contract import Family, Method, Scorer
from corpusfit.types import Reads, Vectors


@dataclass(frozen=True)
class KnnScorer(Scorer[Vectors]):
    """The target's vectors, float32 [m, d], and k, at most m."""

    target: Vectors
    k: int

    def score(self, batch: Vectors) -> NDArray[np.float32]:
        """Score float32 [n, d]: minus the distance to the k-th nearest, float32 [n] <= 0."""

        def block(x: Vectors) -> NDArray[np.float32]:
            near = np.partition(squared_distances(x, self.target), self.k - 1, axis=1)
            return -np.sqrt(near[:, self.k - 1])

        return blockwise(batch, self.target.shape[1], block)


@dataclass(frozen=True)
class Knn(Method[Vectors]):
    """Near k target texts.

    Attributes:
        k: which nearest neighbour's distance counts; bounded by the target's size.
    """

    reads: ClassVar[Reads] = "embedding"
    family: ClassVar[Family] = "detector"
    scorer: ClassVar[type] = KnnScorer
    cost: ClassVar[str] = "19,000/s"

    k: int = 5

    def __post_init__(self) -> None:
        if self.k < 1:
            raise bad_setting("method.k", "at least 1", self.k)

    def fit(self, target: Vectors, background: Vectors, *, seed: int) -> KnnScorer:
        """Keep the target; background and seed are not used."""
        return KnnScorer(plain_rows(target), min(self.k, len(target)))
