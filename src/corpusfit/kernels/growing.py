"""Arrays that grow inside a kernel; numba takes seconds to compile numpy's `append`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True, nogil=True)
def twice(values: NDArray[Any]) -> NDArray[Any]:
    """The values [n] at the begin of an array of twice their number; the rest is not set."""
    wider = np.empty(2 * len(values), values.dtype)
    for i in range(len(values)):
        wider[i] = values[i]
    return wider
