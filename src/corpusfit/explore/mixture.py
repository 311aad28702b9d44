"""Mixtures of Gaussians with full covariance, for rows by the million.

What: fits k Gaussians to vectors and says of any vector how much each explains it.
Why: a text may be of several domains, so assignments are soft.
Trade-off: k-means, which gives the start, and the first steps see a sample; few steps remain that
go over all rows. Which optimum is found depends on the start: fit several and take the likeliest.
Reference: Aharoni and Goldberg (2020), sections 2.2 and 2.3, appendix A.3: full covariances, at
most 150 steps; Arthur and Vassilvitskii (2007), k-means++; Schwarz (1978), BIC.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpusfit.kernels.gaussians import (
    Gaussians,
    Sums,
    densities,
    gathered,
    maximised,
    responsibilities,
)

_BLOCK = 1_024
_SAMPLE = 20_000
"""Rows that the start is made from."""

_STARTS, _ROUNDS, _FEW = 5, 30, 4_000
"""Starts of k-means, its steps at most, and rows that the starts are tried on."""

F32 = NDArray[np.float32]


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

    def shares(self, x: NDArray[np.floating]) -> F32:
        """How much each component explains each row: float32 [n, k], rows adding up to one."""
        shares = np.empty((len(x), len(self.gaussians.weights)), np.float32)
        for begin in range(0, len(x), _BLOCK):
            rows = slice(begin, begin + _BLOCK)
            placed = _placed(x[rows], self.centre, self.scale)
            shares[rows] = responsibilities(densities(placed, self.gaussians))[0]
        return shares

    def bic(self) -> float:
        """Schwarz's criterion: the lower, the better k fits the rows."""
        k, d = self.gaussians.means.shape
        free = k * (d + d * (d + 1) / 2) + k - 1
        return float(free * np.log(self.rows) - 2.0 * self.rows * self.likelihood)


def fit_mixture(
    x: NDArray[np.floating],
    k: int,
    *,
    seed: int,
    steps: int = 150,
    tolerance: float = 1e-3,
    ridge: float = 1e-6,
) -> Mixture:
    """Fit k Gaussians, the heaviest first.

    Args:
        x: [n, d], at least k rows.
        k: components, at least 1.
        seed: the only source of chance.
        steps: of EM over all rows, at most.
        tolerance: a change of the mean log-likelihood, nats, below which it has come to rest.
        ridge: added to every variance, in units of a dimension's own.

    Raises:
        ValueError: there are fewer rows than components.
    """
    n = len(x)
    if n < k:
        raise ValueError(f"{n} rows are too few for {k} components")
    chance = np.random.default_rng(seed)
    centre = x.mean(axis=0, dtype=np.float64)
    scale = x.std(axis=0, dtype=np.float64)
    scale[scale == 0.0] = 1.0
    placed = _placed(x, centre, scale)
    few = placed if n <= _SAMPLE else placed[np.sort(chance.choice(n, _SAMPLE, replace=False))]
    own = np.asarray(scale, np.float32)
    now = _parted(few, _owners(few * own, k, chance), k, ridge)
    if n > _SAMPLE:
        now = _climbed(few, now, steps, tolerance, ridge)[0]
    found, likelihood, taken, converged = _climbed(placed, now, steps, tolerance, ridge)
    order = np.argsort(-found.weights, kind="stable")
    found = Gaussians(found.weights[order], found.means[order], found.factors[order])
    raw = likelihood - float(np.log(scale).sum())
    return Mixture(found, centre, scale, raw, n, taken, converged)


def _placed(
    x: NDArray[np.floating], centre: NDArray[np.float64], scale: NDArray[np.float64]
) -> F32:
    placed = np.empty(x.shape, np.float32)
    for begin in range(0, len(x), _BLOCK):
        rows = slice(begin, begin + _BLOCK)
        placed[rows] = (x[rows] - centre) / scale
    return placed


def _blocks(x: F32) -> Iterator[F32]:
    """Rows in blocks that stay in the cache."""
    return (x[begin : begin + _BLOCK] for begin in range(0, len(x), _BLOCK))


def _climbed(
    x: F32, now: Gaussians, steps: int, tolerance: float, ridge: float
) -> tuple[Gaussians, float, int, bool]:
    """EM until it comes to rest: parameters, their mean log-likelihood, steps, whether it did."""
    before, step = -np.inf, 0
    while True:
        blocks = _blocks(x)
        sums = gathered(next(blocks), now)
        for block in blocks:
            sums.add(gathered(block, now))
        mean = sums.likelihood / sums.rows
        if mean - before < tolerance or step == steps:
            return now, mean, step, mean - before < tolerance
        now, before, step = maximised(sums, ridge), mean, step + 1


def _parted(x: F32, owner: NDArray[np.int64], k: int, ridge: float) -> Gaussians:
    """The Gaussians of rows that each belong to one; where none does, that of all of them."""
    sums = Sums(
        len(x), 0.0, np.zeros(k), np.zeros((k, x.shape[1])), np.zeros((k, *2 * x.shape[1:]))
    )
    for j in range(k):
        own = x[owner == j] if np.any(owner == j) else x
        own = own.astype(np.float64)
        sums.weights[j], sums.first[j], sums.second[j] = len(own), own.sum(axis=0), own.T @ own
    return maximised(sums, ridge)


def _owners(x: F32, k: int, chance: np.random.Generator) -> NDArray[np.int64]:
    """Clusters by k-means, int64 [n]: of a few starts on fewer rows, the best goes on over all."""
    few = x[:: max(1, min(len(x) // k, len(x) // _FEW))]
    ended = [_k_means(few, _spaced(few, k, chance)) for _ in range(_STARTS)]
    return _k_means(x, min(ended, key=lambda end: end[2])[1])[0]


def _spaced(x: F32, k: int, chance: np.random.Generator) -> F32:
    """Rows far from each other (k-means++): float32 [k, d]."""
    drawn = [int(chance.integers(len(x)))]
    far = np.full(len(x), np.inf)
    while len(drawn) < k:
        apart = x - x[drawn[-1]]
        far = np.minimum(far, np.einsum("nd,nd->n", apart, apart))
        share = far / far.sum() if far.sum() else np.full(len(x), 1.0 / len(x))
        drawn.append(int(chance.choice(len(x), p=share)))
    return x[drawn]


def _k_means(x: F32, means: F32) -> tuple[NDArray[np.int64], F32, float]:
    """Lloyd's steps: each row's cluster, int64 [n], the means, and how far all are from theirs."""
    k, owner = len(means), np.full(len(x), -1)
    for _ in range(_ROUNDS):
        near = np.einsum("kd,kd->k", means, means) - 2.0 * (x @ means.T)
        moved = near.argmin(axis=1)
        if np.array_equal(moved, owner):
            break
        owner = moved
        counts = np.bincount(owner, minlength=k)[:, None]
        sums = np.eye(k, dtype=np.float32)[owner].T @ x
        means = np.where(counts > 0, sums / np.maximum(counts, 1), means).astype(np.float32)
    return owner, means, float(near.min(axis=1).sum(dtype=np.float64))
