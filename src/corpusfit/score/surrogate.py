"""A cheap stand-in for a dear scorer: it learns the dear one's scores from cheap vectors.

What: ridge regression in the space of an RBF kernel (Nystroem), from a cheap embedder's vectors to
the scores that another scorer gave the same units.
Why: a cascade's early stage has to keep what its last stage will want. A selector of its own on
static vectors agrees with one on MiniLM's only so far; asked to predict that very score, the same
vectors keep far more of it for the same share passed on (docs/benchmarks.md).
Trade-off: it knows the dear score only near the units it learned from, so it needs some thousands;
512 landmarks bound its cost (512 distances a unit) at a little of its fit.
Reference: Williams and Seeger (2001), Nystroem; Allen (1974), PRESS, for the penalty.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpusfit.kernels.vectors import products, squared_distances
from corpusfit.score.blocks import blockwise, plain_rows
from corpusfit.score.contract import Scorer
from corpusfit.types import Vectors

LANDMARKS = 512
PENALTIES = tuple(10.0**e for e in np.arange(-4.0, 2.5, 0.5))
"""Tried in turn; the one with the least squared error on units left out is taken."""
_WIDTH = 0.25
"""gamma of exp(-gamma |u - v|²) between directions, where |u - v|² is about 2."""
_RIDGE = 1e-6


@dataclass(frozen=True)
class Surrogate(Scorer[Vectors]):
    """A weighted sum of nearnesses to landmarks.

    Attributes:
        centre: float32 [1, d], taken off first.
        landmarks: float32 [m, d], centred and of length one.
        weights: float32 [1, m].
        bias: what is added to the sum.
    """

    centre: Vectors
    landmarks: Vectors
    weights: Vectors
    bias: float

    def score(self, batch: Vectors) -> NDArray[np.float32]:
        """Score float32 [n, d]: the dear scorer's score as predicted, float32 [n]."""

        def block(x: Vectors) -> NDArray[np.float32]:
            near = _nearness(_directions(x, self.centre), self.landmarks)
            return np.asarray(products(near, self.weights)[:, 0] + np.float32(self.bias))

        return blockwise(batch, self.centre.shape[1], block)


def _directions(x: Vectors, centre: Vectors) -> Vectors:
    """Rows without the centre, at length one; a row in the centre stays there."""
    placed = plain_rows(x - centre)
    length = np.sqrt(squared_distances(placed, np.zeros_like(centre)))
    return plain_rows(placed / np.where(length > 0.0, length, np.float32(1.0)))


def _nearness(x: Vectors, landmarks: Vectors) -> NDArray[np.float32]:
    """float32 [n, m] in (0, 1]."""
    return np.asarray(np.exp(np.float32(-_WIDTH) * squared_distances(x, landmarks)))


def fit_surrogate(
    vectors: Vectors,
    scores: NDArray[np.float32],
    *,
    seed: int,
    landmarks: int = LANDMARKS,
    penalties: tuple[float, ...] = PENALTIES,
) -> Surrogate:
    """Learn scores [n] from vectors [n, d].

    Args:
        vectors: float32 [n, d] of n units, at least one.
        scores: float32 [n], what the dear scorer gave them.
        seed: of the draw of landmarks from the units.
        landmarks: how many at most.
        penalties: of the ridge, tried in turn.
    """
    centre = plain_rows(vectors.mean(axis=0, keepdims=True, dtype=np.float64))
    x = _directions(plain_rows(vectors), centre)
    drawn = np.random.default_rng(seed % 2**64).permutation(len(x))[:landmarks]
    marks = plain_rows(x[np.sort(drawn)])
    bias = float(scores.mean(dtype=np.float64))
    # K ~ (A L)(A L)^T, A the units' nearnesses and L L^T the inverse of the landmarks' own: ridge
    # regression on the rows of A L, its leave-one-out errors from one decomposition
    values, axes = np.linalg.eigh(_nearness(marks, marks).astype(np.float64))
    kept = values > values[-1] * _RIDGE
    whiten = axes[:, kept] / np.sqrt(values[kept])
    features = _nearness(x, marks).astype(np.float64) @ whiten
    left, spread, right = np.linalg.svd(features, full_matrices=False)
    aims = scores.astype(np.float64) - bias
    along = left.T @ aims
    best = min(penalties, key=lambda p: _left_out(left, spread, along, aims, p))
    weights = whiten @ (right.T @ (spread / (spread**2 + best) * along))
    return Surrogate(centre, marks, plain_rows(weights[None]), bias)


def _left_out(
    left: NDArray[np.float64],
    spread: NDArray[np.float64],
    along: NDArray[np.float64],
    aims: NDArray[np.float64],
    penalty: float,
) -> float:
    """Sum of squared errors, each unit predicted without itself (PRESS)."""
    shrunk = spread**2 / (spread**2 + penalty)
    errors = aims - left @ (shrunk * along)
    leverage = (left**2) @ shrunk
    return float(((errors / np.maximum(1e-9, 1.0 - leverage)) ** 2).sum())
