"""`lof`: as dense around the text as around its nearest target texts.

What: the local outlier factor of a new text among the target's texts, negated.
Why: a target of several topics has several densities; LOF compares each text with its own
neighborhood. A close second in TADPOLE (section 3.1, Table 1; Breunig et al., 2000).
Trade-off: it costs as much as `knn` plus the search for neighbors, and a fit compares the target
with itself. Repeated target texts count once, because the density among copies is infinite.
Reference: Breunig, Kriegel, Ng and Sander (2000), LOF; as in scikit-learn with novelty=True.
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
    require_fit,
    setting,
    squared_distances,
)

_ROWS = 256
_TINY = 1e-10
"""Keeps densities finite; scikit-learn's value."""


def _nearest(squared: NDArray[np.float32], k: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Distances [n, k] and positions [n, k] of the k smallest in each row, nearest first."""
    nearest = np.argpartition(squared, k - 1, axis=1)[:, :k]
    near = np.sqrt(np.take_along_axis(squared, nearest, axis=1).astype(np.float64))
    order = np.argsort(near, axis=1, kind="stable")
    return np.take_along_axis(near, order, axis=1), np.take_along_axis(nearest, order, axis=1)


@dataclass(frozen=True)
class LofScorer(Scorer[NDArray[np.float32]]):
    """The target and its densities."""

    target: NDArray[np.float32]  # [m, d], without repeats
    reach: NDArray[np.float64]  # [m], distance to the k-th nearest other target text
    density: NDArray[np.float64]  # [m], local reachability density
    k: int

    def __post_init__(self) -> None:
        m = len(self.target)
        require_fit(self.target.ndim == 2, self.reach.shape == self.density.shape == (m,))
        require_fit(1 <= self.k <= m)

    def score(self, batch: NDArray[np.float32]) -> NDArray[np.float32]:
        """Score float32 [n, d]: the negated factor, float32 [n] <= 0; near -1 inside the target."""

        def block(x: NDArray[np.float32]) -> NDArray[np.float64]:
            near, nearest = _nearest(squared_distances(x, self.target), self.k)
            reached = np.maximum(near, self.reach[nearest]).mean(axis=1) + _TINY
            return np.asarray(-self.density[nearest].mean(axis=1) * reached)

        return blockwise(batch, self.target.shape[1], block, _ROWS)


@dataclass(frozen=True)
class Lof(Method[NDArray[np.float32]]):
    """Local outlier factor among the target's texts, negated.

    Attributes:
        neighbors: Number of neighbors, fewer if the target is smaller (default: 20).
    """

    reads = "embedding"
    family = "detector"
    scorer: ClassVar[type] = LofScorer
    cost: ClassVar[str] = "24,000/s"

    neighbors: int = setting(20, minimum=1)

    def fit(
        self, target: NDArray[np.float32], background: NDArray[np.float32], *, seed: int
    ) -> LofScorer:
        """Measure the target's densities; background and seed are not used.

        With one distinct target text there is no density: the score is the negated distance.
        """
        x = np.unique(plain_rows(target), axis=0)
        if len(x) == 1:
            return LofScorer(x, np.zeros(1), np.ones(1), 1)
        k = min(self.neighbors, len(x) - 1)
        near = np.empty((len(x), k))
        nearest = np.empty((len(x), k), np.int64)
        for first in range(0, len(x), _ROWS):
            block = slice(first, min(first + _ROWS, len(x)))
            squared = squared_distances(x[block], x)
            diagonal = np.arange(block.start, block.stop)
            squared[diagonal - first, diagonal] = np.inf
            near[block], nearest[block] = _nearest(squared, k)
        reach = near[:, -1].copy()
        density = 1.0 / (np.maximum(near, reach[nearest]).mean(axis=1) + _TINY)
        return LofScorer(x, reach, density, k)
