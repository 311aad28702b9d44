"""The key from which segments are selected: exact for any number of segments, in bounded memory.

What: `find_threshold` finds the lowest key that a budget reaches and what is left of it for the
segments with exactly this key; a `Selector` marks the selected segments, part by part.
Why: the scores of a corpus do not fit in memory, and sorting them on disk would read them more
often.
Trade-off: keys are counted in two passes of 65,536 buckets, and equal keys in a third.
Reference: a radix selection over the bits of float32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_BUCKETS = 1 << 16
Keys = tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.uint16]]
"""Keys, costs and draws of the segments of a part, each [n]."""
Segments = tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64], NDArray[np.uint16]]
"""Keys, costs, groups and draws of the segments of a part, each [n]."""
Within = tuple[NDArray[np.int64], NDArray[np.int64] | None] | None
"""Of each group the upper 16 bits of the key, then also the lower ones, that are looked into."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """The threshold of a selection."""

    key: float  # the lowest key of a selected segment; +inf if nothing is selected
    budget: int  # budget left for the last segments with exactly that key, in order of position
    over: bool = False  # whether the last segment may go over the budget
    # these segments' draw; those of lower draws are selected. None without several of that key.
    draw: int | None = None


def _ordered(keys: NDArray[np.float32]) -> NDArray[np.uint32]:
    """Bits that sort like the floats, largest first; -0.0 equals 0.0."""
    bits = (keys.astype(np.float32) + np.float32(0)).view(np.uint32)
    ascending = np.where(bits >> 31, ~bits, bits | np.uint32(0x80000000))
    return np.asarray(~ascending, np.uint32)


def _key_of(ordered: int) -> float:
    ascending = ~np.uint32(ordered)
    bits = ascending & np.uint32(0x7FFFFFFF) if ascending >> 31 else ~ascending
    return float(np.array([bits], np.uint32).view(np.float32)[0])


def find_threshold(
    parts: Callable[[], Iterable[Keys]], budget: int, *, over: bool = False
) -> Threshold:
    """Find the threshold that selects the highest keys within a budget; reads parts several times.

    Equal keys go by their draws, then by their place.
    """

    def grouped() -> Iterator[Segments]:
        for keys, costs, draws in parts():
            yield keys, costs, np.zeros(len(keys), np.int64), draws

    of_runs = search(lambda within: [count_keys(grouped(), 1, within)], [budget], over=over)
    return of_runs[0][0]


Counts = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
"""Occupied buckets, numbered through all groups, and the costs and segments of each."""


def count_keys(parts: Iterable[Segments], groups: int, within: Within) -> Counts:
    """Costs by the upper 16 bits of the keys; by the lower of these; by the draws of a key."""
    sums = np.zeros((2, groups * _BUCKETS), np.int64)
    for keys, costs, group, draws in parts:
        ordered = _ordered(keys)
        upper = ordered >> 16
        lower = ordered & 0xFFFF
        buckets: NDArray[Any] = upper
        inside = np.ones(len(keys), np.bool_)
        if within is not None:
            high, low = within
            buckets = lower
            inside = upper == high[group]
            if low is not None:
                buckets = draws
                inside = inside & (lower == low[group])
        at = group[inside] * _BUCKETS + buckets[inside]
        np.add.at(sums[0], at, costs[inside])
        np.add.at(sums[1], at, 1)
    occupied = np.flatnonzero(sums[1])
    return occupied, *sums[:, occupied]


def search(
    count: Callable[[Within], list[Counts]], budgets: Sequence[int], *, over: bool = False
) -> list[list[Threshold]]:
    """The thresholds of all groups where each run of parts begins."""
    # Keys are counted in two passes of 65,536 buckets (a radix selection over the bits of float32),
    # so memory does not grow with the corpus. Segments are ordered by key from high to low; equal
    # keys by their draws, in a third pass if there are several; then by position. The selection
    # stops at the first segment that does not fit.
    groups = range(len(budgets))

    def summed(counts: list[Counts], which: int = 1) -> NDArray[np.int64]:
        sums = np.zeros(len(budgets) * _BUCKETS, np.int64)
        for part in counts:
            sums[part[0]] += part[which]
        return sums.reshape(len(budgets), _BUCKETS)

    def looked_into(counts: list[Counts], left: list[int]) -> tuple[NDArray[np.int64], list[int]]:
        """Of each group the bucket that does not fit, -1 if all do, and the budget for it."""
        found = [_bucket(histogram, n) for histogram, n in zip(summed(counts), left, strict=True)]
        return np.array([-1 if b is None else b for b, _ in found], np.int64), [n for _, n in found]

    nothing = np.empty(0, np.int64)
    counts = count(None)
    none: list[Counts] = [(nothing, nothing, nothing)] * len(counts)
    high, left = looked_into(counts, list(budgets))
    counts = count((high, None)) if np.any(high >= 0) else none
    low, left = looked_into(counts, left)
    several = (low >= 0) & (summed(counts, 2)[groups, low] > 1) & (np.array(left) >= 0)
    by_draw = count((high, np.where(several, low, -1))) if np.any(several) else none
    draw, of_draw = looked_into(by_draw, left)
    thresholds: list[list[Threshold]] = [[] for _ in counts]
    for group in groups:
        if high[group] < 0:
            for of_run in thresholds:
                of_run.append(Threshold(-np.inf, left[group], over))
            continue
        key = _key_of((int(high[group]) << 16) | max(0, int(low[group])))
        # the last segments are taken in order: of the budget for them, a run has what the runs
        # before it leave
        drawn = int(draw[group]) if several[group] else None
        rest = of_draw[group] if several[group] else left[group]
        last = max(0, int(low[group])) if drawn is None else drawn
        of_runs = counts if drawn is None else by_draw
        for of_run, (occupied, costs, _) in zip(thresholds, of_runs, strict=True):
            of_run.append(Threshold(key, max(rest, -1), over, drawn))
            rest -= int(costs[occupied == group * _BUCKETS + last].sum()) if rest >= 0 else 0
    return thresholds


def _bucket(histogram: NDArray[np.int64], budget: int) -> tuple[int | None, int]:
    """The first bucket that does not fit completely, and the budget left for it."""
    total = np.cumsum(histogram)
    bucket = int(np.searchsorted(total, budget, side="right"))
    if bucket == len(total):
        return None, budget - int(total[-1])
    return bucket, budget - (int(total[bucket - 1]) if bucket else 0)


class Selector:
    """Marks the selected segments; must see the parts in order, as ties fill the budget."""

    def __init__(self, threshold: Threshold) -> None:
        self._draw = threshold.draw
        self._key = np.float32(threshold.key)
        self._left = threshold.budget
        self._over = threshold.over
        self._open = True

    @property
    def rest(self) -> Threshold:
        """The threshold for the parts that follow."""
        left = self._left if self._open else -1
        return Threshold(float(self._key), left, self._over, self._draw)

    def select(
        self, keys: NDArray[np.float32], costs: NDArray[np.int64], draws: NDArray[np.uint16]
    ) -> NDArray[np.bool_]:
        """Mark the selected segments of the next part; bool [n]."""
        selected = keys > self._key
        last = keys == self._key
        if self._draw is not None:
            selected |= last & (draws < self._draw)
            last &= draws == self._draw
        ties = np.flatnonzero(last)
        if len(ties) and self._open:
            running = np.cumsum(costs[ties])
            fit = int(np.searchsorted(running, self._left, side="right"))
            if self._over and fit < len(ties) and self._left > (running[fit - 1] if fit else 0):
                fit += 1
            self._left -= int(running[fit - 1]) if fit else 0
            selected[ties[:fit]] = True
            self._open = fit == len(ties) and self._left >= 0
        return selected
