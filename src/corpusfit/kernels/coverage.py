"""Coverage of a weighted set of n-grams by texts.

What: for every text of a batch the summed weights of the listed n-grams in it, on request divided
by its number of n-grams.
Why: one table look-up per token, and a stamp that marks n-grams already met in this text, so a text
costs little more than its tokenisation.
Trade-off: one stamp per listed n-gram, 4 bytes each, allocated for each batch.
Reference: Eck, Vogel and Waibel (2005), Low Cost Portability for Statistical Machine Translation
based on N-gram Coverage, section 3.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from corpusfit.kernels.grams import find, gram_at, longest
from corpusfit.kernels.tokens import tokenise


@njit(cache=True, nogil=True)
def coverage(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    characters: NDArray[np.uint32],
    keys: NDArray[np.uint64],
    places: NDArray[np.int32],
    weight: NDArray[np.float64],
    order: int,
    per_token: bool,
) -> NDArray[np.float32]:
    """The summed weights of the different listed n-grams in every text.

    Args:
        data: uint8 [b], the bytes of n texts.
        offsets: int64 [n + 1], where they begin.
        characters: what `characters.table` returns.
        keys: the table of v n-grams, see `grams.table_of`.
        places: the same.
        weight: float64 [v].
        order: tokens in an n-gram.
        per_token: whether to divide by the text's number of n-grams.

    Returns:
        float32 [n]; 0 for a text of fewer than `order` tokens.
    """
    n = len(offsets) - 1
    ids = np.empty(longest(offsets), np.uint64)
    met = np.full(len(weight), -1, np.int32)
    out = np.zeros(n, np.float32)
    for i in range(n):
        count = tokenise(data, offsets[i], offsets[i + 1], characters, False, ids, None, None)
        total = 0.0
        for j in range(count - order + 1):
            place = find(keys, places, gram_at(ids, j, order))
            if place >= 0 and met[place] != i:
                met[place] = i
                total += weight[place]
        if count >= order:
            out[i] = total / (count - order + 1) if per_token else total
    return out
