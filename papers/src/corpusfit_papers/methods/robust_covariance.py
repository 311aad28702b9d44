"""`robust_covariance`: Mahalanobis distance to the target's robust mean.

What: the Mahalanobis distance to a mean and covariance that outliers cannot distort, negated.
Why: one of TADPOLE's six detectors (section 3.1, Table 1; Nguyen and Welsch, 2010). Directions in
which the target varies much weigh little.
Trade-off: a covariance of 768 dimensions cannot be estimated from a few thousand texts, so
embeddings are first reduced to the principal components of the target and as many background texts,
with at least five target texts per component. The background is needed: distant texts hardly vary
along the target's own components and would all seem close to its mean. Below ten texts no
covariance can be estimated, and plain distances are used.
Reference: Rousseeuw and Van Driessen (1999), A Fast Algorithm for the Minimum Covariance
Determinant Estimator; scikit-learn's PCA and MinCovDet.
"""

from __future__ import annotations

import warnings
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

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class RobustCovarianceScorer(Scorer[NDArray[np.float32]]):
    """The map to a space in which the target is a unit sphere."""

    mean: NDArray[np.float32]  # [1, d], mean of the target, subtracted first to keep precision
    whiten: NDArray[np.float32]  # [c, d], one row per new coordinate; [0, d] keeps the space
    middle: NDArray[np.float32]  # [1, c] (or [1, d]), the robust center in the new coordinates

    def score(self, batch: NDArray[np.float32]) -> NDArray[np.float32]:
        """Score float32 [n, d]: the Mahalanobis distance, negated, float32 [n] <= 0."""

        def block(x: NDArray[np.float32]) -> NDArray[np.float32]:
            placed = x - self.mean
            if len(self.whiten):
                placed = products(placed, self.whiten)
            return np.asarray(-np.sqrt(squared_distances(placed, self.middle)[:, 0]))

        return blockwise(batch, self.mean.shape[1], block)


@dataclass(frozen=True)
class RobustCovariance(Method[NDArray[np.float32]]):
    """Mahalanobis distance to the target's robust mean, negated.

    Attributes:
        components: Number of principal components, at most a fifth of the target's distinct texts
            (default: 50).
    """

    reads = "embedding"
    family = "detector"
    scorer: ClassVar[type] = RobustCovarianceScorer
    cost: ClassVar[str] = "490,000/s"

    components: int = setting(50, minimum=1)

    def fit(
        self, target: NDArray[np.float32], background: NDArray[np.float32], *, seed: int
    ) -> RobustCovarianceScorer:
        """Fit mean and covariance on the distinct target texts, in components of both sets."""
        x = np.unique(plain_rows(target), axis=0).astype(np.float64)
        mean = x.mean(axis=0, keepdims=True)
        sampled = np.random.default_rng(seed).permutation(len(background))[: len(x)]
        both = np.concatenate([x, plain_rows(background[np.sort(sampled)]).astype(np.float64)])
        x -= mean
        directions = _directions(both - both.mean(axis=0), min(self.components, len(x) // 5))
        if len(directions) < 2:
            nowhere = np.zeros((0, x.shape[1]))
            return _scorer(mean, nowhere, np.zeros_like(mean))
        placed = x @ directions.T
        middle, covariance = _robust(placed, seed)
        spread, axes = np.linalg.eigh(covariance)
        spread = np.maximum(spread, 1e-9 * spread[-1])  # no direction is exactly flat
        sphere = (axes / np.sqrt(spread)).T
        return _scorer(mean, sphere @ directions, middle[None] @ sphere.T)


def _scorer(mean: Matrix, whiten: Matrix, middle: Matrix) -> RobustCovarianceScorer:
    return RobustCovarianceScorer(plain_rows(mean), plain_rows(whiten), plain_rows(middle))


def _directions(x: Matrix, count: int) -> Matrix:
    """At most `count` principal components [c, d] of centered rows, none of them flat."""
    if len(x) > x.shape[1]:
        x = np.asarray(np.linalg.qr(x, mode="r"))  # same directions, far fewer rows
    _, spread, directions = np.linalg.svd(x, full_matrices=False)
    return np.asarray(directions[: min(count, int((spread > 1e-6 * spread[0]).sum()))])


def _robust(x: Matrix, seed: int) -> tuple[Matrix, Matrix]:
    """Center and covariance by minimum determinant, or plain ones if there is no minimum.

    With more than half of the texts in a flat subspace the determinant is zero; scikit-learn then
    warns and divides by zero, which is caught here.
    """
    from sklearn.covariance import MinCovDet

    # scikit-learn's check of the rank is absolute, so the data are scaled to size 1
    scale = float(np.sqrt((x**2).mean()))
    try:
        with warnings.catch_warnings(), np.errstate(all="raise", under="ignore"):
            warnings.simplefilter("error")
            fitted = MinCovDet(random_state=seed % 2**32).fit(x / scale)
        middle = fitted.location_ * scale
        covariance = fitted.covariance_ * scale**2
        if np.isfinite(covariance).all() and np.trace(covariance) > 0.0:
            return middle, covariance
    except (Warning, FloatingPointError, ValueError, np.linalg.LinAlgError):
        pass
    return x.mean(axis=0), np.cov(x, rowvar=False, bias=True)
