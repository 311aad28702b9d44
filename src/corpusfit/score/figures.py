"""How well scores find a domain that is known.

What: from the scores of all segments and whether each is in the domain: average precision, the
precision and recall of the best so many, and how the scores of both kinds are spread.
Why: a selection has one amount; these figures say what any other would have given.
Trade-off: everything is sorted at once, so about 30 bytes a segment are held for a moment; exact
figures with bounded memory would take as many passes as there are groups of equal leading bits.
Reference: Aharoni and Goldberg (2020), Table 7; TADPOLE, Figure 4 (histograms of scores).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Figures", "Histogram", "Point", "figures"]

SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)
BINS = 40
TAIL = 0.001
"""The share of all segments beyond either end of the bins."""


@dataclass(frozen=True)
class Point:
    """What the best share of the segments holds; among equal scores the first by position.

    Attributes:
        share: of all segments.
        segments: how many that is.
        precision: the share of them that is in the domain.
        recall: the share of the domain that is among them.
    """

    share: float
    segments: int
    precision: float
    recall: float


@dataclass(frozen=True)
class Histogram:
    """How many segments have which score.

    Attributes:
        edges: the 41 borders of 40 bins of equal width, from the 0.1 % to the 99.9 % quantile of
            all scores; a bin holds its lower border, the last one both.
        inside: 42 counts of segments in the domain: below the bins, in each, above them.
        outside: the same of the others.
    """

    edges: list[float]
    inside: list[int]
    outside: list[int]


@dataclass(frozen=True)
class Figures:
    """How well scores find a domain, whatever amount is taken.

    Attributes:
        average_precision: over all segments; those with equal scores are taken together.
        curve: the best 1, 5, 10, 20 and 50 % of the segments.
        histogram: of the scores, in the domain and elsewhere.
    """

    average_precision: float
    curve: list[Point]
    histogram: Histogram


def figures(scores: NDArray[np.float32], inside: NDArray[np.bool_]) -> Figures:
    """Hold scores against the truth.

    Args:
        scores: float32 [n], by position; n is 1 or more.
        inside: bool [n], whether each segment is in the domain; one at least is.
    """
    order = np.argsort(-scores, kind="stable")
    ranked, truth = scores[order], inside[order]
    hits = np.cumsum(truth, dtype=np.int64)
    return Figures(
        _average_precision(ranked, hits),
        [_point(share, hits) for share in SHARES],
        _histogram(ranked[::-1], truth[::-1]),
    )


def _average_precision(ranked: NDArray[np.float32], hits: NDArray[np.int64]) -> float:
    """Sum of (R_i - R_(i-1)) P_i over the different scores, highest first."""
    last = np.append(np.flatnonzero(np.diff(ranked)), len(ranked) - 1)
    gained = np.diff(hits[last], prepend=0)
    return float((gained * (hits[last] / (last + 1))).sum() / hits[-1])


def _point(share: float, hits: NDArray[np.int64]) -> Point:
    n = max(1, round(share * len(hits)))
    found = int(hits[n - 1])
    return Point(share, n, found / n, found / int(hits[-1]))


def _histogram(rising: NDArray[np.float32], truth: NDArray[np.bool_]) -> Histogram:
    """From scores in rising order."""
    n = len(rising)
    low, high = (float(rising[round(q * (n - 1))]) for q in (TAIL, 1 - TAIL))
    if low == high:
        low, high = low - 0.5, high + 0.5
    edges = np.linspace(low, high, BINS + 1)
    counts = [_counts(rising[of], edges) for of in (truth, ~truth)]
    return Histogram(edges.tolist(), *counts)


def _counts(rising: NDArray[np.float32], edges: NDArray[np.float64]) -> list[int]:
    below = np.searchsorted(rising, edges)
    below[-1] = np.searchsorted(rising, edges[-1], side="right")
    counts: list[int] = np.diff(below, prepend=0, append=len(rising)).tolist()
    return counts
