"""Estimate the recall of a cascade from a sample, with an exact interval."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.plan import ChoosePlan

_COMBINATIONS = 4_096
_STEPS = 60


@dataclass(frozen=True)
class DroppedSample:
    """The dropped segments of a sample, and counts of the run.

    Attributes:
        scores: float32 [k], falling: last-stage scores of the sampled segments that were dropped.
        ahead: int64 [k], number of segments that came through with such a score or a higher one.
        through: segments of the corpus that came through.
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
    """The share of the last stage's own selection that reaches the last stage.

    Attributes:
        estimate: the share.
        low, high: bounds of the interval that holds the true share with this confidence.
        confidence: of the interval.
        lost: estimated number of the selection's segments in the sample that were dropped.
        sample: segments in the sample.
    """

    estimate: float
    low: float
    high: float
    confidence: float
    lost: int
    sample: int


def last_stage_selection(
    scores: NDArray[np.float32],
    tokens: NDArray[np.int64],
    amount: ChoosePlan,
    *,
    segments: int,
    all_tokens: int,
) -> NDArray[np.bool_]:
    """Which of n sampled segments the last stage would select if it scored the whole corpus."""
    if amount.threshold is not None:
        return np.asarray(scores >= amount.threshold)
    order = np.argsort(-scores, kind="stable")
    if not amount.counts_segments:
        over = amount.tokens is None  # the last segment may go over a fraction
        share = amount.share if over else (amount.tokens or 0) / max(1, all_tokens)
        budget = min(1.0, share) * float(tokens.sum())
        kept = np.cumsum(tokens[order])
        count = int(np.searchsorted(kept, budget, side="left" if over else "right")) + over
    else:
        fraction = amount.share
        if amount.segments is not None:
            fraction = amount.segments / max(1, segments)
        count = round(min(1.0, fraction) * len(scores))
    taken = np.zeros(len(scores), np.bool_)
    taken[order[: max(1, count)]] = True
    return taken


def estimate_recall(
    lost: DroppedSample, taken: int, confidence: float, threshold: float | None = None
) -> Recall | None:
    """Estimate the recall of a selection.

    Segments dropped by an early stage never reach the last one, so only a sample shows them. The
    lowest score of the last stage's own selection is unknown too: it follows from the condition
    that segments that came through and segments lost above that score add up to the selection. (The
    sample's own quantile in its place errs by a multiple of the interval where scores are sparse.)

    For the true lowest score, the interval of the segments lost above it holds the truth with this
    confidence; and the higher that score, the fewer came through above it. So the score that
    follows from the largest possible loss is not below the true one, and gives the lower bound.

    Only dropped segments of the selection are informative, so a small selection needs a large
    sample. The interval is exact for independent draws and slightly wide for draws without
    replacement, as here.
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
    lost: DroppedSample, taken: int, rates: Callable[[int], tuple[float, float, float]], which: int
) -> tuple[float, int]:
    """How many of the best `taken` segments came through, and how many dropped ones are among them.

    With k of the sample's dropped segments above a score, a share `rates(k)[which]` of the corpus
    is missing there. As the score falls, both the segments that came through and the missing ones
    grow, until they add up to `taken`.
    """

    def missing(k: int) -> float:
        return rates(k)[which] * lost.corpus

    until = np.append(lost.ahead, lost.through)  # segments through before the next loss, by k
    enough = range(len(until) - 1)
    k = bisect.bisect_left(enough, True, key=lambda k: bool(until[k] + missing(k) >= taken))
    least = int(lost.ahead[k - 1]) if k else 0
    return float(np.clip(taken - missing(k), least, min(until[k], taken))), k


def clopper_pearson(k: int, n: int, confidence: float) -> tuple[float, float]:
    """Exact interval for a binomial share with k of n observed (Clopper and Pearson, 1934)."""
    tail = (1.0 - confidence) / 2
    low = 0.0 if k == 0 else _solved(lambda p: _at_least(k, n, p) < tail)
    high = 1.0 if k == n else _solved(lambda p: 1.0 - _at_least(k + 1, n, p) > tail)
    return low, high


def _solved(below: Callable[[float], bool]) -> float:
    """The p in (0, 1) at which a condition that holds for smaller p stops holding."""
    left, right = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (left + right) / 2
        left, right = (middle, right) if below(middle) else (left, middle)
    return (left + right) / 2


def _at_least(k: int, n: int, p: float) -> float:
    """Probability of k or more successes in n trials."""
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
    """The shares that keep a recall on a sample at the lowest cost.

    Each stage before the last two tries shares on a grid; the one before the last passes just
    enough. Costs are fixed ratios, not times measured on this machine, so that the shares, and with
    them the result, do not depend on the machine.
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
    """Lowest cost of the stages after the first of these, and its shares."""
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
    """The recall in a cascade's manifest, as a sentence."""
    last, recall = cascade["stages"][-1]["stage"], cascade["recall"]
    if recall is None:
        return f"Recall of the selection of {last} alone: unknown (no sample)."
    return (
        f"Recall of the selection of {last} alone: about {100 * recall['estimate']:.1f} % "
        f"({100 * recall['low']:.1f} % to {100 * recall['high']:.1f} % with "
        f"{100 * recall['confidence']:.1f} % confidence; earlier stages dropped "
        f"{recall['lost']:,} of its segments in a sample of {recall['sample']:,})."
    )
