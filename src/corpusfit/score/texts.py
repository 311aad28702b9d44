"""Arrow texts as the arrays that kernels read, without a copy.

What: the UTF-8 bytes of a batch and where each text begins in them.
Why: every lexical method starts here; Arrow's own layout is what the kernels want.
Trade-off: none; a slice of a batch keeps the bytes of the whole.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from corpusfit.types import Texts

__all__ = ["as_texts", "buffers"]


def as_texts(texts: Sequence[str]) -> Texts:
    """Strings as one Arrow array [n]."""
    return pa.array(texts, pa.large_string())


def buffers(texts: Texts) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The bytes and the n + 1 offsets of n texts; text i is `data[offsets[i] : offsets[i + 1]]`."""
    _, offsets, data = texts.buffers()
    n = len(texts)
    if offsets is None or n == 0:
        return np.empty(0, np.uint8), np.zeros(n + 1, np.int64)
    places = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + n + 1]
    return np.frombuffer(data or b"", np.uint8), places
