"""Score embeddings block by block, with bounded memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.errors import InputError
from corpusfit.core.types import Vectors

_ROWS = 256


def plain_rows(batch: NDArray[Any]) -> Vectors:
    """The batch as C-contiguous float32 [n, d], copied only if needed."""
    if np.asarray(batch[:1]).dtype.kind not in "fiub":
        raise TypeError(
            "This method's scorer takes embeddings, float32 [n, d], not texts. "
            "`corpusfit.Scorer.load(FOLDER)` with the run's folder embeds texts itself."
        )
    return np.ascontiguousarray(batch, dtype=np.float32)


def blockwise(
    batch: Vectors, width: int, score_block: Callable[[Vectors], NDArray[Any]], rows: int = _ROWS
) -> NDArray[np.float32]:
    """Score a batch block by block, because pairwise scorers need scratch space [rows, target]."""
    # The kernels give a row the same bits in any block (`kernels/vectors.py`), so the last block is
    # not padded.
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
