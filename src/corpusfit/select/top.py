"""Take exactly the best, without holding the scores of the whole corpus.

What: finds the key of the last segment taken by counting keys in two passes of 65,536 buckets
(a radix selection over the bits of float32), then takes what lies above it and, among equals,
the first by position.
Why: a global top-k has to be exact and its memory may not grow with the corpus.
Trade-off: the keys are read three times instead of being sorted once.
Reference: radix select; TADPOLE, section 3.2 (the beta fraction of segments).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_BUCKETS = 1 << 16
Parts = Callable[[], Iterable[tuple[NDArray[np.float32], NDArray[np.int64]]]]
"""The keys of the corpus, part by part, with what each segment costs; read anew at each call."""
Grouped = Callable[[], Iterable[tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]]]
"""The same with each segment's group."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Where the taking ends.

    Attributes:
        key: the smallest key of which anything is taken; +inf when nothing is.
        budget: cost left for the segments with exactly that key, in order of position.
    """

    key: float
    budget: int


def _ordered(keys: NDArray[np.float32]) -> NDArray[np.uint32]:
    """Bits that sort as the floats do, largest first; -0.0 counts as 0.0."""
    bits = (keys.astype(np.float32) + np.float32(0)).view(np.uint32)
    ascending = np.where(bits >> 31, ~bits, bits | np.uint32(0x80000000))
    return np.asarray(~ascending, np.uint32)


def _key_of(ordered: int) -> float:
    ascending = ~np.uint32(ordered)
    bits = ascending & np.uint32(0x7FFFFFFF) if ascending >> 31 else ~ascending
    return float(np.array([bits], np.uint32).view(np.float32)[0])


def find_cut(parts: Parts, budget: int) -> Cut:
    """The cut that takes the best segments as long as their cost stays within the budget.

    The order is key from high to low, then position. Taking stops at the first segment that does
    not fit.

    Args:
        parts: finite keys and costs (1 each to count segments, tokens for a token budget).
        budget: cost that may be taken.
    """

    def grouped() -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]]:
        return ((keys, costs, np.zeros(len(keys), np.int64)) for keys, costs in parts())

    return find_cuts(grouped, [budget])[0]


def find_cuts(parts: Grouped, budgets: Sequence[int]) -> list[Cut]:
    """A cut for each of g groups of segments, by the same two passes for all.

    Args:
        parts: as for `find_cut`, with each segment's group, int64 [n].
        budgets: cost that may be taken of each group.
    """
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
    cuts = []
    for (place, left), own in zip(found, second, strict=True):
        if place is None:
            cuts.append(Cut(-np.inf, left))
            continue
        low, rest = _bucket(own, left)
        cuts.append(Cut(_key_of((place << 16) | (low or 0)), rest))
    return cuts


def _bucket(histogram: NDArray[np.int64], budget: int) -> tuple[int | None, int]:
    """The first bucket that does not fit whole, and the budget left for it."""
    total = np.cumsum(histogram)
    place = int(np.searchsorted(total, budget, side="right"))
    if place == len(total):
        return None, budget - int(total[-1])
    return place, budget - (int(total[place - 1]) if place else 0)


class Taker:
    """Walks the parts in order and marks what a cut takes."""

    def __init__(self, cut: Cut) -> None:
        self._key = np.float32(cut.key)
        self._left = cut.budget
        self._open = True

    def take(self, keys: NDArray[np.float32], costs: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Mark which of the next part's segments are taken; bool [n]."""
        taken = keys > self._key
        ties = np.flatnonzero(keys == self._key)
        if len(ties) and self._open:
            running = np.cumsum(costs[ties])
            fit = int(np.searchsorted(running, self._left, side="right"))
            taken[ties[:fit]] = True
            self._open = fit == len(ties)
            self._left -= int(running[fit - 1]) if fit else 0
        return taken
