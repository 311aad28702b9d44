"""What scores say: logistic regression, calibration to log odds, agreement of rankings.

What: the minimum of a weighted logistic loss with an L2 penalty, of dense or sparse rows; Platt's
scaling; a weight for each of several rankings by the agreement of its top with the others' tops,
and the depth down to which they agree.
Why: a classifier or a calibration is a few lines of Newton's method, and gives the same minimum for
any installed release. Nobody knows which ranking is right, but rankings with independent errors
agree with each other only as far as each of them is right.
Trade-off: float64 and matrix products, so the last bits of dense rows depend on the BLAS; sparse
rows use one core, in the entries' order. Newton's steps come from conjugate gradients, which never
build the [d, d] second derivative. Rankings with the same errors (of similar methods) seem right,
so the methods must be unlike.
Reference: Lin, Weng and Keerthi (2008), Trust Region Newton Method for Logistic Regression (here
with a line search instead); Platt (1999), Probabilistic Outputs for Support Vector Machines; Parisi
et al. (2014), Ranking and Combining Multiple Predictors without Labeled Data (PNAS 111): the
covariance of independent classifiers has rank one, and its leading eigenvector holds their
accuracies; Cohen (1960) for agreement beyond chance.
"""

from __future__ import annotations

from collections.abc import Sequence
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
# share of the highest agreement from which rankings count as agreeing
_ENOUGH = 0.9


def rows(
    ends: NDArray[np.int64], columns: NDArray[np.int32], values: NDArray[np.float32], width: int
) -> Any:
    """N sparse rows of `width` numbers; row i has the entries `[ends[i] : ends[i + 1]]`."""
    from scipy.sparse import csr_array

    # of the type of the coefficients, as scipy would copy the entries in every product
    return csr_array((values.astype(np.float64), columns, ends), (len(ends) - 1, width))


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
        slope, length = float(gradient @ step), 1.0
        while (candidate := loss(at + length * step, x, share, weight, penalty)) > (
            current + 1e-4 * length * slope
        ):
            length /= 2.0
            if length < 1e-10:  # only rounding is left
                return at
        at, current = at + length * step, candidate
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


def class_share(odds: Array) -> float:
    """The positives' share among n texts, from their log odds at equal priors.

    By expectation maximization: the share is the mean probability under that share (Saerens,
    Latinne and Decaestecker 2002), between 1 / (2n) and 1 - 1 / (2n).
    """
    edge = 0.5 / len(odds)
    share = 0.5
    for _ in range(1_000):
        before = share
        share = float(sigmoid(odds + np.log(share / (1.0 - share))).mean())
        share = min(max(share, edge), 1.0 - edge)
        if abs(share - before) < 1e-9:
            break
    return share


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
    many, few = int(positive.sum()), int(len(positive) - positive.sum())
    share = np.where(positive, (many + 1.0) / (many + 2.0), 1.0 / (few + 2.0))
    weight = np.ones(len(score)) if weight is None else weight
    mean, spread = float(score.mean()), float(score.std()) or 1.0
    slope, intercept = logistic((score[:, None] - mean) / spread, share, weight, 0.0)
    slope = max(float(slope), _MIN_SLOPE) / spread
    return slope, float(intercept) - slope * mean


def mid_ranks(scores: NDArray[np.float32]) -> Array:
    """The rank of each of n scores, float64 [n] in (0, 1); equal scores share a rank."""
    _, inverse, count = np.unique(scores, return_inverse=True, return_counts=True)
    return np.asarray(((np.cumsum(count) - count / 2.0) / len(scores))[inverse])


def spectral_weights(ranks: Array, top: float, families: Sequence[str]) -> Array:
    """Weight each ranking by its agreement with the others.

    Args:
        ranks: float64 [m, n], higher is better.
        top: share of the texts that counts as found.
        families: m names; rankings of one family share one vote, because they make similar
            errors.

    Returns:
        float64 [m], at least 0, with a sum of 1: the leading eigenvector of the covariance of
            "among the top", divided by the size of the family; equal weights if nothing varies.
    """
    inside = _tops(ranks, [max(1, round(top * ranks.shape[1]))])[0]
    centered = inside - inside.mean(axis=1, keepdims=True)
    values, vectors = np.linalg.eigh(centered @ centered.T)
    leading = vectors[:, -1] * np.sign(vectors[:, -1].sum())
    trusted = np.maximum(leading, 0.0) / np.array([list(families).count(name) for name in families])
    if not values[-1] > 0.0 or not trusted.sum() > 0.0:
        return np.full(len(ranks), 1.0 / len(ranks))
    return np.asarray(trusted / trusted.sum())


def _tops(ranks: Array, depths: list[int]) -> list[Array]:
    """For each depth k, the membership of each text in each ranking's k best, float64 [m, n].

    Ties at the edge share the remaining places, so that the order of the texts does not matter.
    """
    best = -np.sort(-ranks, axis=1)
    memberships = []
    for k in depths:
        edge = best[:, k - 1 : k]
        above, equal = ranks > edge, ranks == edge
        left = k - above.sum(axis=1, keepdims=True)
        memberships.append(above + equal * (left / equal.sum(axis=1, keepdims=True)))
    return memberships


def kappas(ranks: Array, weights: Array, depths: list[int]) -> Array:
    """Agreement of the rankings' k best beyond chance, for each depth k; float64 [depths].

    The mean overlap of two rankings' k best, as a share of k, weighted by the product of their
    weights; then (overlap - k/n) / (1 - k/n), which is 0 by chance and 1 for equal tops.
    """
    pairs = np.outer(weights, weights)
    np.fill_diagonal(pairs, 0.0)
    pairs /= pairs.sum() or 1.0
    values = []
    for k, inside in zip(depths, _tops(ranks, depths), strict=True):
        chance = k / ranks.shape[1]
        overlap = (inside @ inside.T / k * pairs).sum()
        values.append((overlap - chance) / max(1.0 - chance, 1e-9))
    return np.array(values)


def agreed_depth(ranks: Array, weights: Array, depths: list[int]) -> int:
    """The smallest of the increasing depths at which agreement is near its maximum.

    Within a domain's share of the corpus, rankings disagree on the order; beyond it, on the next
    texts; so agreement peaks there (docs/ranking.md). Nine tenths of the peak suffice.
    """
    agreed = np.maximum(kappas(ranks, weights, depths), 0.0)
    return depths[int(np.flatnonzero(agreed >= _ENOUGH * agreed.max())[0])]
