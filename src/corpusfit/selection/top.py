"""Select exactly the highest keys without holding the scores of the whole corpus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_BUCKETS = 1 << 16
Parts = Callable[[], Iterable[tuple[NDArray[np.float32], NDArray[np.int64]]]]
"""The keys of the corpus, part by part, with each segment's cost; read anew at each call."""
Grouped = Callable[[], Iterable[tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]]]
"""Keys, costs and each segment's group."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """The threshold of a selection.

    Attributes:
        key: the lowest key of a selected segment; +inf if nothing is selected.
        budget: cost left for the segments with exactly that key, in order of position.
        over: whether the last segment may go over the budget.
    """

    key: float
    budget: int
    over: bool = False


def _ordered(keys: NDArray[np.float32]) -> NDArray[np.uint32]:
    """Bits that sort like the floats, largest first; -0.0 equals 0.0."""
    bits = (keys.astype(np.float32) + np.float32(0)).view(np.uint32)
    ascending = np.where(bits >> 31, ~bits, bits | np.uint32(0x80000000))
    return np.asarray(~ascending, np.uint32)


def _key_of(ordered: int) -> float:
    ascending = ~np.uint32(ordered)
    bits = ascending & np.uint32(0x7FFFFFFF) if ascending >> 31 else ~ascending
    return float(np.array([bits], np.uint32).view(np.float32)[0])


def find_threshold(parts: Parts, budget: int) -> Threshold:
    """Find the threshold that selects the highest keys within a budget.

    Keys are counted in two passes of 65,536 buckets (a radix selection over the bits of float32),
    so memory does not grow with the corpus. Segments are ordered by key from high to low, then by
    position. The selection stops at the first segment that does not fit.

    Reference: radix select; TADPOLE, section 3.2 (the beta fraction of segments).
    """

    def grouped() -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]]:
        return ((keys, costs, np.zeros(len(keys), np.int64)) for keys, costs in parts())

    return find_thresholds(grouped, [budget])[0]


def find_thresholds(
    parts: Grouped, budgets: Sequence[int], *, over: bool = False
) -> list[Threshold]:
    """Find a threshold for each of g groups of segments, in the same two passes."""
    first = np.zeros((len(budgets), _BUCKETS), np.int64)
    for keys, costs, group in parts():
        np.add.at(first, (group, _ordered(keys) >> 16), costs)
    found = [_bucket(own, budget) for own, budget in zip(first, budgets, strict=True)]
    high = np.array([-1 if place is None else place for place, _ in found], np.int64)
    second = np.zeros((len(budgets), _BUCKETS), np.int64)
    for keys, costs, group in parts() if np.any(high >= 0) else ():
        ordered = _ordered(keys)
        inside = ordered >> 16 == high[group]
        np.add.at(second, (group[inside], ordered[inside] & 0xFFFF), costs[inside])
    thresholds = []
    for (place, left), own in zip(found, second, strict=True):
        if place is None:
            thresholds.append(Threshold(-np.inf, left, over))
            continue
        low, rest = _bucket(own, left)
        thresholds.append(Threshold(_key_of((place << 16) | (low or 0)), rest, over))
    return thresholds


def _bucket(histogram: NDArray[np.int64], budget: int) -> tuple[int | None, int]:
    """The first bucket that does not fit completely, and the budget left for it."""
    total = np.cumsum(histogram)
    place = int(np.searchsorted(total, budget, side="right"))
    if place == len(total):
        return None, budget - int(total[-1])
    return place, budget - (int(total[place - 1]) if place else 0)


class Selector:
    """Marks the segments that a threshold selects, part after part in order."""

    def __init__(self, threshold: Threshold) -> None:
        self._key = np.float32(threshold.key)
        self._left = threshold.budget
        self._over = threshold.over
        self._open = True

    @property
    def rest(self) -> Threshold:
        """The threshold for the parts that follow."""
        return Threshold(float(self._key), self._left if self._open else -1, self._over)

    def select(self, keys: NDArray[np.float32], costs: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Mark the selected segments of the next part; bool [n]."""
        selected = keys > self._key
        ties = np.flatnonzero(keys == self._key)
        if len(ties) and self._open:
            running = np.cumsum(costs[ties])
            fit = int(np.searchsorted(running, self._left, side="right"))
            if self._over and fit < len(ties) and self._left > (running[fit - 1] if fit else 0):
                fit += 1
            self._left -= int(running[fit - 1]) if fit else 0
            selected[ties[:fit]] = True
            self._open = fit == len(ties) and self._left >= 0
        return selected
