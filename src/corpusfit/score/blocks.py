"""Score embeddings a block at a time.

What: the one loop that every embedding scorer shares; checks the width, bounds the memory.
Why: pairwise scorers need [rows, target] scratch space, which must not grow with the batch.
Trade-off: blocks are cut at fixed places but not padded: the kernels give a row the same bits in
any block (`kernels/vectors.py`), so padding would only cost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.errors import InputError
from corpusfit.types import Vectors

_ROWS = 256


def plain_rows(batch: NDArray[Any]) -> Vectors:
    """The batch as C-contiguous float32 [n, d], copied only where it is not that already."""
    return np.ascontiguousarray(batch, dtype=np.float32)


def blockwise(
    batch: Vectors, width: int, score_block: Callable[[Vectors], NDArray[Any]], rows: int = _ROWS
) -> NDArray[np.float32]:
    """Score a batch block by block.

    Args:
        batch: float32 [n, d].
        width: the d that the scorer was fitted on.
        score_block: [up to `rows`, d] to one number a row.
        rows: rows in a block.

    Returns:
        float32 [n].

    Raises:
        InputError: d is not `width`.
    """
    x = plain_rows(batch)
    if x.ndim != 2 or x.shape[1] != width:
        raise InputError(
            f"The scorer was fitted on embeddings of shape [n, {width}]; got {list(x.shape)}. "
            "Embed the corpus with the model that embedded the target."
        )
    out = np.empty(len(x), np.float32)
    for first in range(0, len(x), rows):
        out[first : first + rows] = score_block(x[first : first + rows])
    return out
