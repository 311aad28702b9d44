"""Budget per language: smoothed sampling, UniMax, and an exact allocation within bounds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_HALVINGS = 200


def smoothed(sizes: NDArray[np.int64], alpha: float) -> NDArray[np.float64]:
    """float64 [L]: P(L)^alpha, normalised, where P(L) is a language's share of the sizes [L].

    A language of size 0 has no share, whatever alpha.

    Reference: mDAPT, section 3.2; Xue et al. (2020), mT5, section 3.2 (alpha 0.3).
    """
    share = sizes / max(1, int(sizes.sum()))
    powers = np.where(sizes > 0, share**alpha, 0.0)
    return np.asarray(powers / max(powers.sum(), np.finfo(np.float64).tiny), np.float64)


def unimax(sizes: NDArray[np.int64], budget: int, cap: int) -> NDArray[np.int64]:
    """int64 [L]: amounts as even as possible, with no language above `cap` times its size.

    From the smallest language to the largest, each gets an equal part of the remaining budget, or
    its cap if that is less. The sum is the budget, or the sum of the caps if that is less.

    Reference: Chung et al. (2023), UniMax, Algorithm 1.
    """
    amounts = np.zeros(len(sizes), np.int64)
    left = budget
    order = np.argsort(sizes, kind="stable")
    for position, language in enumerate(order.tolist()):
        amounts[language] = min(left // (len(sizes) - position), cap * int(sizes[language]))
        left -= int(amounts[language])
    return amounts


def allocate(
    weights: NDArray[np.float64], lower: NDArray[np.int64], upper: NDArray[np.int64], budget: int
) -> NDArray[np.int64]:
    """int64 [L]: amounts in proportion to weights, within bounds, that add up to the budget.

    A language whose lower bound is above its proportional amount keeps the bound, and the others
    share the rest, as German does in mDAPT's Table 9.

    Reference: mDAPT, section 3.2 and Tables 8 and 9.
    """
    if not lower.sum() <= budget <= upper.sum():
        raise ValueError(f"budget must be from {lower.sum()} to {upper.sum()}; got {budget}")
    positive = weights > 0
    low, high = 0.0, float(np.max(upper[positive] / weights[positive], initial=1.0))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if np.clip(middle * weights, lower, upper).sum() < budget:
            low = middle
        else:
            high = middle
    exact = np.clip(high * weights, lower, upper)
    shares = np.maximum(np.floor(exact).astype(np.int64), lower)
    left = budget - int(shares.sum())
    nearest = np.argsort(shares - exact, kind="stable")  # largest remainders first
    shares[nearest[:left]] += 1
    return shares
