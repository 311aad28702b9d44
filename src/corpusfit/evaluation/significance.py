"""Significance of a difference: intervals, paired tests, Holm's correction, and verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.evaluation.resampling import (
    ROUNDING,
    Metric,
    bootstrap_scores,
    p_items,
    percentile_interval,
    stack_tallies,
)
from corpusfit.evaluation.tables import POINTS, Mark

LEVEL = 0.05


@dataclass(frozen=True)
class Comparison:
    """Comparison of two models on the same examples; of every score higher is better.

    Attributes:
        difference: difference of the mean scores over seeds; positive if ours is better.
        sd: standard deviation of the differences over seeds (n - 1); None with one seed.
        low: lower end of the difference's 95 % interval over seeds and examples.
        high: upper end of that interval.
        p_seeds: two-sided p-value of a paired t-test over seeds; None with one seed.
        p_items: two-sided p-value of paired approximate randomisation over examples.
        p: the larger p-value.
        seeds: number of seeds that both models have; others are ignored.
        examples: number of examples.
    """

    difference: float
    sd: float | None
    low: float
    high: float
    p_seeds: float | None
    p_items: float
    p: float
    seeds: int
    examples: int


@dataclass(frozen=True)
class Correlation:
    """Correlation of two variables.

    Attributes:
        n: number of observations.
        pearson: Pearson's r.
        pearson_p: two-sided p-value, assuming normality.
        spearman: Spearman's rho.
        spearman_p: two-sided p-value of permutations: all for up to 7 observations, 9,999 random
            ones above.
    """

    n: int
    pearson: float
    pearson_p: float
    spearman: float
    spearman_p: float


def spread(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and standard deviation (n - 1); the latter is None for one value."""
    mean = float(np.mean(values))
    return mean, float(np.std(values, ddof=1)) if len(values) > 1 else None


def paired_difference(ours: Sequence[float], base: Sequence[float]) -> tuple[float, float, float]:
    """Mean of the paired differences, and its 95 % interval by Student's t."""
    from scipy import stats

    low, high = stats.ttest_rel(ours, base).confidence_interval(1 - LEVEL)
    return float(np.mean(np.subtract(ours, base))), float(low), float(high)


def average_gain(
    ours: Sequence[Sequence[float]], base: Sequence[Sequence[float]]
) -> tuple[float, float | None]:
    """Mean gain over several tasks, and its standard deviation over seeds.

    Gains are averaged over tasks first, so the deviation is over seeds and not over tasks, as in
    the last row of TADPOLE's Table 3.
    """
    seeds = min(len(scores) for scores in (*ours, *base))
    gains = [np.subtract(a[:seeds], b[:seeds]) for a, b in zip(ours, base, strict=True)]
    return spread(np.mean(gains, axis=0).tolist())


def interval(
    tallies_by_seed: Sequence[NDArray[Any]],
    metric: Metric,
    *,
    seed: int,
    rounds: int = 2_000,
    level: float = 1 - LEVEL,
) -> tuple[float, float]:
    """Bootstrap percentile interval of the mean score over seeds.

    Each round draws seeds and examples, the same examples for all seeds; with one seed, examples
    alone.

    Reference: Koehn (2004), Berg-Kirkpatrick et al. (2012).
    """
    rng = np.random.default_rng(seed)
    drawn = bootstrap_scores(stack_tallies(tallies_by_seed), metric, rng, rounds)
    return percentile_interval(drawn, rng, level)


def compare(
    ours: Sequence[NDArray[Any]],
    base: Sequence[NDArray[Any]],
    metric: Metric,
    *,
    seed: int,
    rounds: int = 10_000,
) -> Comparison:
    """Compare two models.

    Seeds are paired in order; further seeds of one model are ignored. A gain must hold over seeds
    and over examples, so the larger p-value counts (intersection-union test; Berger 1982). It finds
    less than either test alone. Each test takes the other's randomness as fixed, so p is below 0.05
    in up to 8 % of simulated pairs without a difference; the interval covers both and missed the
    true difference in up to 4 % of them.

    Reference: approximate randomisation: Yeh (2000), Riezler and Maxwell (2005); practice: Dror et
    al. (2018).
    """
    seeds = min(len(ours), len(base))
    both = stack_tallies([*ours[:seeds], *base[:seeds]])
    scores = metric(both.sum(0, dtype=np.float64))
    differences = scores[:seeds] - scores[seeds:]
    mean, sd = spread(differences.tolist())
    draws, sides = np.random.default_rng(seed).spawn(2)
    drawn = bootstrap_scores(both, metric, draws, rounds)
    low, high = percentile_interval(drawn[:, :seeds] - drawn[:, seeds:], draws, 1 - LEVEL)
    p_seeds = _p_seeds(differences)
    of_items = p_items(both[:, :seeds], both[:, seeds:], metric, sides, rounds)
    p = of_items if p_seeds is None else max(p_seeds, of_items)
    return Comparison(mean, sd, low, high, p_seeds, of_items, p, seeds, len(both))


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """p-values after Holm's correction (Holm 1979); None stands for no test and stays None."""
    found: list[float | None] = list(ps)
    tested = sorted((p, place) for place, p in enumerate(ps) if p is not None)
    largest = 0.0
    for rank, (p, place) in enumerate(tested):
        largest = max(largest, min(1.0, (len(tested) - rank) * p))
        found[place] = largest
    return found


def mark(comparison: Comparison, adjusted: float, *, level: float = LEVEL) -> Mark:
    """`*` for better, `†` for worse, empty if the corrected p is not below the level."""
    if adjusted >= level or not comparison.difference:
        return ""
    return "*" if comparison.difference > 0 else "†"


def finding(
    comparison: Comparison, adjusted: float, *, level: float = LEVEL, unit: str = POINTS
) -> str:
    """The result of a comparison in words."""
    if unit == POINTS:
        points = 100 * comparison.difference
        size = f"{points:+.1f}" if abs(points) >= 0.05 else f"{points:+.2f}"
    else:
        size = f"{comparison.difference:+.4f}"
    p = "p < 0.001" if adjusted < 0.001 else f"p = {adjusted:.{2 if adjusted >= 0.1 else 3}f}"
    words = {
        "*": f"better by {size[1:]} {unit} ({p})",
        "†": f"worse by {size[1:]} {unit} ({p})",
        "": f"no difference shown ({size} {unit}, {p})",
    }
    return words[mark(comparison, adjusted, level=level)]


def verdict(
    comparison: Comparison, adjusted: float, *, level: float = LEVEL, unit: str = POINTS
) -> str:
    """`finding` for fine-tunings, with a warning if there is only one seed."""
    words = finding(comparison, adjusted, level=level, unit=unit)
    if comparison.p_seeds is None:
        words += "; one seed only, variation over seeds unknown"
    return words


def correlation(x: Sequence[float], y: Sequence[float]) -> Correlation | None:
    """Pearson's and Spearman's correlation; None for fewer than 3 observations or a constant.

    TADPOLE's Figure 3 plots the loss on the task's text against the score.
    """
    from scipy import stats

    if len(x) < 3 or any(np.ptp(v) <= ROUNDING * np.abs(v).max() for v in (x, y)):
        return None
    linear = stats.pearsonr(x, y)
    shuffled = stats.PermutationMethod(n_resamples=9_999, rng=np.random.default_rng(0))
    ranks = stats.pearsonr(stats.rankdata(x), stats.rankdata(y), method=shuffled)
    figures = (linear.statistic, linear.pvalue, ranks.statistic, ranks.pvalue)
    return Correlation(len(x), *map(float, figures))


def _p_seeds(differences: NDArray[np.float64]) -> float | None:
    """Two-sided p-value of a paired t-test over seeds.

    If all differences are equal, as on a small test set, the t-test would give 0; the p-value is
    then that of a sign test, 2^(1 - seeds), or 1 if the differences are 0. Identical fine-tunings
    are not recognised as such.
    """
    if len(differences) < 2:
        return None
    if np.ptp(differences) <= ROUNDING:
        return 1.0 if abs(differences[0]) <= ROUNDING else float(2.0 ** (1 - len(differences)))
    from scipy import stats

    return float(stats.ttest_rel(differences, np.zeros_like(differences)).pvalue)
