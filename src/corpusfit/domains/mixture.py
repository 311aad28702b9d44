"""Mixtures of Gaussians with full covariance, for millions of rows."""

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
SAMPLE = 20_000
"""Rows of the sample that the initial parameters come from."""

_STARTS, _K_MEANS_STEPS, _START_SAMPLE = 5, 30, 4_000
"""Runs of k-means, maximum steps of each, and rows that the runs are compared on."""

F32 = NDArray[np.float32]


@dataclass(frozen=True)
class Mixture:
    """A fitted mixture of k Gaussians in d dimensions.

    Attributes:
        gaussians: the components, of standardised rows.
        centre: float64 [d], subtracted from a row.
        scale: float64 [d], divides a row after that.
        likelihood: mean log-likelihood of a row before standardisation, in nats.
        rows: number of rows that it was fitted to.
        steps: EM steps over all rows.
        converged: whether the log-likelihood converged.
    """

    gaussians: Gaussians
    centre: NDArray[np.float64]
    scale: NDArray[np.float64]
    likelihood: float
    rows: int
    steps: int
    converged: bool

    def shares(self, x: NDArray[np.floating]) -> F32:
        """Posterior probability of each component for each row: float32 [n, k]."""
        shares = np.empty((len(x), len(self.gaussians.weights)), np.float32)
        for begin in range(0, len(x), _BLOCK):
            rows = slice(begin, begin + _BLOCK)
            standardised = _standardise(x[rows], self.centre, self.scale)
            shares[rows] = responsibilities(densities(standardised, self.gaussians))[0]
        return shares

    def bic(self) -> float:
        """Bayesian information criterion (Schwarz, 1978); lower is better."""
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
    """Fit k Gaussians, in descending order of weight.

    k-means and the first EM steps use a sample, so that few steps over all rows remain. The optimum
    depends on the start: fit several mixtures and keep the one of the highest likelihood.

    Reference: Aharoni and Goldberg (2020), sections 2.2 and 2.3, appendix A.3: full covariances, at
    most 150 steps; Arthur and Vassilvitskii (2007), k-means++.
    """
    n = len(x)
    if n < k:
        raise ValueError(f"{n} rows are too few for {k} components")
    rng = np.random.default_rng(seed)
    centre = x.mean(axis=0, dtype=np.float64)
    scale = x.std(axis=0, dtype=np.float64)
    scale[scale == 0.0] = 1.0
    standardised = _standardise(x, centre, scale)
    sample = (
        standardised if n <= SAMPLE else standardised[np.sort(rng.choice(n, SAMPLE, replace=False))]
    )
    own = np.asarray(scale, np.float32)
    current = _from_assignments(sample, _k_means_assignments(sample * own, k, rng), k, ridge)
    if n > SAMPLE:
        current = _expectation_maximisation(sample, current, steps, tolerance, ridge)[0]
    found, likelihood, steps_taken, converged = _expectation_maximisation(
        standardised, current, steps, tolerance, ridge
    )
    order = np.argsort(-found.weights, kind="stable")
    found = Gaussians(found.weights[order], found.means[order], found.factors[order])
    raw_likelihood = likelihood - float(np.log(scale).sum())
    return Mixture(found, centre, scale, raw_likelihood, n, steps_taken, converged)


def _standardise(
    x: NDArray[np.floating], centre: NDArray[np.float64], scale: NDArray[np.float64]
) -> F32:
    standardised = np.empty(x.shape, np.float32)
    for begin in range(0, len(x), _BLOCK):
        rows = slice(begin, begin + _BLOCK)
        standardised[rows] = (x[rows] - centre) / scale
    return standardised


def _blocks(x: F32) -> Iterator[F32]:
    """Blocks of rows that fit in the processor's cache."""
    return (x[begin : begin + _BLOCK] for begin in range(0, len(x), _BLOCK))


def _expectation_maximisation(
    x: F32, current: Gaussians, steps: int, tolerance: float, ridge: float
) -> tuple[Gaussians, float, int, bool]:
    """EM: parameters, their mean log-likelihood, steps, and whether it converged."""
    previous, step = -np.inf, 0
    while True:
        blocks = _blocks(x)
        sums = gathered(next(blocks), current)
        for block in blocks:
            sums.add(gathered(block, current))
        mean = sums.likelihood / sums.rows
        if mean - previous < tolerance or step == steps:
            return current, mean, step, mean - previous < tolerance
        current, previous, step = maximised(sums, ridge), mean, step + 1


def _from_assignments(x: F32, assignments: NDArray[np.int64], k: int, ridge: float) -> Gaussians:
    """The Gaussian of each cluster's rows; that of all rows for an empty cluster."""
    sums = Sums(
        len(x), 0.0, np.zeros(k), np.zeros((k, x.shape[1])), np.zeros((k, *2 * x.shape[1:]))
    )
    for j in range(k):
        own = x[assignments == j] if np.any(assignments == j) else x
        own = own.astype(np.float64)
        sums.weights[j], sums.first[j], sums.second[j] = len(own), own.sum(axis=0), own.T @ own
    return maximised(sums, ridge)


def _k_means_assignments(x: F32, k: int, rng: np.random.Generator) -> NDArray[np.int64]:
    sample = x[:: max(1, min(len(x) // k, len(x) // _START_SAMPLE))]
    runs = [_k_means(sample, _k_means_plus_plus(sample, k, rng)) for _ in range(_STARTS)]
    return _k_means(x, min(runs, key=lambda end: end[2])[1])[0]


def _k_means_plus_plus(x: F32, k: int, rng: np.random.Generator) -> F32:
    """Initial means, rows far from each other (k-means++): float32 [k, d]."""
    drawn = [int(rng.integers(len(x)))]
    distances = np.full(len(x), np.inf)
    while len(drawn) < k:
        offsets = x - x[drawn[-1]]
        distances = np.minimum(distances, np.einsum("nd,nd->n", offsets, offsets))
        share = distances / distances.sum() if distances.sum() else np.full(len(x), 1.0 / len(x))
        drawn.append(int(rng.choice(len(x), p=share)))
    return x[drawn]


def _k_means(x: F32, means: F32) -> tuple[NDArray[np.int64], F32, float]:
    """Lloyd's algorithm: clusters, int64 [n], their means, and the sum of squared distances."""
    k, assignments = len(means), np.full(len(x), -1)
    for _ in range(_K_MEANS_STEPS):
        distances = np.einsum("kd,kd->k", means, means) - 2.0 * (x @ means.T)
        nearest = distances.argmin(axis=1)
        if np.array_equal(nearest, assignments):
            break
        assignments = nearest
        counts = np.bincount(assignments, minlength=k)[:, None]
        sums = np.eye(k, dtype=np.float32)[assignments].T @ x
        means = np.where(counts > 0, sums / np.maximum(counts, 1), means).astype(np.float32)
    return assignments, means, float(distances.min(axis=1).sum(dtype=np.float64))
