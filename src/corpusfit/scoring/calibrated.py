"""A linear classifier with calibrated log odds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corpusfit.kernels.logistic import balanced, logistic, platt

FOLDS = 5

Array = NDArray[np.float64]


def calibrated_classifier(near: Array, far: Array, c: float, seed: int) -> tuple[Array, float]:
    """Fit calibrated log odds that are linear in the vectors.

    A logistic regression, then Platt's scaling on cross-fitted scores: plain log odds are
    overconfident on few texts and underconfident under a strong penalty. The log odds hold for
    texts drawn like the positives and negatives, at equal priors.

    Reference: Platt (1999), Probabilistic Outputs for Support Vector Machines; scikit-learn's
    CalibratedClassifierCV with ensemble=False.
    """
    x, positive = np.concatenate([near, far]), np.arange(len(near) + len(far)) < len(near)
    at = _fitted(x, positive, c)
    fold = assign_folds(near, far, seed)
    if fold is None:
        return at[:-1], float(at[-1])
    held = np.empty(len(x))
    for number in range(fold.max() + 1):
        out = fold == number
        then = _fitted(x[~out], positive[~out], c, at)
        held[out] = x[out] @ then[:-1] + then[-1]
    slope, intercept = platt(held, positive, balanced(positive))
    return slope * at[:-1], slope * float(at[-1]) + intercept


def _fitted(x: Array, positive: NDArray[np.bool_], c: float, start: Array | None = None) -> Array:
    weight = c * balanced(positive)
    return logistic(x, positive.astype(np.float64), weight, 1.0, start)


def assign_folds(near: Array, far: Array, seed: int) -> NDArray[np.int64] | None:
    """Assign each row of both to a fold, int64 [m + n]: at most five folds, both classes in each.

    Equal rows of a class share a fold, so that no held-out row was seen in training.
    """
    rng = np.random.default_rng(seed % 2**64)
    groups = [np.unique(rows, axis=0, return_inverse=True)[1].ravel() for rows in (near, far)]
    kinds = [int(group.max()) + 1 for group in groups]
    folds = min(FOLDS, *kinds)
    if folds < 2:
        return None
    assigned = [rng.permutation(k)[g] for k, g in zip(kinds, groups, strict=True)]
    return np.concatenate(assigned) % folds
