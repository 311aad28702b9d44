"""Significance of differences: bootstrap, paired tests, Holm correction, verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.evaluation.points import POINTS, Mark

BLOCK_BYTES = 2**24
ROUNDING = 1e-12  # Smaller differences of scores are rounding errors
# A metric of sums of tallies, numbers [..., 3, k]; returns float64 [...].
Metric = Callable[[NDArray[Any]], NDArray[np.float64]]
LEVEL = 0.05


def stack_tallies(tallies: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """[n, columns, 3, k]: counts as float32 if their sums are exact in it, otherwise float64."""
    largest_sum = max(int(counts.max(initial=0)) * len(counts) for counts in tallies)
    counts = all(np.issubdtype(t.dtype, np.integer) for t in tallies)
    kind = np.float32 if counts and largest_sum < 2**24 else np.float64
    stacked: NDArray[Any] = np.stack(tallies, axis=1, dtype=kind, casting="unsafe")
    if (stacked[:, :, 2] != stacked[:, :1, 2]).any():
        raise ValueError("the tallies are of different examples")
    return stacked


def bootstrap_scores(
    counts: NDArray[Any], metric: Metric, rng: np.random.Generator, rounds: int
) -> NDArray[np.float64]:
    """float64 [rounds, columns]: scores of bootstrap samples of the examples.

    Reference: Koehn (2004), Berg-Kirkpatrick et al. (2012).
    """
    n = len(counts)
    rows = counts.reshape(n, -1)
    scores = []
    for block in _blocks(rounds, n):
        places = rng.integers(0, n, (block, n))
        places += np.arange(block)[:, None] * n
        times = np.bincount(places.ravel(), minlength=block * n).reshape(block, n)
        sums = (times.astype(rows.dtype) @ rows).astype(np.float64)
        scores.append(metric(sums.reshape(block, *counts.shape[1:])))
    return np.concatenate(scores)


def percentile_interval(
    resampled: NDArray[np.float64], rng: np.random.Generator
) -> tuple[float, float]:
    """95 % percentile interval of the mean over seeds, with seeds drawn with replacement."""
    seeds = rng.integers(0, resampled.shape[1], resampled.shape)
    means = np.take_along_axis(resampled, seeds, axis=1).mean(1)
    level = 1 - LEVEL
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def p_items(
    ours: NDArray[Any], base: NDArray[Any], metric: Metric, rng: np.random.Generator, rounds: int
) -> float:
    """Two-sided p-value of paired approximate randomization over examples.

    Reference: Yeh (2000), Riezler and Maxwell (2005); Phipson and Smyth (2010) for the p-value.
    """
    # Under the null hypothesis both models' predictions for an example are exchangeable, so each
    # round swaps a random half of the examples, in all seeds at once.
    totals = [side.sum(0, dtype=np.float64) for side in (ours, base)]
    observed = abs(float((metric(totals[0]) - metric(totals[1])).mean()))
    rows = (base - ours).reshape(len(ours), -1)
    rows = rows[rows.any(axis=1)]  # swapping equal predictions has no effect
    as_large = 0
    for block in _blocks(rounds, len(rows)):
        sides = rng.integers(0, 2, (block, len(rows)), np.uint8).astype(rows.dtype)
        moved = (sides @ rows).astype(np.float64).reshape(block, *ours.shape[1:])
        resampled = metric(totals[0] + moved) - metric(totals[1] - moved)
        as_large += int(np.count_nonzero(np.abs(resampled.mean(1)) >= observed - ROUNDING))
    return (as_large + 1) / (rounds + 1)


def _blocks(rounds: int, n: int) -> Iterator[int]:
    """Rounds in blocks of bounded memory."""
    size = max(1, BLOCK_BYTES // (8 * max(1, n)))
    for start in range(0, rounds, size):
        yield min(size, rounds - start)


@dataclass(frozen=True)
class Comparison:
    """Comparison of two models on the same examples; higher scores are better."""

    difference: float  # difference of the mean scores over seeds; positive if ours is better
    sd: float | None  # standard deviation of the differences over seeds (n - 1); None with one seed
    low: float  # lower end of the difference's 95 % interval over seeds and examples
    high: float  # upper end of that interval
    p_seeds: float | None  # two-sided p-value of a paired t-test over seeds; None with one seed
    p_items: float  # two-sided p-value of paired approximate randomization over examples
    p: float  # the larger p-value
    seeds: int  # number of seeds that both models share; others are ignored
    examples: int  # number of examples
    # true difference that such an evaluation shows in 8 of 10 cases; 0 if it is not known
    detectable: float = 0.0

    def finding(self, adjusted: float, *, unit: str = POINTS) -> str:
        """The result in words, with its interval and what could have been shown."""
        scale, digits = (100, 1) if unit == POINTS else (1, 4)
        mean = scale * self.difference
        size = f"{mean:+.{digits}f}"
        if unit == POINTS and abs(mean) < 0.05:
            size = f"{mean:+.2f}"
        ends = " to ".join(f"{scale * e:+.{digits}f}" for e in (self.low, self.high))
        p = "p < 0.001" if adjusted < 0.001 else f"p = {adjusted:.{2 if adjusted >= 0.1 else 3}f}"
        descriptions = {
            "*": f"better by {size[1:]} {unit} (95 % interval {ends}, {p})",
            "†": f"worse by {size[1:]} {unit} (95 % interval {ends}, {p})",
            "": f"no difference shown ({size} {unit}, 95 % interval {ends}, {p})",
        }
        text = descriptions[mark(self, adjusted)]
        if self.detectable and not mark(self, adjusted):
            text += f"; {scale * self.detectable:.{digits}f} would have been seen"
        return text


def spread(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and standard deviation (n - 1); the latter is None for one value."""
    mean = float(np.mean(values))
    return mean, float(np.std(values, ddof=1)) if len(values) > 1 else None


def interval(
    tallies_by_seed: Sequence[NDArray[Any]],
    metric: Metric,
    *,
    seed: int,
    rounds: int = 2_000,
) -> tuple[float, float]:
    """Bootstrap percentile interval of the mean score over seeds.

    Reference: Koehn (2004), Berg-Kirkpatrick et al. (2012).
    """
    # Each round draws seeds and examples, the same examples for all seeds; with one seed, examples
    # alone.
    rng = np.random.default_rng(seed)
    resampled = bootstrap_scores(stack_tallies(tallies_by_seed), metric, rng, rounds)
    return percentile_interval(resampled, rng)


def compare(
    ours: Sequence[NDArray[Any]],
    base: Sequence[NDArray[Any]],
    metric: Metric,
    *,
    seed: int,
    rounds: int = 10_000,
) -> Comparison:
    """Compare two models.

    Reference: approximate randomization: Yeh (2000), Riezler and Maxwell (2005); practice: Dror et
    al. (2018).
    """
    # Seeds are paired in order; further seeds of one model are ignored. A gain must hold over seeds
    # and over examples, so the larger p-value counts (intersection-union test; Berger 1982). It
    # finds less than either test alone. Each test takes the other's randomness as fixed, so p is
    # below 0.05 in up to 8 % of simulated pairs without a difference; the interval covers both and
    # missed the true difference in up to 4 % of them.
    seeds = min(len(ours), len(base))
    both = stack_tallies([*ours[:seeds], *base[:seeds]])
    scores = metric(both.sum(0, dtype=np.float64))
    differences = scores[:seeds] - scores[seeds:]
    mean, sd = spread(differences.tolist())
    # the bootstrap and the randomization draw from streams of their own
    draws, sides = np.random.default_rng(seed).spawn(2)
    resampled = bootstrap_scores(both, metric, draws, rounds)
    low, high = percentile_interval(resampled[:, :seeds] - resampled[:, seeds:], draws)
    p_seeds: float | None = None
    if seeds > 1 and np.ptp(differences) > ROUNDING:
        from scipy import stats

        p_seeds = float(stats.ttest_rel(differences, np.zeros_like(differences)).pvalue)
    elif seeds > 1:
        # If all differences are equal, as on a small test set, the t-test would give 0; the p-value
        # is then that of a sign test, or 1 if the differences are 0. Identical fine-tunings are not
        # recognized as such.
        p_seeds = 1.0 if abs(differences[0]) <= ROUNDING else float(2.0 ** (1 - seeds))
    of_items = p_items(both[:, :seeds], both[:, seeds:], metric, sides, rounds)
    # a gain must hold over seeds and over examples
    p = of_items if p_seeds is None else max(p_seeds, of_items)
    error = float((resampled[:, :seeds] - resampled[:, seeds:]).mean(1).std())
    could = difference(differences.tolist(), error, len(both)).detectable
    return Comparison(mean, sd, low, high, p_seeds, of_items, p, seeds, len(both), could)


@dataclass(frozen=True)
class Difference:
    """The mean difference of paired replicates, and what it could have shown."""

    mean: float  # positive if ours is better
    low: float  # 95 % interval
    high: float
    detectable: float  # true difference that such an experiment shows in 8 of 10 cases
    # standard errors of the mean, over replicates and over test examples
    over_replicates: float
    over_examples: float

    @property
    def shown(self) -> int:
        """1 if ours is shown better, -1 if worse, 0 if no difference is shown."""
        return int(self.low > 0) - int(self.high < 0)


def difference(replicates: Sequence[float], error: float = 0.0, examples: int = 0) -> Difference:
    """The difference of two models by its values in independent replicates (trainings).

    Args:
        replicates: differences of the scores, one for each replicate; of a single one, only the
            error over examples is known.
        error: standard error of their mean over test examples, which all replicates share.
        examples: number of test examples.

    Reference: Satterthwaite (1946), degrees of freedom of a sum of variances.
    """
    # Replicates differ by training and by the text that was drawn; the test examples are the same
    # in all of them, so their sampling error does not fall with the number of replicates and is
    # added. Student's t has the heavy tails that an interval of three replicates needs.
    from scipy import stats

    mean, sd = spread(list(replicates))
    if examples and error <= ROUNDING:
        # All examples differ alike. With one more that does not, three of three show nothing and
        # six of six a difference, as by a sign test.
        error = abs(mean) * examples**0.5 / (examples + 1)
    of_replicates = (sd or 0.0) ** 2 / len(replicates)
    of_examples = error**2
    variance = of_replicates + of_examples
    squares = of_replicates**2 / max(1, len(replicates) - 1)
    squares += of_examples**2 / max(1, examples - 1)
    freedom = variance**2 / squares if squares else 1.0
    width = float(stats.t.ppf(1 - LEVEL / 2, freedom)) * variance**0.5
    power = float(stats.t.ppf(0.8, freedom)) * variance**0.5
    errors = of_replicates**0.5, error
    return Difference(mean, mean - width, mean + width, width + power, *errors)


def scored_difference(
    ours: Sequence[NDArray[Any]], base: Sequence[NDArray[Any]], metric: Metric, *, seed: int
) -> Difference:
    """`difference` of two models by the tallies of their replicates on the same test examples."""
    n = len(ours)
    both = stack_tallies([*ours, *base])
    scores = metric(both.sum(0, dtype=np.float64))
    resampled = bootstrap_scores(both, metric, np.random.default_rng(seed), 2_000)
    error = float((resampled[:, :n] - resampled[:, n:]).mean(1).std())
    return difference((scores[:n] - scores[n:]).tolist(), error, len(both))


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """Holm-corrected p-values (Holm 1979); None (no test) stays None."""
    adjusted: list[float | None] = list(ps)
    tested = sorted((p, index) for index, p in enumerate(ps) if p is not None)
    largest = 0.0
    for rank, (p, index) in enumerate(tested):
        largest = max(largest, min(1.0, (len(tested) - rank) * p))
        adjusted[index] = largest
    return adjusted


def mark(comparison: Comparison, adjusted: float) -> Mark:
    """`*` for better, `†` for worse; empty if the corrected p or the interval leaves that open."""
    # the tests behind p each take the other's randomness as fixed; the interval has both
    if adjusted >= LEVEL or comparison.low <= 0 <= comparison.high:
        return ""
    return "*" if comparison.difference > 0 else "†"


def verdict(comparison: Comparison, adjusted: float, *, unit: str = POINTS) -> str:
    """`Comparison.finding` for fine-tunings, with a warning if there is only one seed."""
    text = comparison.finding(adjusted, unit=unit)
    if comparison.p_seeds is None:
        text += "; one seed only, variation over seeds unknown"
    return text
