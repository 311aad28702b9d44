"""How much of each language: smoothed sampling, UniMax, and a budget met to the unit.

What: targets for L languages that add up to the budget, none below what is taken anyway or above
what there is.
Why: with text as it comes, large languages leave the small ones nothing; with equal shares the
small ones are repeated until they are learned by heart.
Trade-off: a language with more specific text than its smoothed share keeps all of it, as German
does in the paper's Table 9, and the others share the rest: P(L)^alpha then holds among these.
Reference: mDAPT, section 3.2 and Tables 8 and 9; Xue et al. (2020), mT5, section 3.2 (alpha 0.3);
Chung et al. (2023), UniMax, Algorithm 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_HALVINGS = 200


def smoothed(sizes: NDArray[np.int64], alpha: float) -> NDArray[np.float64]:
    """float64 [L]: P(L)^alpha over its sum, where P(L) is a language's share of the sizes [L].

    A language of size 0 has no share, whatever alpha.
    """
    share = sizes / max(1, int(sizes.sum()))
    powers = np.where(sizes > 0, share**alpha, 0.0)
    return np.asarray(powers / max(powers.sum(), np.finfo(np.float64).tiny), np.float64)


def unimax(sizes: NDArray[np.int64], budget: int, cap: int) -> NDArray[np.int64]:
    """int64 [L]: as even as can be, with no language more than `cap` times its size.

    From the smallest language to the largest each gets an equal part of what is left, or its cap
    where that is less. The sum is the budget, or all caps together where these are less.
    """
    given = np.zeros(len(sizes), np.int64)
    left = budget
    order = np.argsort(sizes, kind="stable")
    for place, language in enumerate(order.tolist()):
        given[language] = min(left // (len(sizes) - place), cap * int(sizes[language]))
        left -= int(given[language])
    return given


def allocate(
    weights: NDArray[np.float64],
    lower: NDArray[np.int64],
    upper: NDArray[np.int64],
    budget: int,
) -> NDArray[np.int64]:
    """int64 [L]: shares in proportion to weights, held between bounds, that add up to the budget.

    Args:
        weights: float64 [L], 0 or more; above 0 where the bounds differ.
        lower: int64 [L], what a language gets at least.
        upper: int64 [L], what it gets at most.
        budget: between the sums of both.

    Raises:
        ValueError: the budget lies outside.
    """
    if not lower.sum() <= budget <= upper.sum():
        raise ValueError(f"{budget} lies outside {lower.sum()} to {upper.sum()}")
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
