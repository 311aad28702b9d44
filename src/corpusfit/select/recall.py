"""What a cascade loses, told and bounded by a sample.

What: the share of the last stage's own selection that earlier stages pass on, estimated on a random
sample of segments that every stage scored, with an exact interval; and the shares that reach a
recall on such a sample.
Why: what an early stage drops is never seen by the last one, so only a sample can tell.
Trade-off: of n sampled segments only those count that the last stage would take, so a small
selection needs a large sample; the interval is exact for independent draws and a little wide for
draws without replacement, as these are.
Reference: Clopper and Pearson (1934), The Use of Confidence or Fiducial Limits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpusfit.plan import ChoosePlan
from corpusfit.select.choose import DEFAULT_FRACTION

__all__ = ["Recall", "clopper_pearson", "estimated", "shares_for", "wanted"]

_COMBINATIONS = 4_096
_STEPS = 60


@dataclass(frozen=True)
class Recall:
    """How much of the last stage's own selection reaches it.

    Attributes:
        estimate: share of the sampled segments of that selection that every earlier stage passed.
        low, high: the interval that holds the true share with this confidence.
        confidence: of the interval.
        kept: sampled segments of that selection that were passed.
        wanted: sampled segments of that selection.
        sample: segments in the sample.
    """

    estimate: float
    low: float
    high: float
    confidence: float
    kept: int
    wanted: int
    sample: int


def wanted(
    scores: NDArray[np.float32],
    tokens: NDArray[np.int64],
    amount: ChoosePlan,
    *,
    segments: int,
    all_tokens: int,
) -> NDArray[np.bool_]:
    """Which of n sampled segments the last stage would take, if it alone scored everything.

    Args:
        scores: float32 [n], the last stage's.
        tokens: int64 [n], their word pieces.
        amount: how much is taken of the whole corpus, by `top`.
        segments: how many the corpus has.
        all_tokens: and how many word pieces.

    Returns:
        bool [n]; at least one is True, unless a threshold lets none through.
    """
    if amount.threshold is not None:
        return np.asarray(scores >= amount.threshold)
    order = np.argsort(-scores, kind="stable")
    if amount.tokens is not None:
        budget = amount.tokens / max(1, all_tokens) * float(tokens.sum())
        count = int(np.searchsorted(np.cumsum(tokens[order]), budget, side="right"))
    else:
        fraction = DEFAULT_FRACTION if amount.fraction is None else amount.fraction
        if amount.segments is not None:
            fraction = amount.segments / max(1, segments)
        count = round(min(1.0, fraction) * len(scores))
    taken = np.zeros(len(scores), np.bool_)
    taken[order[: max(1, count)]] = True
    return taken


def estimated(passed: NDArray[np.bool_], of: NDArray[np.bool_], confidence: float) -> Recall | None:
    """The recall on a sample, from which segments [n] came through and which were wanted [n].

    None where none was wanted.
    """
    n, kept = int(of.sum()), int((passed & of).sum())
    if not n:
        return None
    low, high = clopper_pearson(kept, n, confidence)
    return Recall(kept / n, low, high, confidence, kept, n, len(of))


def clopper_pearson(k: int, n: int, confidence: float) -> tuple[float, float]:
    """The exact interval for a binomial share, k of n seen; each side errs by half of the rest."""
    tail = (1.0 - confidence) / 2
    low = 0.0 if k == 0 else _solved(lambda p: _at_least(k, n, p) < tail)
    high = 1.0 if k == n else _solved(lambda p: 1.0 - _at_least(k + 1, n, p) > tail)
    return low, high


def _solved(below: Callable[[float], bool]) -> float:
    """Where a condition on p in (0, 1) that holds first and then no more changes."""
    left, right = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (left + right) / 2
        left, right = (middle, right) if below(middle) else (left, middle)
    return (left + right) / 2


def _at_least(k: int, n: int, p: float) -> float:
    """Probability of k or more of n."""
    counts = np.arange(k, n + 1)
    logs = [math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) for i in counts]
    return float(np.exp(np.array(logs) + counts * np.log(p) + (n - counts) * np.log1p(-p)).sum())


def shares_for(
    scores: Sequence[NDArray[np.float32]],
    of: NDArray[np.bool_],
    recall: float,
    costs: Sequence[float],
) -> list[float]:
    """The shares that keep a recall on a sample at the least cost.

    Each stage but the one before the last tries shares on a grid; that one then passes just enough.
    Costs are ratios that are the same everywhere, not times measured here: the shares, and with
    them the result, may not depend on the machine.

    Args:
        scores: of each earlier stage, float32 [n], on the same n segments.
        of: bool [n], which the last stage would take; at least one.
        recall: how much of these shall come through.
        costs: of a unit, in each earlier stage and in the last one.

    Returns:
        One share of the whole corpus for each earlier stage, falling.
    """
    total = int(of.sum())
    need = min(total, math.ceil(recall * (total + 1)))
    steps = max(2, int(_COMBINATIONS ** (1 / max(1, len(scores) - 1))))
    alive = np.ones(len(of), np.bool_)
    return _cheapest(scores, of, need, costs[1:], alive, steps)[1]


def _cheapest(
    scores: Sequence[NDArray[np.float32]],
    of: NDArray[np.bool_],
    need: int,
    costs: Sequence[float],
    alive: NDArray[np.bool_],
    steps: int,
) -> tuple[float, list[float]]:
    """Least cost of what comes after the first of these stages, and the shares for it."""
    order = np.argsort(np.where(alive, -scores[0].astype(np.float64), np.inf), kind="stable")
    order = order[: alive.sum()]
    hits = np.cumsum(of[order])
    least = int(np.searchsorted(hits, need)) + 1
    if len(scores) == 1:
        return least / len(of) * costs[0], [least / len(of)]
    found = []
    for count in np.unique(np.geomspace(least, len(order), steps).round().astype(int)):
        still = np.zeros(len(of), np.bool_)
        still[order[:count]] = True
        cost, shares = _cheapest(scores[1:], of, need, costs[1:], still, steps)
        found.append((count / len(of) * costs[0] + cost, [count / len(of), *shares]))
    return min(found)
