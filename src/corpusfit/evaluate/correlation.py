"""Whether two figures go together within groups, and not only because the groups differ.

What: Pearson's correlation of what is left beside each group's mean, tested by permutations within
the groups.
Why: figures of several tasks go together as soon as the tasks differ in both.
Trade-off: p is of drawn permutations, so 0.0001 at least, and more where groups are small.
Reference: Simpson (1951), The Interpretation of Interaction in Contingency Tables; Phipson and
Smyth (2010) for the p.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from corpusfit.evaluate.resampling import SAME

ROUNDS = 9_999


@dataclass(frozen=True)
class Within:
    """How two figures of things go together within groups (partial, given the group).

    Attributes:
        n: how many things.
        groups: how many groups they are of.
        pearson: of what is left of the figures beside their group's means.
        p: two-sided, of 9,999 drawn permutations within the groups.
    """

    n: int
    groups: int
    pearson: float
    p: float


def correlation_within(
    groups: Sequence[Hashable], x: Sequence[float], y: Sequence[float]
) -> Within | None:
    """Pearson's correlation within groups; None where they leave nothing to go together.

    Figures of several tasks go together as soon as the tasks differ in both, so each
    group's mean is taken off, and chance is what else could have stood where in the same group.

    Args:
        groups: of each thing; one that is alone in its group is left out.
        x: one figure of each thing, finite.
        y: the other, in the same order.
    """
    places: dict[Hashable, list[int]] = {}
    for place, group in enumerate(groups):
        places.setdefault(group, []).append(place)
    own = [np.asarray(found) for found in places.values() if len(found) > 1]
    n = sum(map(len, own))
    if n - len(own) < 2:
        return None
    left = [[np.asarray(v, float)[at] - np.mean(np.asarray(v)[at]) for at in own] for v in (x, y)]
    ours, theirs = map(np.concatenate, left)
    scale = float(np.sqrt((ours @ ours) * (theirs @ theirs)))
    if any(np.abs(v).max() <= SAME for v in (ours, theirs)):
        return None
    chance = np.random.default_rng(0)
    drawn = sum(
        chance.permuted(np.tile(b, (ROUNDS, 1)), axis=1) @ a for a, b in zip(*left, strict=True)
    )
    found = float(ours @ theirs)
    as_much = int(np.sum(np.abs(drawn) >= abs(found) - SAME * scale))
    return Within(n, len(own), found / scale, (1 + as_much) / (1 + ROUNDS))
