"""A linear classifier with calibrated log odds, and the negatives to fit it on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.types import Vectors
from corpusfit.kernels.scores import balanced, logistic, platt
from corpusfit.kernels.vectors import products
from corpusfit.scoring.blocks import plain_rows

FOLDS = 5

Array = NDArray[np.float64]


def calibrated_classifier(near: Array, far: Array, c: float, seed: int) -> tuple[Array, float]:
    """Fit calibrated log odds that are linear in the vectors."""
    # A logistic regression, then Platt's scaling on cross-fitted scores: plain log odds are
    # overconfident on few texts and underconfident under a strong penalty. The log odds hold for
    # texts drawn like the positives and negatives, at equal priors.
    x = np.concatenate([near, far])
    positive = np.arange(len(near) + len(far)) < len(near)
    at = _fitted(x, positive, c)
    fold = assign_folds(near, far, seed)
    if fold is None:
        return at[:-1], float(at[-1])
    heldout_scores = np.empty(len(x))
    for number in range(fold.max() + 1):
        out = fold == number
        then = _fitted(x[~out], positive[~out], c, at)
        heldout_scores[out] = x[out] @ then[:-1] + then[-1]
    slope, intercept = platt(heldout_scores, positive, balanced(positive))
    return slope * at[:-1], slope * float(at[-1]) + intercept


def _fitted(x: Array, positive: NDArray[np.bool_], c: float, start: Array | None = None) -> Array:
    weight = c * balanced(positive)
    return logistic(x, positive.astype(np.float64), weight, 1.0, start)


def assign_folds(near: Array, far: Array, seed: int) -> NDArray[np.int64] | None:
    """The fold of each row of both, int64 [m + n]: at most five folds, both classes in each."""
    # Equal rows of a class share a fold, so that no held-out row was seen in training.
    rng = np.random.default_rng(seed % 2**64)
    groups = [np.unique(rows, axis=0, return_inverse=True)[1].ravel() for rows in (near, far)]
    kinds = [int(group.max()) + 1 for group in groups]
    folds = min(FOLDS, *kinds)
    if folds < 2:
        return None
    assigned = [rng.permutation(k)[g] for k, g in zip(kinds, groups, strict=True)]
    return np.concatenate(assigned) % folds


def least_similar(inside: Vectors, outside: Vectors) -> NDArray[np.int64]:
    """Positions of the two thirds of `outside` least similar to the mean of `inside` by cosine."""
    # Reference: Aharoni and Goldberg (2020), section 4.1 and Table 5.
    # A corpus sample holds texts of the target's domain; as negatives they would teach a classifier
    # to reject its own domain. If hardly any of the corpus is of the domain, pre-ranking removes
    # the most informative negatives.
    mean = plain_rows(inside.mean(axis=0, keepdims=True, dtype=np.float64))
    order = np.argsort(products(outside, mean)[:, 0], kind="stable")
    return order[: -(-2 * len(order) // 3)]
