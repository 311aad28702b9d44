"""Pearson correlation within groups, tested by permutation."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from corpusfit.evaluation.resampling import ROUNDING

ROUNDS = 9_999


@dataclass(frozen=True)
class Within:
    """Correlation of two variables within groups (partial, given the group).

    Attributes:
        n: number of observations.
        groups: number of groups.
        pearson: Pearson's r of the deviations from group means.
        p: two-sided p-value of 9,999 random permutations within groups.
    """

    n: int
    groups: int
    pearson: float
    p: float


def correlation_within(
    groups: Sequence[Hashable], x: Sequence[float], y: Sequence[float]
) -> Within | None:
    """Pearson's correlation within groups; None for too few or constant values.

    Values of several tasks correlate as soon as the tasks differ in both, so group means are
    subtracted and values are permuted within groups. p is at least 0.0001.

    Reference: Simpson (1951), The Interpretation of Interaction in Contingency Tables; Phipson and
    Smyth (2010) for the p-value.
    """
    places: dict[Hashable, list[int]] = {}
    for place, group in enumerate(groups):
        places.setdefault(group, []).append(place)
    own = [np.asarray(found) for found in places.values() if len(found) > 1]
    n = sum(map(len, own))
    if n - len(own) < 2:
        return None
    centred = [
        [np.asarray(v, float)[at] - np.mean(np.asarray(v)[at]) for at in own] for v in (x, y)
    ]
    first, second = map(np.concatenate, centred)
    scale = float(np.sqrt((first @ first) * (second @ second)))
    if any(np.abs(v).max() <= ROUNDING for v in (first, second)):
        return None
    rng = np.random.default_rng(0)
    permuted = sum(
        rng.permuted(np.tile(b, (ROUNDS, 1)), axis=1) @ a for a, b in zip(*centred, strict=True)
    )
    observed = float(first @ second)
    as_large = int(np.sum(np.abs(permuted) >= abs(observed) - ROUNDING * scale))
    return Within(n, len(own), observed / scale, (1 + as_large) / (1 + ROUNDS))
