"""One EM step of a mixture of Gaussians with full covariance, over one block of rows.

What: log-densities of all components by one matrix product, responsibilities, and the sums for the
next parameters by one product each.
Why: a step over a million rows is mostly these products; blocks that stay in the cache save the
time that scikit-learn spends on matrices of all rows.
Trade-off: single precision within a block (sums are added in double), so rows must be centred and
of about unit variance; scikit-learn's double precision keeps digits that no clustering of float16
embeddings needs.
Reference: Dempster, Laird and Rubin (1977); Bishop (2006), section 9.2.2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]

_NOTHING = 1e-20
"""Smaller shares become 0, because arithmetic with denormal numbers is many times slower."""

_LOG_TAU = float(np.log(2.0 * np.pi))


@dataclass(frozen=True)
class Gaussians:
    """k components in d dimensions.

    Attributes:
        weights: float64 [k], adding up to one.
        means: float64 [k, d].
        factors: float64 [k, d, d], upper triangular: a precision is factor @ factor.T.
    """

    weights: F64
    means: F64
    factors: F64


@dataclass
class Sums:
    """Sums over rows for the next parameters.

    Attributes:
        rows: number of rows.
        likelihood: the sum of their log-likelihoods, nats.
        weights: float64 [k], sums of responsibilities.
        first: float64 [k, d], sums of rows, weighted by responsibility.
        second: float64 [k, d, d], sums of their outer products, weighted likewise.
    """

    rows: int
    likelihood: float
    weights: F64
    first: F64
    second: F64

    def add(self, other: Sums) -> None:
        """Add the sums of further rows."""
        self.rows += other.rows
        self.likelihood += other.likelihood
        self.weights += other.weights
        self.first += other.first
        self.second += other.second


def densities(x: F32, of: Gaussians) -> F32:
    """Log of weight times density of rows [n, d]: float32 [n, k]."""
    k, d = of.means.shape
    wide = of.factors.transpose(1, 0, 2).reshape(d, k * d).astype(np.float32)
    shift = np.einsum("kd,kde->ke", of.means, of.factors).astype(np.float32)
    y = (x @ wide).reshape(len(x), k, d)
    y -= shift
    far = np.einsum("nkd,nkd->nk", y, y)
    volume = np.log(np.diagonal(of.factors, axis1=1, axis2=2)).sum(axis=1)
    with np.errstate(divide="ignore"):
        constant = np.log(of.weights) + volume - 0.5 * d * _LOG_TAU
    logs: F32 = constant.astype(np.float32) - np.float32(0.5) * far
    return logs


def responsibilities(logs: F32) -> tuple[F32, F64]:
    """Each row's share of each component, float32 [n, k], and its log-likelihood, [n]."""
    top = logs.max(axis=1, keepdims=True)
    shares = np.exp(logs - top)
    shares[shares < _NOTHING] = 0.0
    whole = shares.sum(axis=1, keepdims=True)
    shares /= whole
    return shares, (top + np.log(whole))[:, 0].astype(np.float64)


def gathered(x: F32, of: Gaussians) -> Sums:
    """The sums of a block of rows under the current parameters."""
    shares, likelihoods = responsibilities(densities(x, of))
    turned, own = np.ascontiguousarray(x.T), np.ascontiguousarray(shares.T)
    return Sums(
        len(x),
        float(likelihoods.sum()),
        shares.sum(axis=0, dtype=np.float64),
        (own @ x).astype(np.float64),
        np.stack([(turned * share) @ x for share in own]).astype(np.float64),
    )


def maximised(sums: Sums, ridge: float) -> Gaussians:
    """The maximum-likelihood parameters for the sums.

    Args:
        sums: of all rows.
        ridge: added to every variance, so that all stay above 0; above 0.
    """
    counts = sums.weights + 10.0 * np.finfo(np.float64).eps
    means = sums.first / counts[:, None]
    covariances = sums.second / counts[:, None, None] - np.einsum("kd,ke->kde", means, means)
    d = means.shape[1]
    covariances[:, np.arange(d), np.arange(d)] += ridge
    # of covariance = L L', the precision is (L'^-1)(L'^-1)'
    try:
        lower = np.linalg.cholesky(covariances)
    except np.linalg.LinAlgError:  # rounding left a direction with no or negative variance
        values, axes = np.linalg.eigh(covariances)
        wide = axes * np.maximum(values, ridge)[:, None, :]
        lower = np.linalg.cholesky(wide @ axes.transpose(0, 2, 1))
    factors = np.linalg.inv(lower).transpose(0, 2, 1)
    return Gaussians(counts / counts.sum(), means, factors)
