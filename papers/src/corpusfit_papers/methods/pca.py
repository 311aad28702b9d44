"""`pca`: in the subspace that the target spans.

What: the distance between a text and its projection on the target's principal components, negated.
Why: one of TADPOLE's six detectors (section 3.1, Table 1; Harrou et al., 2015); cheap, and
independent of where in the subspace a text lies.
Trade-off: distances along the kept components are ignored, so a text far away within the target's
subspace scores well. A score takes two products (project, reconstruct) instead of one and a
difference of squares, which would lose all digits of small errors. PyOD's PCA has another score,
`pyod:PCA`: the sum of a text's distances to all principal directions, each divided by its share of
the variance, so that the smallest components decide.
Reference: Shyu, Chen, Sarinnapakorn and Chang (2003), A Novel Anomaly Detection Scheme Based on
Principal Component Classifier.
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
    products,
    setting,
    squared_distances,
)


@dataclass(frozen=True)
class PcaScorer(Scorer[NDArray[np.float32]]):
    """The target's subspace."""

    mean: NDArray[np.float32]  # [1, d]
    components: NDArray[np.float32]  # [c, d], orthonormal rows; c may be 0

    def score(self, batch: NDArray[np.float32]) -> NDArray[np.float32]:
        """Score float32 [n, d]: the negated length of the reconstruction error; float32 [n]."""
        width = self.mean.shape[1]
        origin = np.zeros((1, width), np.float32)
        back = np.ascontiguousarray(self.components.T)

        def block(x: NDArray[np.float32]) -> NDArray[np.float32]:
            centered = x - self.mean
            if len(self.components):
                centered -= products(products(centered, self.components), back)
            return np.asarray(-np.sqrt(squared_distances(centered, origin)[:, 0]))

        return blockwise(batch, width, block)


@dataclass(frozen=True)
class Pca(Method[NDArray[np.float32]]):
    """Reconstruction error from the target's principal components, negated.

    Attributes:
        variance: Share of the target's variance that the components explain, in (0, 1) (default:
            0.95).
    """

    reads = "embedding"
    family = "detector"
    scorer: ClassVar[type] = PcaScorer
    cost: ClassVar[str] = "44,000/s"

    variance: float = setting(0.95, above=0, below=1)

    def fit(
        self, target: NDArray[np.float32], background: NDArray[np.float32], *, seed: int
    ) -> PcaScorer:
        """Find the target's components; background and seed are not used.

        A target without variance has none: the score is the distance to it, negated.
        """
        x = target.astype(np.float64)
        mean = x.mean(axis=0, keepdims=True)
        x -= mean
        if len(x) > x.shape[1]:
            x = np.asarray(np.linalg.qr(x, mode="r"))  # same directions, far fewer rows
        _, spread, directions = np.linalg.svd(x, full_matrices=False)
        explained = np.cumsum(spread**2)
        count = 0
        if explained[-1] > 0.0:
            count = int(np.searchsorted(explained, self.variance * explained[-1], "right")) + 1
        return PcaScorer(plain_rows(mean), plain_rows(directions[:count]))
