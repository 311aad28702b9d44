"""Quotas: share an amount of text out over groups of segments."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def allocate(quota: NDArray[np.float64], have: Sequence[int], amount: int) -> list[int]:
    """Allocate an amount to groups by their quotas.

    What a small group cannot fill goes to the others in proportion to their quotas (water-filling).
    A segment counts for its main group; its other shares count only for weights.

    Reference: Grangier et al. (2024), Task-Adaptive Pretrained Language Models via
    Clustered-Importance Sampling, section 3, for clusters weighted by a target's histogram.
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
    """Weight of each group's segments relative to the mean group, float64 [k]."""
    return np.asarray(quota / (np.maximum(sums, 1.0) / max(1, n)))
