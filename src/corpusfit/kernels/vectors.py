"""Distances and products of rows with the same bits in any batch, mixtures of Gaussians.

What: all pairs of two matrices' rows: squared Euclidean distances, inner products; rows' lengths.
One EM step of a mixture of Gaussians with full covariance, over one block of rows.
Why: a text's score must depend only on the text. BLAS breaks that: even with one fixed shape the
last bits of a row's product change with its position in the block (observed with OpenBLAS from 50
columns on), and with the number of threads. Here every pair runs the same instructions. An EM step
over a million rows is mostly a few products; blocks that stay in the cache save the time that
scikit-learn spends on matrices of all rows.
Trade-off: sums are reordered into vector lanes once, at compile time, so results are bitwise
repeatable on one kind of processor and agree to rounding on another. Four partners at a time
share the loads of one row, eight stay in the first-level cache: within a third of BLAS's speed,
and distances are sums of squared differences, without the cancellation of |x|² + |y|² - 2xy. EM is
in single precision within a block (sums are added in double), so rows must be centered and of about
unit variance.
Reference: Goto and van de Geijn (2008), Anatomy of High-Performance Matrix Multiplication;
Dempster, Laird and Rubin (1977), EM; Bishop (2006), section 9.2.2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba as nb
import numpy as np
from numpy.typing import NDArray

_TILE = 8
_FAST = {"contract", "reassoc", "nsz"}
F32 = NDArray[np.float32]
F64 = NDArray[np.float64]

_NOTHING = 1e-20
"""Smaller shares become 0, because arithmetic with denormal numbers is many times slower."""

_LOG_TAU = float(np.log(2.0 * np.pi))


def squared_distances(x: NDArray[np.float32], y: NDArray[np.float32]) -> NDArray[np.float32]:
    """Squared Euclidean distance of every row of x to every row of y.

    Args:
        x: float32 [n, d], C-contiguous.
        y: float32 [m, d], C-contiguous.

    Returns:
        float32 [n, m]; row i depends on `x[i]` and y alone, bit for bit.
    """
    return np.asarray(_all_pairs(x, y, True))


def products(x: NDArray[np.float32], y: NDArray[np.float32]) -> NDArray[np.float32]:
    """Inner product of every row of x with every row of y; as `squared_distances`."""
    return np.asarray(_all_pairs(x, y, None))


@nb.njit(nogil=True, cache=True, fastmath=_FAST)
def _all_pairs(
    x: NDArray[np.float32], y: NDArray[np.float32], squared: bool | None
) -> NDArray[np.float32]:
    """Squared distances, or products if `squared` is None, which makes numba drop the branches."""
    n, d = x.shape
    m = y.shape[0]
    if y.shape[1] != d:
        raise ValueError("rows of different lengths")
    out = np.empty((n, m), np.float32)
    for first in range(0, m, _TILE):
        last = min(m, first + _TILE)
        # four columns at a time, so that a row is loaded once for four independent sums
        quads = first + (last - first) // 4 * 4
        for i in range(n):
            u = x[i]
            for j in range(first, quads, 4):
                y0 = y[j]
                y1 = y[j + 1]
                y2 = y[j + 2]
                y3 = y[j + 3]
                s0 = s1 = s2 = s3 = np.float32(0)
                for k in range(d):
                    if squared is None:
                        s0 += u[k] * y0[k]
                        s1 += u[k] * y1[k]
                        s2 += u[k] * y2[k]
                        s3 += u[k] * y3[k]
                    else:
                        t0 = u[k] - y0[k]
                        t1 = u[k] - y1[k]
                        t2 = u[k] - y2[k]
                        t3 = u[k] - y3[k]
                        s0 += t0 * t0
                        s1 += t1 * t1
                        s2 += t2 * t2
                        s3 += t3 * t3
                out[i, j] = s0
                out[i, j + 1] = s1
                out[i, j + 2] = s2
                out[i, j + 3] = s3
            for j in range(quads, last):
                v = y[j]
                s = np.float32(0)
                for k in range(d):
                    if squared is None:
                        s += u[k] * v[k]
                    else:
                        t = u[k] - v[k]
                        s += t * t
                out[i, j] = s
    return out


def lengths(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Euclidean length of every row of x, float32 [n, d], as a column [n, 1]; 1 for a zero row."""
    norms: NDArray[np.float32] = np.sqrt(
        squared_distances(x, np.zeros((1, x.shape[1]), np.float32))
    )
    norms[norms == 0.0] = 1.0
    return norms


@dataclass(frozen=True)
class Gaussians:
    """k components in d dimensions."""

    weights: F64  # float64 [k], adding up to one
    means: F64  # float64 [k, d]
    factors: F64  # float64 [k, d, d], upper triangular: a precision is factor @ factor.T


@dataclass
class Sums:
    """Sums over rows for the next parameters."""

    rows: int  # number of rows
    likelihood: float  # the sum of their log-likelihoods, nats
    weights: F64  # float64 [k], sums of responsibilities
    first: F64  # float64 [k, d], sums of rows, weighted by responsibility
    second: F64  # float64 [k, d, d], sums of their outer products, weighted likewise

    def add(self, other: Sums) -> None:
        """Add the sums of further rows."""
        self.rows += other.rows
        self.likelihood += other.likelihood
        self.weights += other.weights
        self.first += other.first
        self.second += other.second


def densities(x: F32, mixture: Gaussians) -> F32:
    """Log of weight times density of rows [n, d]: float32 [n, k]."""
    k, d = mixture.means.shape
    wide = mixture.factors.transpose(1, 0, 2).reshape(d, k * d).astype(np.float32)
    shift = np.einsum("kd,kde->ke", mixture.means, mixture.factors).astype(np.float32)
    y = (x @ wide).reshape(len(x), k, d)
    y -= shift
    far = np.einsum("nkd,nkd->nk", y, y)
    volume = np.log(np.diagonal(mixture.factors, axis1=1, axis2=2)).sum(axis=1)
    with np.errstate(divide="ignore"):
        constant = np.log(mixture.weights) + volume - 0.5 * d * _LOG_TAU
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


def gather_sums(x: F32, mixture: Gaussians) -> Sums:
    """The sums of a block of rows under the current parameters."""
    shares, likelihoods = responsibilities(densities(x, mixture))
    turned = np.ascontiguousarray(x.T)
    weights = np.ascontiguousarray(shares.T)
    return Sums(
        len(x),
        float(likelihoods.sum()),
        shares.sum(axis=0, dtype=np.float64),
        (weights @ x).astype(np.float64),
        np.stack([(turned * share) @ x for share in weights]).astype(np.float64),
    )


def maximize(sums: Sums, ridge: float) -> Gaussians:
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
