"""Quality of scores against a known domain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)
BINS = 40
TAIL = 0.001
"""Share of all segments beyond each end of the bins."""


@dataclass(frozen=True)
class Point:
    """Precision and recall of the best share of the segments; of equal scores the first are taken.

    Attributes:
        share: share of all segments.
        segments: their number.
        precision: share of them that is in the domain.
        recall: share of the domain that is among them.
    """

    share: float
    segments: int
    precision: float
    recall: float


@dataclass(frozen=True)
class Histogram:
    """Numbers of segments by score.

    Attributes:
        edges: the 41 borders of 40 bins of equal width, from the 0.1 % to the 99.9 % quantile of
            all scores; a bin includes its lower border, and the last bin both.
        inside: 42 counts of segments in the domain: below the bins, in each, above them.
        outside: the same counts for the other segments.
    """

    edges: list[float]
    inside: list[int]
    outside: list[int]


@dataclass(frozen=True)
class Figures:
    """Quality of the scores against the domain, for several amounts.

    Attributes:
        average_precision: over all segments; equal scores count as one step.
        curve: the best 1, 5, 10, 20 and 50 % of the segments.
        histogram: of the scores, in the domain and elsewhere.
    """

    average_precision: float
    curve: list[Point]
    histogram: Histogram


def figures(scores: NDArray[np.float32], inside: NDArray[np.bool_]) -> Figures:
    """Compare scores with the known domain."""
    # Everything is sorted at once, which needs about 25 bytes of memory per segment.
    best = inside[np.argsort(-scores, kind="stable")]
    curve = [_point(share, best, int(np.count_nonzero(best))) for share in SHARES]
    del best
    rising = np.sort(scores)
    positives = np.sort(scores[inside])
    return Figures(average_precision(rising, positives), curve, _histogram(rising, positives))


def average_precision(rising: NDArray[np.float32], positives: NDArray[np.float32]) -> float:
    """Mean over the positives of the precision at their scores; both arrays are sorted."""
    hits = len(positives) - np.searchsorted(positives, positives)
    return float((hits / (len(rising) - np.searchsorted(rising, positives))).mean())


def _point(share: float, best: NDArray[np.bool_], inside: int) -> Point:
    n = max(1, round(share * len(best)))
    hits = int(np.count_nonzero(best[:n]))
    return Point(share, n, hits / n, hits / inside)


def _histogram(rising: NDArray[np.float32], positives: NDArray[np.float32]) -> Histogram:
    n = len(rising)
    low, high = (float(rising[round(q * (n - 1))]) for q in (TAIL, 1 - TAIL))
    if low == high:
        low = low - 0.5
        high = high + 0.5
    edges = np.linspace(low, high, BINS + 1)
    whole, inside = (_counts(scores, edges) for scores in (rising, positives))
    return Histogram(edges.tolist(), inside.tolist(), (whole - inside).tolist())


def _counts(rising: NDArray[np.float32], edges: NDArray[np.float64]) -> NDArray[np.int64]:
    below = [*np.searchsorted(rising, edges[:-1]), np.searchsorted(rising, edges[-1], "right")]
    return np.diff(below, prepend=0, append=len(rising))
