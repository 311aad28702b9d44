"""Clusters held against known domains: purity and confusion.

What: names each cluster by its commonest domain and counts how many texts that is right for.
Why: where sources are known, clusters that agree with them are to be trusted where they are not.
Trade-off: more clusters are purer, whatever they are; so figures are compared at one k, and with a
random assignment.
Reference: Manning, Raghavan and Schütze (2008), section 16.3; Aharoni and Goldberg (2020),
sections 2.4 and 2.6, Figure 2.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def confusion(clusters: Ints, domains: Ints, k: int, t: int) -> Ints:
    """How many texts of each domain are in each cluster: int64 [k, t], from numbers [n] of each."""
    return np.bincount(clusters * t + domains, minlength=k * t).reshape(k, t)


def majority(counts: Ints) -> Ints:
    """The commonest domain of each cluster, int64 [k]; of equals, the first."""
    return np.asarray(counts.argmax(axis=1), np.int64)


def purity(counts: Ints) -> float:
    """The share of texts whose domain is their cluster's commonest, from `confusion`."""
    return float(counts.max(axis=1).sum() / max(1, counts.sum()))
