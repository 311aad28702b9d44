"""Masking for masked language modelling: which tokens are predicted, and what replaces them.

What: for rows of token ids, the tokens to predict and the rows with these masked, replaced or
unchanged.
Why: masks are new in every step (dynamic masking) and must be cheap; a resumed training must mask
what the uninterrupted one would have masked.
Trade-off: every random number is a hash of the row's key and the column, so it does not depend on
which rows share a batch; the share of masked tokens holds on average, not in each row.
Reference: Devlin et al. (2019), BERT, section 3.1 and appendix A.1; whole words as in its later
release; Liu et al. (2019), RoBERTa, section 4.1 (dynamic masking).
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from corpusfit.kernels.words import GOLDEN, chance

MASKED, REPLACED = 0.8, 0.1
"""Shares of the predicted tokens; the rest stay unchanged."""


@njit(cache=True, nogil=True)
def masked(
    ids: NDArray[np.int64],
    ordinary: NDArray[np.bool_],
    begins: NDArray[np.bool_],
    others: NDArray[np.int64],
    mask: int,
    rate: float,
    keys: NDArray[np.uint64],
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Mask rows of tokens.

    Args:
        ids: int64 [r, l], token ids.
        ordinary: bool [v], tokens that can be predicted: all but special tokens.
        begins: bool [v], tokens that begin a unit of masking: all tokens, or those that begin a
            word; a token after a special token always begins one.
        others: int64 [k], tokens that can replace another.
        mask: id of the mask token.
        rate: share of the units that are predicted.
        keys: uint64 [r], one key per row.

    Returns:
        int64 [r, l], the masked rows, and bool [r, l], the tokens to predict.
    """
    inputs = ids.copy()
    picked = np.zeros(ids.shape, np.bool_)
    for r in range(ids.shape[0]):
        taking, inside = False, False
        for c in range(ids.shape[1]):
            token = ids[r, c]
            if not ordinary[token]:
                inside = False
                continue
            key = keys[r] + np.uint64(3 * c + 1) * GOLDEN
            if begins[token] or not inside:
                taking = chance(key) < rate
            inside = True
            if not taking:
                continue
            picked[r, c] = True
            what = chance(key + GOLDEN)
            if what < MASKED:
                inputs[r, c] = mask
            elif what < MASKED + REPLACED:
                inputs[r, c] = others[int(chance(key + GOLDEN + GOLDEN) * len(others))]
    return inputs, picked
