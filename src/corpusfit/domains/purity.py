"""Purity and confusion of clusters against known domains."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def confusion(clusters: Ints, domains: Ints, k: int, t: int) -> Ints:
    """The number of texts of each domain in each cluster: int64 [k, t]."""
    return np.bincount(clusters * t + domains, minlength=k * t).reshape(k, t)


def majority(counts: Ints) -> Ints:
    """The most frequent domain of each cluster, int64 [k]; the first of equals."""
    return np.asarray(counts.argmax(axis=1), np.int64)


def purity(counts: Ints) -> float:
    """The fraction of texts whose domain is the most frequent one of their cluster.

    More clusters are purer, so purities are comparable only at the same k.

    Reference: Manning, Raghavan and Schütze (2008), section 16.3; Aharoni and Goldberg (2020),
    sections 2.4 and 2.6, Figure 2.
    """
    return float(counts.max(axis=1).sum() / max(1, counts.sum()))
