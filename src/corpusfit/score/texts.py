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

from corpusfit.kernels.characters import table
from corpusfit.kernels.tokens import tokenise
from corpusfit.types import Texts

__all__ = ["as_texts", "buffers", "spelled"]


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


def spelled(text: str) -> tuple[NDArray[np.uint64], list[str]]:
    """The t tokens of one text: identities uint64 [t], and how each is written, in lower case."""
    data = np.frombuffer(text.encode(), np.uint8)
    ids = np.empty(len(data), np.uint64)
    starts, ends = np.empty((2, len(data)), np.int64)
    count = tokenise(data, 0, len(data), table(), False, ids, starts, ends)
    written = [
        bytes(data[a:b]).decode().lower() for a, b in zip(starts[:count], ends[:count], strict=True)
    ]
    return ids[:count], written
