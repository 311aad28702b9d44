"""Correlations of what is known before a training with what it gains, with p by permutations."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from corpusfit.evaluation.significance import ROUNDING

ROUNDS = 9_999


@dataclass(frozen=True)
class Correlation:
    """Correlation of two variables."""

    n: int  # number of observations
    pearson: float  # Pearson's r
    pearson_p: float  # two-sided p-value, assuming normality
    spearman: float  # Spearman's rho
    # two-sided p-value of permutations: all for up to 7 observations, 9,999 random ones above
    spearman_p: float


def correlation(x: Sequence[float], y: Sequence[float]) -> Correlation | None:
    """Pearson's and Spearman's correlation; None for fewer than 3 observations or a constant."""
    # TADPOLE's Figure 3 plots the loss on the task's text against the score.
    from scipy import stats

    if len(x) < 3 or any(np.ptp(v) <= ROUNDING * np.abs(v).max() for v in (x, y)):
        return None
    linear = stats.pearsonr(x, y)
    shuffled = stats.PermutationMethod(n_resamples=9_999, rng=np.random.default_rng(0))
    ranks = stats.pearsonr(stats.rankdata(x), stats.rankdata(y), method=shuffled)
    figures = (linear.statistic, linear.pvalue, ranks.statistic, ranks.pvalue)
    return Correlation(len(x), *map(float, figures))


@dataclass(frozen=True)
class Within:
    """Correlation of two variables within groups (partial, given the group)."""

    n: int  # number of observations
    groups: int  # number of groups
    pearson: float  # Pearson's r of the deviations from group means
    p: float  # two-sided p-value of 9,999 random permutations within groups


def correlation_within(
    groups: Sequence[Hashable], x: Sequence[float], y: Sequence[float]
) -> Within | None:
    """Pearson's correlation within groups; None for too few or constant values.

    Reference: Simpson (1951), The Interpretation of Interaction in Contingency Tables; Phipson and
    Smyth (2010) for the p-value.
    """
    # Values of several tasks correlate as soon as the tasks differ in both, so group means are
    # subtracted and values are permuted within groups. p is at least 0.0001.
    places: dict[Hashable, list[int]] = {}
    for index, group in enumerate(groups):
        places.setdefault(group, []).append(index)
    members = [np.asarray(indices) for indices in places.values() if len(indices) > 1]
    n = sum(map(len, members))
    if n - len(members) < 2:
        return None
    centered = [
        [np.asarray(v, float)[at] - np.mean(np.asarray(v)[at]) for at in members] for v in (x, y)
    ]
    first, second = map(np.concatenate, centered)
    scale = float(np.sqrt((first @ first) * (second @ second)))
    if any(np.abs(v).max() <= ROUNDING for v in (first, second)):
        return None
    rng = np.random.default_rng(0)
    permuted = sum(
        rng.permuted(np.tile(b, (ROUNDS, 1)), axis=1) @ a for a, b in zip(*centered, strict=True)
    )
    observed = float(first @ second)
    as_large = int(np.sum(np.abs(permuted) >= abs(observed) - ROUNDING * scale))
    return Within(n, len(members), observed / scale, (1 + as_large) / (1 + ROUNDS))
