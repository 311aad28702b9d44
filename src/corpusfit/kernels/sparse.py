"""Sparse rows, with the two products that a linear model's fit needs.

What: n rows of few entries; `rows @ w` and `r @ rows`.
Why: `kernels/logistic.py` needs nothing else, so texts with thousands of hashed n-grams train in
the memory of their entries, without SciPy.
Trade-off: one core; sums run in the entries' order, so they have the same bits on any machine.
Reference: Saad (2003), Iterative Methods for Sparse Linear Systems, section 3.4 (CSR).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True, nogil=True)
def _times(
    ends: NDArray[np.int64],
    columns: NDArray[np.int32],
    values: NDArray[np.float32],
    w: NDArray[np.float64],
) -> NDArray[np.float64]:
    out = np.empty(len(ends) - 1, np.float64)
    for i in range(len(out)):
        total = 0.0
        for at in range(ends[i], ends[i + 1]):
            total += values[at] * w[columns[at]]
        out[i] = total
    return out


@njit(cache=True, nogil=True)
def _transposed(
    ends: NDArray[np.int64],
    columns: NDArray[np.int32],
    values: NDArray[np.float32],
    width: int,
    r: NDArray[np.float64],
) -> NDArray[np.float64]:
    out = np.zeros(width, np.float64)
    for i in range(len(r)):
        for at in range(ends[i], ends[i + 1]):
            out[columns[at]] += values[at] * r[i]
    return out


@dataclass(frozen=True, eq=False)
class Rows:
    """n sparse rows of length d.

    Attributes:
        ends: int64 [n + 1]; row i has the entries `[ends[i] : ends[i + 1]]`.
        columns: int32 [e], below d.
        values: float32 [e].
        width: d.
    """

    ends: NDArray[np.int64]
    columns: NDArray[np.int32]
    values: NDArray[np.float32]
    width: int

    __array_ufunc__: ClassVar[None] = None
    """Makes NumPy leave `r @ rows` to this class."""

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        return len(self.ends) - 1, self.width

    def __matmul__(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        """Products with a vector float64 [d], float64 [n]."""
        return np.asarray(_times(self.ends, self.columns, self.values, w))

    def __rmatmul__(self, r: NDArray[np.float64]) -> NDArray[np.float64]:
        """The rows' sum, weighted by r float64 [n]; float64 [d]."""
        return np.asarray(_transposed(self.ends, self.columns, self.values, self.width, r))
