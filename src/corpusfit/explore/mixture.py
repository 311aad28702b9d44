"""Mixtures of Gaussians with full covariance, for rows by the million.

What: fits k Gaussians to vectors that are read in blocks, and says of any vector how much each
explains it.
Why: a text may be of several domains, so assignments are soft; and a corpus's vectors do not fit
into memory as scikit-learn's matrices of them would have to.
Trade-off: starts are tried on a sample, and only the likeliest goes on over all rows: few passes
over the corpus instead of as many as there are starts times steps.
Reference: Aharoni and Goldberg (2020), sections 2.2 and 2.3, appendix A.3: full covariances, at
most 150 steps; Arthur and Vassilvitskii (2007), k-means++; Schwarz (1978), BIC.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from corpusfit.kernels.chance import place_keys
from corpusfit.kernels.gaussians import (
    Gaussians,
    Sums,
    densities,
    gathered,
    maximised,
    responsibilities,
)

__all__ = ["Mixture", "Rows", "fit_mixture"]

Rows = Callable[[], Iterable[NDArray[np.floating]]]
"""Reads the rows anew at each call: blocks [n, d] of any size, always in the same order."""

_BLOCK = 4_096
_SAMPLE = 20_000
"""Rows on which starts are tried."""


@dataclass(frozen=True)
class Mixture:
    """k Gaussians in d dimensions, fitted.

    Attributes:
        gaussians: of rows that are centred and scaled.
        centre: float64 [d], subtracted from a row.
        scale: float64 [d], by which it is divided then.
        likelihood: the mean log-likelihood of a row as it was given, nats.
        rows: how many it was fitted to.
        steps: of EM over all rows.
        converged: whether the likelihood had come to rest by then.
    """

    gaussians: Gaussians
    centre: NDArray[np.float64]
    scale: NDArray[np.float64]
    likelihood: float
    rows: int
    steps: int
    converged: bool

    def shares(self, x: NDArray[np.floating]) -> NDArray[np.float32]:
        """How much each component explains each row: float32 [n, k], rows adding up to one."""
        placed = _placed(x, self.centre, self.scale)
        blocks = np.split(placed, range(_BLOCK, len(placed), _BLOCK))
        return np.concatenate([responsibilities(densities(b, self.gaussians))[0] for b in blocks])

    def bic(self) -> float:
        """Schwarz's criterion: the lower, the better k fits the rows."""
        k, d = self.gaussians.means.shape
        free = k * (d + d * (d + 1) / 2) + k - 1
        return float(free * np.log(self.rows) - 2.0 * self.rows * self.likelihood)


def fit_mixture(
    rows: Rows,
    k: int,
    *,
    seed: int,
    starts: int = 5,
    steps: int = 150,
    tolerance: float = 1e-3,
    ridge: float = 1e-6,
) -> Mixture:
    """Fit k Gaussians.

    Args:
        rows: what is fitted to; at least k rows.
        k: components, at least 1.
        seed: the only source of chance.
        starts: tried on a sample.
        steps: of EM over all rows, at most.
        tolerance: a change of the mean log-likelihood, nats, below which it has come to rest.
        ridge: added to every variance, in units of a dimension's own.

    Raises:
        ValueError: there are fewer rows than components.
    """
    chance = np.random.default_rng(seed)
    n, centre, scale, sample = _survey(rows, seed)
    if n < k:
        raise ValueError(f"{n} rows are too few for {k} components")
    tried = [_climbed(_of(sample), _start(sample, k, chance), steps, tolerance, ridge)
             for _ in range(starts)]  # fmt: skip
    best = max(tried, key=lambda found: found[1])[0]
    whole = _of(sample) if n <= len(sample) else partial(_blocks, rows, centre, scale)
    found, likelihood, taken, converged = _climbed(whole, best, steps, tolerance, ridge)
    raw = likelihood - float(np.log(scale).sum())
    return Mixture(found, centre, scale, raw, n, taken, converged)


def _climbed(
    blocks: Callable[[], Iterator[NDArray[np.float32]]],
    now: Gaussians,
    steps: int,
    tolerance: float,
    ridge: float,
) -> tuple[Gaussians, float, int, bool]:
    """EM until it comes to rest: parameters, their mean log-likelihood, steps, whether it did."""
    before = -np.inf
    for step in range(steps + 1):
        sums: Sums | None = None
        for block in blocks():
            own = gathered(block, now)
            if sums is None:
                sums = own
            else:
                sums.add(own)
        assert sums is not None  # noqa: S101 (there are k rows at least)
        mean = sums.likelihood / sums.rows
        if mean - before < tolerance or step == steps:
            return now, mean, step, mean - before < tolerance
        now, before = maximised(sums, ridge), mean
    raise AssertionError  # the loop returns


def _survey(
    rows: Rows, seed: int
) -> tuple[int, NDArray[np.float64], NDArray[np.float64], NDArray[np.float32]]:
    """One pass: how many rows, their mean and deviation by dimension, and a uniform sample."""
    n, total, squares = 0, np.zeros(0), np.zeros(0)
    keys, kept = np.empty(0, np.uint64), np.empty((0, 0))
    for number, block in enumerate(rows()):
        x = np.asarray(block, np.float64)
        if not n:
            total, squares, kept = np.zeros(x.shape[1]), np.zeros(x.shape[1]), x[:0]
        n += len(x)
        total += x.sum(axis=0)
        squares += np.einsum("nd,nd->d", x, x)
        keys = np.append(keys, place_keys(seed, number, len(x)))
        kept = np.concatenate([kept, x])
        if len(keys) > 2 * _SAMPLE:
            keys, kept = _lowest(keys, kept)
    keys, kept = _lowest(keys, kept)
    centre = total / max(1, n)
    scale = np.sqrt(np.maximum(squares / max(1, n) - centre**2, 0.0))
    scale[scale == 0.0] = 1.0
    return n, centre, scale, _placed(kept, centre, scale)


def _lowest(
    keys: NDArray[np.uint64], kept: NDArray[np.float64]
) -> tuple[NDArray[np.uint64], NDArray[np.float64]]:
    """The rows of the lowest keys, as they came where all are kept."""
    if len(keys) <= _SAMPLE:
        return keys, kept
    order = np.sort(np.argsort(keys, kind="stable")[:_SAMPLE])
    return keys[order], kept[order]


def _placed(
    x: NDArray[np.floating], centre: NDArray[np.float64], scale: NDArray[np.float64]
) -> NDArray[np.float32]:
    return np.asarray((np.asarray(x, np.float64) - centre) / scale, np.float32)


def _blocks(
    rows: Rows, centre: NDArray[np.float64], scale: NDArray[np.float64]
) -> Iterator[NDArray[np.float32]]:
    """The rows, placed, in blocks that stay in the cache."""
    for block in rows():
        for begin in range(0, len(block), _BLOCK):
            yield _placed(block[begin : begin + _BLOCK], centre, scale)


def _of(x: NDArray[np.float32]) -> Callable[[], Iterator[NDArray[np.float32]]]:
    """Rows at hand, in such blocks."""
    return lambda: (x[begin : begin + _BLOCK] for begin in range(0, len(x), _BLOCK))


def _start(x: NDArray[np.float32], k: int, chance: np.random.Generator) -> Gaussians:
    """Means far from each other (k-means++), all with the sample's own spread."""
    drawn = [int(chance.integers(len(x)))]
    far = np.full(len(x), np.inf)
    while len(drawn) < k:
        apart = x - x[drawn[-1]]
        far = np.minimum(far, np.einsum("nd,nd->n", apart, apart))
        share = far / far.sum() if far.sum() else np.full(len(x), 1.0 / len(x))
        drawn.append(int(chance.choice(len(x), p=share)))
    d = x.shape[1]
    alike = np.broadcast_to(np.eye(d), (k, d, d)).copy()
    return Gaussians(np.full(k, 1.0 / k), x[drawn].astype(np.float64), alike)
