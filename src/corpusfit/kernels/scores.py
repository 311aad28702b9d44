"""What scores say: logistic regression, calibration to log odds, ranks.

What: the minimum of a weighted logistic loss with an L2 penalty, of dense or sparse rows; Platt's
scaling.
Why: a classifier or a calibration is a few lines of Newton's method, and gives the same minimum for
any installed release.
Trade-off: float64 and matrix products, so the last bits of dense rows depend on the BLAS; sparse
rows use one core, in the entries' order. Newton's steps come from conjugate gradients, which never
build the [d, d] second derivative.
Reference: Lin, Weng and Keerthi (2008), Trust Region Newton Method for Logistic Regression (here
with a line search instead); Platt (1999), Probabilistic Outputs for Support Vector Machines.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Sparse: TypeAlias = Any
"""What `rows` returns."""

_STEPS = 100
_TOLERANCE = 1e-8
# residual of Newton's equation at which a step is used; smaller: fewer, longer steps
_EXACT = 0.01
_MIN_SLOPE = 0.01


def sigmoid(z: Array) -> Array:
    """1 / (1 + exp(-z)), without overflow."""
    small = np.exp(-np.abs(z))
    return np.asarray(np.where(z >= 0.0, 1.0, small) / (1.0 + small))


def balanced(positive: NDArray[np.bool_]) -> Array:
    """Weights float64 [n] with which each class weighs n / 2 (scikit-learn's "balanced").

    Both classes must occur.
    """
    count = np.array([len(positive) - positive.sum(), positive.sum()], np.float64)
    return np.asarray((len(positive) / (2.0 * count))[positive.astype(np.int64)])


def loss(at: Array, x: Array | Sparse, share: Array, weight: Array, penalty: float) -> float:
    """The loss that `logistic` minimizes, at coefficients and intercept [d + 1]."""
    z = x @ at[:-1] + at[-1]
    cross = np.logaddexp(0.0, z) - share * z
    return float(0.5 * penalty * at[:-1] @ at[:-1] + weight @ cross)


def logistic(
    x: Array | Sparse, share: Array, weight: Array, penalty: float, start: Array | None = None
) -> Array:
    """Fit log odds that are linear in x.

    The loss is penalty / 2 |w|² + sum of weight_i (log(1 + exp(z_i)) - share_i z_i) with
    z_i = w x_i + b: the cross entropy of the shares; the intercept b is not penalized.

    Args:
        x: float64 [n, d], or sparse rows.
        share: float64 [n] in [0, 1], target probability of each row.
        weight: float64 [n], above 0.
        penalty: at least 0; with 0 the shares must leave the minimum finite.
        start: float64 [d + 1], the starting point (default: zero).

    Returns:
        float64 [d + 1]: w, then b. The gradient there is 1e-8 of the gradient at zero, or as small
        as rounding allows.
    """
    at = np.zeros(x.shape[1] + 1) if start is None else start.copy()
    ridge = np.append(np.full(x.shape[1], penalty), 0.0)
    tolerance = _TOLERANCE * np.abs(_gradient(np.zeros_like(at), x, share, weight, ridge)[0]).max()
    current = loss(at, x, share, weight, penalty)
    for _ in range(_STEPS):
        gradient, curve = _gradient(at, x, share, weight, ridge)
        if np.abs(gradient).max() <= tolerance:
            break
        step = _newton_step(x, curve, ridge, gradient)
        slope = float(gradient @ step)
        length = 1.0
        while (candidate := loss(at + length * step, x, share, weight, penalty)) > (
            current + 1e-4 * length * slope
        ):
            length /= 2.0
            if length < 1e-10:  # only rounding is left
                return at
        at = at + length * step
        current = candidate
    return at


def _gradient(
    at: Array, x: Array | Sparse, share: Array, weight: Array, ridge: Array
) -> tuple[Array, Array]:
    """Gradient [d + 1], and each row's curvature [n]."""
    p = sigmoid(x @ at[:-1] + at[-1])
    residual = weight * (p - share)
    return np.append(residual @ x, residual.sum()) + ridge * at, weight * p * (1.0 - p)


def _newton_step(x: Array | Sparse, curve: Array, ridge: Array, gradient: Array) -> Array:
    """The step that conjugate gradients find; it descends even if they stop early."""
    step = np.zeros_like(gradient)
    residual = -gradient
    direction = residual.copy()
    square = float(residual @ residual)
    enough = _EXACT**2 * square
    for _ in range(2 * len(gradient)):
        if square <= enough:
            break
        bent = curve * (x @ direction[:-1] + direction[-1])
        image = np.append(bent @ x, bent.sum()) + ridge * direction
        bend = float(direction @ image)
        if bend <= 0.0:  # flat in that direction
            break
        step += square / bend * direction
        residual -= square / bend * image
        square, before = float(residual @ residual), square
        direction = residual + square / before * direction
    return step if step.any() else -gradient


def platt(
    score: Array, positive: NDArray[np.bool_], weight: Array | None = None
) -> tuple[float, float]:
    """Slope and intercept that turn scores into log odds (Platt 1999, with his smoothed targets).

    Args:
        score: float64 [n], of texts on which the scores were not fitted.
        positive: bool [n]; both classes must occur.
        weight: float64 [n] (default: equal); `balanced` gives odds at equal priors.

    Returns:
        (slope, intercept). The slope is above 0, so that the order stays: at least a hundredth of
        the inverse of the scores' standard deviation, even if scores do not separate the classes.
    """
    many = int(positive.sum())
    few = int(len(positive) - positive.sum())
    share = np.where(positive, (many + 1.0) / (many + 2.0), 1.0 / (few + 2.0))
    weight = np.ones(len(score)) if weight is None else weight
    mean = float(score.mean())
    spread = float(score.std()) or 1.0
    slope, intercept = logistic((score[:, None] - mean) / spread, share, weight, 0.0)
    slope = max(float(slope), _MIN_SLOPE) / spread
    return slope, float(intercept) - slope * mean


def mid_ranks(scores: NDArray[np.float32]) -> Array:
    """The rank of each of n scores, float64 [n] in (0, 1); equal scores share a rank."""
    _, inverse, count = np.unique(scores, return_inverse=True, return_counts=True)
    return np.asarray(((np.cumsum(count) - count / 2.0) / len(scores))[inverse])
