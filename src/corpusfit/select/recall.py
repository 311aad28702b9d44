"""What a cascade loses, told and bounded by a sample.

What: the share of the last stage's own selection that earlier stages pass on, from the scores of
what came through and of sampled segments that did not, with an exact interval; and the shares that
reach a recall on such a sample.
Why: what an early stage drops is never seen by the last one, so only a sample can tell. Where the
last stage's own selection would end is not known either: it follows from both, as what came through
and what was lost above that score must add up to the selection. Taking the sample's own quantile in
its place errs by a multiple of the interval where scores thin out there.
Trade-off: only those of n sampled segments tell something that were dropped and would have been
taken, so a small selection needs a large sample; the interval is exact for independent draws and a
little wide for draws without replacement, as these are.
Reference: Clopper and Pearson (1934), The Use of Confidence or Fiducial Limits.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.plan import ChoosePlan
from corpusfit.select.choose import DEFAULT_FRACTION

_COMBINATIONS = 4_096
_STEPS = 60


@dataclass(frozen=True)
class Lost:
    """What a sample and the run know of what was dropped.

    Attributes:
        scores: float32 [k], falling: what the last stage gives those of the sample that were
            dropped.
        ahead: int64 [k], how many segments came through with such a score or a higher one.
        through: segments that came through, of the whole corpus.
        sample: segments of the sample.
        corpus: segments of the corpus.
    """

    scores: NDArray[np.float32]
    ahead: NDArray[np.int64]
    through: int
    sample: int
    corpus: int


@dataclass(frozen=True)
class Recall:
    """How much of the last stage's own selection reaches it.

    Attributes:
        estimate: the share.
        low, high: the interval that holds the true share with this confidence.
        confidence: of the interval.
        lost: segments of the sample that were dropped and would have been taken, as estimated.
        sample: segments in the sample.
    """

    estimate: float
    low: float
    high: float
    confidence: float
    lost: int
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


def estimated(
    lost: Lost, taken: int, confidence: float, threshold: float | None = None
) -> Recall | None:
    """The recall of a selection.

    For a true end of the selection, the interval of what was lost above it holds the truth with
    this confidence; and the further up the end is, the less came through above it. So the end that
    follows from the most that may be lost is not below the true one, and gives the lower bound.

    Args:
        lost: what is known of the dropped.
        taken: segments that the last stage alone would take; with a threshold, those that came
            through and reach it.
        confidence: of the interval.
        threshold: the lowest score taken, where that is what was asked for.

    Returns:
        The estimate and its bounds; None where nothing is taken or sampled.
    """
    if not taken or not lost.sample:
        return None
    n = lost.sample

    def rates(k: int) -> tuple[float, float, float]:
        low, high = clopper_pearson(k, n, confidence)
        return k / n, high, low

    if threshold is not None:
        k = int((lost.scores >= threshold).sum())
        kept = [taken / (taken + rate * lost.corpus) for rate in rates(k)]
        return Recall(kept[0], kept[1], kept[2], confidence, k, n)
    found = [_kept(lost, taken, rates, which) for which in range(3)]
    estimate, low, high = (kept / taken for kept, _ in found)
    return Recall(estimate, low, high, confidence, found[0][1], n)


def _kept(
    lost: Lost, taken: int, rates: Callable[[int], tuple[float, float, float]], which: int
) -> tuple[float, int]:
    """What came through of the best `taken`, and how many of the sample's dropped are among them.

    With k of the sample's dropped above a score, `rates(k)[which]` of the corpus are missing there.
    What came through above a score and what is missing grow as it falls, until they are `taken`.
    """

    def missing(k: int) -> float:
        return rates(k)[which] * lost.corpus

    until = np.append(lost.ahead, lost.through)  # came through before the next one is lost, by k
    enough = range(len(until) - 1)
    k = bisect.bisect_left(enough, True, key=lambda k: bool(until[k] + missing(k) >= taken))
    least = int(lost.ahead[k - 1]) if k else 0
    return float(np.clip(taken - missing(k), least, min(until[k], taken))), k


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
    logs = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, n + 1)))))  # of factorials
    counts = np.arange(k, n + 1)
    chosen = logs[n] - logs[counts] - logs[n - counts]
    return float(np.exp(chosen + counts * np.log(p) + (n - counts) * np.log1p(-p)).sum())


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


def recall_in_words(cascade: Mapping[str, Any]) -> str:
    """What a cascade's manifest says of its recall, in a sentence."""
    last, recall = cascade["stages"][-1]["stage"], cascade["recall"]
    if recall is None:
        return f"How much of what {last} alone would take has reached it is not known."
    return (
        f"Of what {last} alone would take, about {100 * recall['estimate']:.1f} % reached it "
        f"({100 * recall['low']:.1f} % to {100 * recall['high']:.1f} % with "
        f"{100 * recall['confidence']:.1f} % confidence: dropped of these were "
        f"{recall['lost']:,} in a sample of {recall['sample']:,} segments)."
    )
