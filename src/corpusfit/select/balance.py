"""Quotas: how much of an amount each group of segments gives.

What: shares an amount out over groups by their quotas; what a small group cannot fill goes to the
others in the proportion of theirs. Where segments are weighted, how much more or less each group's
count.
Why: the best scores of all may lie in one corner of what is wanted.
Trade-off: a quota is held by a segment's main group; its other shares count for weights alone.
Reference: Grangier et al. (2024), Task-Adaptive Pretrained Language Models via Clustered-Importance
Sampling, section 3, for clusters weighted by a target's histogram; water-filling.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def filled(quota: NDArray[np.float64], have: Sequence[int], amount: int) -> list[int]:
    """What is taken of each group, adding up to the amount or to all there is.

    Args:
        quota: float64 [k], 0 or more, adding up to one.
        have: what there is of each.
        amount: what is taken of all.
    """
    wanted = np.zeros(len(quota))
    room = np.asarray(have, np.float64)
    left = min(float(amount), float(room.sum()))
    while left > 0.5:
        open_ = room - wanted > 0
        share = np.where(open_, quota, 0.0)
        if not share.sum():  # only groups without a quota are left
            share = np.where(open_, room - wanted, 0.0)
        given = np.minimum(left * share / share.sum(), room - wanted)
        wanted += given
        left -= float(given.sum())
    whole = np.floor(wanted + 1e-9)
    total = min(int(amount), int(room.sum()))
    short = total - int(whole.sum())
    order = np.lexsort((np.arange(len(whole)), -(wanted - whole)))
    for place in [i for i in order if whole[i] < room[i]][:short]:
        whole[place] += 1
    return [int(n) for n in whole]


def ratios(quota: NDArray[np.float64], sums: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """How much more a segment of each group counts than one of the mean group, float64 [k].

    Args:
        quota: float64 [k].
        sums: float64 [k], the groups' shares of all segments added up; a group that is less than
            one segment counts as one.
        n: segments.
    """
    return np.asarray(quota / (np.maximum(sums, 1.0) / max(1, n)))
