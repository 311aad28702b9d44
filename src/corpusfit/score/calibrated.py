"""A linear classifier whose log odds are calibrated.

What: logistic regression of target vectors against others, then Platt's scaling on cross-fitted
scores of texts that it was not fitted on.
Why: fitted log odds are too sure of themselves on few texts, and too timid under a strong penalty;
what a score means should not depend on either.
Trade-off: one more fit a fold, each begun at the fit on everything. Held-out texts are those of the
same target: the log odds are right for texts drawn as target and negatives were, at equal priors.
Reference: Platt (1999), Probabilistic Outputs for Support Vector Machines; scikit-learn's
CalibratedClassifierCV with ensemble=False.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corpusfit.kernels.logistic import balanced, logistic, platt

FOLDS = 5

Array = NDArray[np.float64]


def calibrated_classifier(near: Array, far: Array, c: float, seed: int) -> tuple[Array, float]:
    """Fit calibrated log odds that are linear in the vectors.

    Args:
        near: float64 [m, d], the positives; at least one.
        far: float64 [n, d], the negatives; at least one.
        c: weight of the loss against the penalty, scikit-learn's C with class_weight="balanced".
        seed: of the folds.

    Returns:
        (weights float64 [d], intercept). Not calibrated where the positives, or the negatives, are
        fewer than two different rows: nothing can be held out then.
    """
    x, positive = np.concatenate([near, far]), np.arange(len(near) + len(far)) < len(near)
    at = _fitted(x, positive, c)
    fold = deal(near, far, seed)
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


def deal(near: Array, far: Array, seed: int) -> NDArray[np.int64] | None:
    """The fold of each row of both, int64 [m + n]: at most five, both classes in each.

    Equal rows of a class go together, so that nothing held out was seen.

    Returns:
        None where there are not two different rows of each class.
    """
    chance = np.random.default_rng(seed % 2**64)
    groups = [np.unique(rows, axis=0, return_inverse=True)[1].ravel() for rows in (near, far)]
    kinds = [int(group.max()) + 1 for group in groups]
    folds = min(FOLDS, *kinds)
    if folds < 2:
        return None
    dealt = [chance.permutation(k)[g] for k, g in zip(kinds, groups, strict=True)]
    return np.concatenate(dealt) % folds
