"""Bootstrap and paired approximate randomisation over examples, for several seeds at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK_BYTES = 2**24
ROUNDING = 1e-12
"""Scores that differ by no more are equal; the difference is rounding."""

Metric = Callable[[NDArray[Any]], NDArray[np.float64]]
"""A metric of sums of tallies, numbers [..., 3, k]; returns float64 [...]."""


def stack_tallies(tallies: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """[n, columns, 3, k]: counts as float32 if their sums are exact in it, otherwise float64."""
    most = max(int(counts.max(initial=0)) * len(counts) for counts in tallies)
    counts = all(np.issubdtype(t.dtype, np.integer) for t in tallies)
    kind = np.float32 if counts and most < 2**24 else np.float64
    found: NDArray[Any] = np.stack(tallies, axis=1, dtype=kind, casting="unsafe")
    if (found[:, :, 2] != found[:, :1, 2]).any():
        raise ValueError("the tallies are of different examples")
    return found


def bootstrap_scores(
    counts: NDArray[Any], metric: Metric, rng: np.random.Generator, rounds: int
) -> NDArray[np.float64]:
    """float64 [rounds, columns]: scores of bootstrap samples of the examples.

    Reference: Koehn (2004), Berg-Kirkpatrick et al. (2012).
    """
    n = len(counts)
    rows = counts.reshape(n, -1)
    found = []
    for block in _blocks(rounds, n):
        places = rng.integers(0, n, (block, n))
        places += np.arange(block)[:, None] * n
        times = np.bincount(places.ravel(), minlength=block * n).reshape(block, n)
        sums = (times.astype(rows.dtype) @ rows).astype(np.float64)
        found.append(metric(sums.reshape(block, *counts.shape[1:])))
    return np.concatenate(found)


def percentile_interval(
    drawn: NDArray[np.float64], rng: np.random.Generator, level: float
) -> tuple[float, float]:
    """Percentile interval of the mean over seeds, with seeds drawn with replacement."""
    seeds = rng.integers(0, drawn.shape[1], drawn.shape)
    means = np.take_along_axis(drawn, seeds, axis=1).mean(1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def p_items(
    ours: NDArray[Any], base: NDArray[Any], metric: Metric, rng: np.random.Generator, rounds: int
) -> float:
    """Two-sided p-value of paired approximate randomisation over examples.

    Under the null hypothesis both models' predictions for an example are exchangeable, so each
    round swaps a random half of the examples, in all seeds at once.

    Reference: Yeh (2000), Riezler and Maxwell (2005); Phipson and Smyth (2010) for the p-value.
    """
    totals = [side.sum(0, dtype=np.float64) for side in (ours, base)]
    observed = abs(float((metric(totals[0]) - metric(totals[1])).mean()))
    rows = (base - ours).reshape(len(ours), -1)
    rows = rows[rows.any(axis=1)]  # swapping equal predictions has no effect
    as_large = 0
    for block in _blocks(rounds, len(rows)):
        sides = rng.integers(0, 2, (block, len(rows)), np.uint8).astype(rows.dtype)
        moved = (sides @ rows).astype(np.float64).reshape(block, *ours.shape[1:])
        drawn = metric(totals[0] + moved) - metric(totals[1] - moved)
        as_large += int(np.count_nonzero(np.abs(drawn.mean(1)) >= observed - ROUNDING))
    return (as_large + 1) / (rounds + 1)


def _blocks(rounds: int, n: int) -> Iterator[int]:
    """Rounds in blocks of bounded memory."""
    most = max(1, BLOCK_BYTES // (8 * max(1, n)))
    for start in range(0, rounds, most):
        yield min(most, rounds - start)
