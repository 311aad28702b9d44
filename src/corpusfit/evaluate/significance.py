"""Whether a difference is one: spread over seeds, intervals, paired tests, and words for them.

What: the mean and standard deviation that the papers' tables state, and what those tables lack: an
interval of the difference from the base model, a test over seeds, a test over examples, and a
correction for testing many models at once.
Why: eight fine-tunings of one model differ by points; a gain is believed only if it holds over
seeds *and* over examples, so the larger of both p-values counts. That is a test of "no gain over
seeds, or none over examples" at the level of each (intersection-union; Berger 1982).
Trade-off: the larger p finds less than either test does; and each test takes the other's chance as
given, so where both matter alike, p is below 0.05 in up to 8 % of simulated pairs without any
difference. The interval draws both at once and is wide: it missed the truth in up to 4 % of these.
Reference: TADPOLE, section 4.1 and Table 3. Bootstrap: Koehn (2004), Berg-Kirkpatrick et al.
(2012). Approximate randomisation: Yeh (2000), Riezler and Maxwell (2005); its p: Phipson and Smyth
(2010). Practice: Dror et al. (2018). Many tests: Holm (1979).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.errors import MissingDependencyError
from corpusfit.evaluate.metrics import metric as scored
from corpusfit.evaluate.resampling import SAME, p_items, percentiles, redrawn, side_by_side
from corpusfit.evaluate.tables import Mark

LEVEL = 0.05


@dataclass(frozen=True)
class Comparison:
    """One model against another on the same examples; scores are in [0, 1].

    Attributes:
        difference: of the mean scores over seeds; above 0 where ours is better.
        sd: of the differences over seeds (n - 1); None with one seed.
        low: lower end of the difference's 95 % interval over seeds and examples.
        high: its upper end.
        p_seeds: two-sided, of a paired t-test over seeds; None with one seed.
        p_items: two-sided, of paired approximate randomisation over examples.
        p: the larger of both.
        seeds: how many seeds both have; what else one of them has was left out.
        examples: how many examples both answered.
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
    """How two figures of n things go together.

    Attributes:
        n: how many things.
        pearson: of the figures.
        pearson_p: two-sided, if both were normal.
        spearman: of their ranks.
        spearman_p: two-sided, of permutations: of all up to 7 things, of 9,999 drawn ones above.
    """

    n: int
    pearson: float
    pearson_p: float
    spearman: float
    spearman_p: float


def spread(values: Sequence[float]) -> tuple[float, float | None]:
    """The mean, and the standard deviation with n - 1; None for that of one value."""
    mean = float(np.mean(values))
    return mean, float(np.std(values, ddof=1)) if len(values) > 1 else None


def average_gain(
    ours: Sequence[Sequence[float]], base: Sequence[Sequence[float]]
) -> tuple[float, float | None]:
    """The mean gain over base of several tasks, and its standard deviation over seeds.

    The gains of a seed are averaged over tasks first, so the deviation is that of the last row of
    TADPOLE's Table 3 and not that between tasks.

    Args:
        ours: the scores of each task by seed; seeds that not every task has in both are left out.
        base: those of the base model, tasks and seeds in the same order.
    """
    seeds = min(len(scores) for scores in (*ours, *base))
    gains = [np.subtract(a[:seeds], b[:seeds]) for a, b in zip(ours, base, strict=True)]
    return spread(np.mean(gains, axis=0).tolist())


def interval(
    tallies_by_seed: Sequence[NDArray[np.int64]],
    metric: str,
    *,
    seed: int,
    rounds: int = 2_000,
    level: float = 1 - LEVEL,
) -> tuple[float, float]:
    """A bootstrap interval of the mean score over seeds.

    Each round draws seeds and draws examples, the same examples in all seeds; the ends are
    percentiles of the rounds. With one seed it is over examples alone.

    Args:
        tallies_by_seed: int64 [n, 3, C] for each seed, as `metrics.tallies` gives them.
        metric: a name of `plan.METRICS`.
        seed: the only source of chance.
        rounds: how often the score is drawn anew.
        level: the share of rounds between the ends.

    Raises:
        ValueError: the tallies are not of the same examples.
    """
    chance = np.random.default_rng(seed)
    drawn = redrawn(side_by_side(tallies_by_seed), metric, chance, rounds)
    return percentiles(drawn, chance, level)


def compare(
    ours: Sequence[NDArray[np.int64]],
    base: Sequence[NDArray[np.int64]],
    metric: str,
    *,
    seed: int,
    rounds: int = 10_000,
) -> Comparison:
    """Hold one model against another.

    Seeds are paired in the order given; where one model has more, its later ones are left out.

    Args:
        ours: int64 [n, 3, C] for each seed, as `metrics.tallies` gives them; one seed at least.
        base: the same of the other model, on the same examples in the same order.
        metric: a name of `plan.METRICS`.
        seed: the only source of chance.
        rounds: of the bootstrap, and of the randomisation, whose p is 1 / (rounds + 1) at least.

    Raises:
        ValueError: the tallies are not of the same examples.
        MissingDependencyError: there are several seeds and scipy is not installed.
    """
    seeds = min(len(ours), len(base))
    both = side_by_side([*ours[:seeds], *base[:seeds]])
    scores = scored(metric, both.sum(0, dtype=np.float64))
    differences = scores[:seeds] - scores[seeds:]
    mean, sd = spread(differences.tolist())
    draws, sides = np.random.default_rng(seed).spawn(2)
    drawn = redrawn(both, metric, draws, rounds)
    low, high = percentiles(drawn[:, :seeds] - drawn[:, seeds:], draws, 1 - LEVEL)
    p_seeds = _p_seeds(differences)
    of_items = p_items(both[:, :seeds], both[:, seeds:], metric, sides, rounds)
    p = of_items if p_seeds is None else max(p_seeds, of_items)
    return Comparison(mean, sd, low, high, p_seeds, of_items, p, seeds, len(both))


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """p-values after Holm's correction for all of them; None is no test and stays None."""
    found: list[float | None] = list(ps)
    tested = sorted((p, place) for place, p in enumerate(ps) if p is not None)
    largest = 0.0
    for rank, (p, place) in enumerate(tested):
        largest = max(largest, min(1.0, (len(tested) - rank) * p))
        found[place] = largest
    return found


def mark(comparison: Comparison, adjusted: float, *, level: float = LEVEL) -> Mark:
    """`*` for better, `†` for worse, nothing where p after correction is not below the level."""
    if adjusted >= level or not comparison.difference:
        return ""
    return "*" if comparison.difference > 0 else "†"


def finding(comparison: Comparison, adjusted: float, *, level: float = LEVEL) -> str:
    """What a comparison shows, in words and points (hundredths of the score).

    Args:
        comparison: of a model with its base.
        adjusted: its p after correction.
        level: what p has to be below to show a difference.
    """
    points = 100 * comparison.difference
    size = f"{points:+.1f}" if abs(points) >= 0.05 else f"{points:+.2f}"
    p = "p < 0.001" if adjusted < 0.001 else f"p = {adjusted:.{2 if adjusted >= 0.1 else 3}f}"
    words = {
        "*": f"better by {size[1:]} points ({p})",
        "†": f"worse by {size[1:]} points ({p})",
        "": f"no difference shown ({size} points, {p})",
    }
    return words[mark(comparison, adjusted, level=level)]


def verdict(comparison: Comparison, adjusted: float, *, level: float = LEVEL) -> str:
    """As `finding`, of fine-tunings: one seed of each is said to be too few."""
    words = finding(comparison, adjusted, level=level)
    if comparison.p_seeds is None:
        words += "; one seed shows nothing about other seeds"
    return words


def correlation(x: Sequence[float], y: Sequence[float]) -> Correlation | None:
    """Pearson's and Spearman's correlation; None for fewer than 3 things, or if all are equal.

    TADPOLE's Figure 3 draws the loss on the task's text against the score.

    Args:
        x: one figure of each thing, finite.
        y: the other, in the same order.

    Raises:
        MissingDependencyError: scipy is not installed.
    """
    stats = _stats()
    if len(x) < 3 or any(np.ptp(v) <= SAME * np.abs(v).max() for v in (x, y)):
        return None
    linear = stats.pearsonr(x, y)
    shuffled = stats.PermutationMethod(n_resamples=9_999, rng=np.random.default_rng(0))
    ranks = stats.pearsonr(stats.rankdata(x), stats.rankdata(y), method=shuffled)
    figures = (linear.statistic, linear.pvalue, ranks.statistic, ranks.pvalue)
    return Correlation(len(x), *map(float, figures))


def _p_seeds(differences: NDArray[np.float64]) -> float | None:
    """Two-sided p of a paired t-test over seeds.

    Where all differences are equal the t-test has no scale, and would say 0 of two seeds that
    happen to agree, as they do on a small test set. Then it is the sign test's, 2^(1 - seeds); and
    1 if they are 0. Fine-tunings that are copies of one another cannot be told from such.
    """
    if len(differences) < 2:
        return None
    if np.ptp(differences) <= SAME:
        return 1.0 if abs(differences[0]) <= SAME else float(2.0 ** (1 - len(differences)))
    return float(_stats().ttest_rel(differences, np.zeros_like(differences)).pvalue)


def _stats() -> Any:
    try:
        from scipy import stats
    except ImportError as e:
        raise MissingDependencyError("Testing a difference", "train") from e
    return stats
