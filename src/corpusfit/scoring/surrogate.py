"""A surrogate: predict the scores of an expensive scorer from a cheap embedder's embeddings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.types import Vectors
from corpusfit.kernels.vectors import products, squared_distances
from corpusfit.scoring.blocks import blockwise, plain_rows
from corpusfit.scoring.contract import Scorer

LANDMARKS = 512
PENALTIES = tuple(10.0**e for e in np.arange(-4.0, 2.5, 0.5))
"""Ridge penalties to try; the one with the lowest leave-one-out error is used."""
_GAMMA = 0.25
"""Of the kernel exp(-gamma |u - v|²) between directions, where |u - v|² is about 2."""
_MIN_EIGENVALUE = 1e-6
"""Relative to the largest one; smaller ones are rounding errors."""


@dataclass(frozen=True)
class Surrogate(Scorer[Vectors]):
    """A weighted sum of similarities to landmarks."""

    center: Vectors  # [1, d], subtracted first
    landmarks: Vectors  # [m, d], centered and of length 1
    weights: Vectors  # [1, m]
    bias: float

    def score(self, batch: Vectors) -> NDArray[np.float32]:
        """Predict the scores [n] of the expensive scorer from embeddings float32 [n, d]."""

        def block(x: Vectors) -> NDArray[np.float32]:
            near = _similarities(_directions(x, self.center), self.landmarks)
            return np.asarray(products(near, self.weights)[:, 0] + np.float32(self.bias))

        return blockwise(batch, self.center.shape[1], block)


def _directions(x: Vectors, center: Vectors) -> Vectors:
    """Rows minus the center, scaled to length 1; a row at the center stays zero."""
    placed = plain_rows(x - center)
    length = np.sqrt(squared_distances(placed, np.zeros_like(center)))
    return plain_rows(placed / np.where(length > 0.0, length, np.float32(1.0)))


def _similarities(x: Vectors, landmarks: Vectors) -> NDArray[np.float32]:
    """Similarity of each row to each landmark, float32 [n, m] in (0, 1]."""
    return np.asarray(np.exp(np.float32(-_GAMMA) * squared_distances(x, landmarks)))


def fit_surrogate(
    vectors: Vectors,
    scores: NDArray[np.float32],
    *,
    seed: int,
    landmarks: int = LANDMARKS,
    penalties: tuple[float, ...] = PENALTIES,
) -> Surrogate:
    """Fit a surrogate: learn scores [n] from embeddings [n, d]."""
    # It is ridge regression in the space of an RBF kernel (Nystroem). A stage with it passes on far
    # more of what the last stage will select than a stage with a method on the same embeddings
    # would (docs/benchmarks.md). It is accurate only near the units that it was fitted on, so it
    # needs some thousands of them.
    center = plain_rows(vectors.mean(axis=0, keepdims=True, dtype=np.float64))
    x = _directions(plain_rows(vectors), center)
    drawn = np.random.default_rng(seed % 2**64).permutation(len(x))[:landmarks]
    chosen = plain_rows(x[np.sort(drawn)])
    bias = float(scores.mean(dtype=np.float64))
    # K ~ (A L)(A L)^T, A the units' similarities and L L^T the inverse of the landmarks' own: ridge
    # regression on the rows of A L, with leave-one-out errors from one decomposition
    values, axes = np.linalg.eigh(_similarities(chosen, chosen).astype(np.float64))
    significant = values > values[-1] * _MIN_EIGENVALUE
    whiten = axes[:, significant] / np.sqrt(values[significant])
    features = _similarities(x, chosen).astype(np.float64) @ whiten
    u, s, vt = np.linalg.svd(features, full_matrices=False)
    residuals = scores.astype(np.float64) - bias
    projected = u.T @ residuals

    def press(penalty: float) -> float:
        """The sum of squared leave-one-out errors."""
        shrinkage = s**2 / (s**2 + penalty)
        errors = residuals - u @ (shrinkage * projected)
        leverage = (u**2) @ shrinkage
        return float(((errors / np.maximum(1e-9, 1.0 - leverage)) ** 2).sum())

    best = min(penalties, key=press)
    weights = whiten @ (vt.T @ (s / (s**2 + best) * projected))
    return Surrogate(center, chosen, plain_rows(weights[None]), bias)
