"""The tokens of one text as written, for explanations."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corpusfit.kernels.characters import table
from corpusfit.kernels.tokens import tokenise


def written_tokens(text: str, *, signs: bool = False) -> tuple[NDArray[np.uint64], list[str]]:
    """The t tokens of one text: identities uint64 [t], and their spellings in lower case.

    Args:
        text: one text.
        signs: also count runs of punctuation as tokens.
    """
    data = np.frombuffer(text.encode(), np.uint8)
    ids = np.empty(len(data), np.uint64)
    starts, ends = np.empty((2, len(data)), np.int64)
    count = tokenise(data, 0, len(data), table(), signs, ids, starts, ends)
    written = [
        bytes(data[a:b]).decode().lower() for a, b in zip(starts[:count], ends[:count], strict=True)
    ]
    return ids[:count], written
