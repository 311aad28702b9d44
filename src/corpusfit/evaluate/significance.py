"""Whether a difference is one: spread over seeds, intervals, paired tests, and words for them.

What: the mean and standard deviation that the papers' tables state, and what those tables lack: an
interval of the difference from the base model, a test over seeds, a test over examples, and a
correction for testing many models at once.
Why: eight fine-tunings of one model differ by points; a gain is believed only if it holds over
seeds *and* over examples, so the larger of both p-values counts. That is a test of "no gain over
seeds, or none over examples" at the level of each (intersection-union; Berger 1982).
Trade-off: the larger p finds less than either test does; and each test takes the other's chance as
given, so where both matter alike, p is below 0.05 in up to 8 % of simulated pairs without any
difference. The interval draws both at once and is wide: it missed the truth in 1 to 4 % of these.
Reference: TADPOLE, section 4.1 and Table 3. Bootstrap: Koehn (2004), Berg-Kirkpatrick et al.
(2012). Approximate randomisation: Yeh (2000), Riezler and Maxwell (2005); its p: Phipson and Smyth
(2010). Practice: Dror et al. (2018). Many tests: Holm (1979).

All sums of counts are exact, so every figure is a function of the answers and the seed alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.errors import MissingDependencyError
from corpusfit.evaluate.metrics import metric as scored
from corpusfit.evaluate.tables import Mark

__all__ = [
    "Comparison",
    "Correlation",
    "average_gain",
    "compare",
    "correlation",
    "holm",
    "interval",
    "mark",
    "spread",
    "verdict",
]

LEVEL = 0.05
ROUNDS = 10_000
BLOCK_BYTES = 2**24
SAME = 1e-12
"""Scores that differ by less are equal: the rest is rounding."""


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
    drawn = _redrawn(_side_by_side(tallies_by_seed), metric, chance, rounds)
    return _percentiles(drawn, chance, level)


def compare(
    ours: Sequence[NDArray[np.int64]],
    base: Sequence[NDArray[np.int64]],
    metric: str,
    *,
    seed: int,
    rounds: int = ROUNDS,
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
    both = _side_by_side([*ours[:seeds], *base[:seeds]])
    scores = scored(metric, both.sum(0, dtype=np.float64))
    differences = scores[:seeds] - scores[seeds:]
    mean, sd = spread(differences.tolist())
    draws, sides = np.random.default_rng(seed).spawn(2)
    drawn = _redrawn(both, metric, draws, rounds)
    low, high = _percentiles(drawn[:, :seeds] - drawn[:, seeds:], draws, 1 - LEVEL)
    p_seeds = _p_seeds(differences)
    p_items = _p_items(both[:, :seeds], both[:, seeds:], metric, sides, rounds)
    p = p_items if p_seeds is None else max(p_seeds, p_items)
    return Comparison(mean, sd, low, high, p_seeds, p_items, p, seeds, len(both))


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


def verdict(comparison: Comparison, adjusted: float, *, level: float = LEVEL) -> str:
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
    }[mark(comparison, adjusted, level=level)]
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


def _p_items(
    ours: NDArray[Any],
    base: NDArray[Any],
    metric: str,
    chance: np.random.Generator,
    rounds: int,
) -> float:
    """Two-sided p of paired approximate randomisation over examples.

    If both models were alike, an example's answers could as well be the other model's. So in each
    round half of the examples, by chance, change sides, in all seeds at once.

    Args:
        ours: numbers [n, seeds, 3, C].
        base: the same of the other model.
        metric: a name of `plan.METRICS`.
        chance: what is drawn from.
        rounds: how often.
    """
    totals = [side.sum(0, dtype=np.float64) for side in (ours, base)]
    observed = abs(float((scored(metric, totals[0]) - scored(metric, totals[1])).mean()))
    rows = (base - ours).reshape(len(ours), -1)
    rows = rows[rows.any(axis=1)]  # where both answered alike, changing sides changes nothing
    as_large = 0
    for block in _blocks(rounds, len(rows)):
        sides = chance.integers(0, 2, (block, len(rows)), np.uint8).astype(rows.dtype)
        moved = (sides @ rows).astype(np.float64).reshape(block, *ours.shape[1:])
        drawn = scored(metric, totals[0] + moved) - scored(metric, totals[1] - moved)
        as_large += int(np.count_nonzero(np.abs(drawn.mean(1)) >= observed - SAME))
    return (as_large + 1) / (rounds + 1)


def _redrawn(
    counts: NDArray[Any], metric: str, chance: np.random.Generator, rounds: int
) -> NDArray[np.float64]:
    """float64 [rounds, columns]: scores of as many examples, drawn with replacement.

    Args:
        counts: numbers [n, columns, 3, C]; the columns are judged on the same draws.
        metric: a name of `plan.METRICS`.
        chance: what is drawn from.
        rounds: how often.
    """
    n = len(counts)
    rows = counts.reshape(n, -1)
    found = []
    for block in _blocks(rounds, n):
        places = chance.integers(0, n, (block, n))
        places += np.arange(block)[:, None] * n
        times = np.bincount(places.ravel(), minlength=block * n).reshape(block, n)
        sums = (times.astype(rows.dtype) @ rows).astype(np.float64)
        found.append(scored(metric, sums.reshape(block, *counts.shape[1:])))
    return np.concatenate(found)


def _percentiles(
    drawn: NDArray[np.float64], chance: np.random.Generator, level: float
) -> tuple[float, float]:
    """The ends that hold the middle `level` of means over seeds, drawn with replacement."""
    seeds = chance.integers(0, drawn.shape[1], drawn.shape)
    means = np.take_along_axis(drawn, seeds, axis=1).mean(1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _side_by_side(tallies: Sequence[NDArray[np.int64]]) -> NDArray[Any]:
    """[n, columns, 3, C]: counts as floats whose sums are exact, half as wide if that will do."""
    most = max(int(counts.max(initial=0)) * len(counts) for counts in tallies)
    kind = np.float32 if most < 2**24 else np.float64
    found: NDArray[Any] = np.stack(tallies, axis=1, dtype=kind, casting="unsafe")
    if (found[:, :, 2] != found[:, :1, 2]).any():
        raise ValueError("the tallies are not of the same examples")
    return found


def _blocks(rounds: int, n: int) -> Iterator[int]:
    """Rounds in blocks whose draws fit into bounded memory."""
    most = max(1, BLOCK_BYTES // (8 * max(1, n)))
    for start in range(0, rounds, most):
        yield min(most, rounds - start)


def _stats() -> Any:
    try:
        from scipy import stats
    except ImportError as e:
        raise MissingDependencyError("Testing a difference", "train") from e
    return stats
