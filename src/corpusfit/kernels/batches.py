"""Rows of training batches: chunks packed into them, and tokens masked in them.

What: chunks come one after the other; each goes into the fullest open row that has room for it. Of
rows of token ids: the tokens to predict, and the rows with these masked, replaced or unchanged.
Why: short texts padded to a row's length would waste most of a training step. Masks are new in
every step (dynamic masking) and must be cheap; a resumed training must mask what the uninterrupted
one would have masked.
Trade-off: only a limited number of rows is open at once. That keeps a chunk near its position in
the order, and each step cheap, at the price of the last percent of room; there is never more than
one row that is at most half full. Every random number of a mask is a hash of the row's key and the
column, so it does not depend on which rows share a batch; the share of masked tokens holds on
average, not in each row.
Reference: Csirik and Johnson (2001), Bounded Space On-Line Bin Packing: Best Is Better than First;
Devlin et al. (2019), BERT, section 3.1 and appendix A.1; whole words as in its later release; Liu
et al. (2019), RoBERTa, section 4.1 (dynamic masking).
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from corpusfit.kernels.machine_words import GOLDEN, chance

OPEN = 64
"""Most rows that are open at once."""

MASKED = 0.8
REPLACED = 0.1
"""Shares of the predicted tokens; the rest stay unchanged."""


def fill_rows(
    order: NDArray[np.int64], lengths: NDArray[np.int32], width: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Put chunks into rows.

    Args:
        order: int64 [m], chunk numbers in their order; a number can occur more than once.
        lengths: int32 [n], by chunk number; in [1, width].
        width: length of a row.

    Returns:
        order: int64 [m], the same numbers row by row, rows in the order of their opening, each
            row's in the order they came.
        begins: int64 [rows + 1]; row r is `order[begins[r] : begins[r + 1]]`.
    """
    row_of, rows = _rows_of(order, lengths, width)
    begins = np.concatenate([[0], np.cumsum(np.bincount(row_of, minlength=rows))])
    return order[np.argsort(row_of, kind="stable")], begins


@njit(cache=True, nogil=True)
def _rows_of(
    order: NDArray[np.int64], lengths: NDArray[np.int32], width: int
) -> tuple[NDArray[np.int64], int]:
    """The row of each number, int64 [m], and the number of rows."""
    row_of = np.empty(len(order), np.int64)
    left = np.empty(OPEN, np.int64)  # room in the open rows
    row = np.empty(OPEN, np.int64)
    rows = 0
    opened = 0
    for i in range(len(order)):
        length = np.int64(lengths[order[i]])
        best = -1  # the fullest with room
        least = width + 1
        for j in range(opened if length < width else 0):
            if length <= left[j] < least:
                best = j
                least = left[j]
        if best >= 0:
            row_of[i] = row[best]
            left[best] -= length
            if left[best] == 0:
                opened -= 1
                left[best] = left[opened]
                row[best] = row[opened]
            continue
        row_of[i] = rows
        if length < width:
            best = opened if opened < OPEN else int(np.argmin(left))  # closes the fullest
            opened = min(opened + 1, OPEN)
            left[best] = width - length
            row[best] = rows
        rows += 1
    return row_of, rows


@njit(cache=True, nogil=True)
def masked(
    ids: NDArray[np.int64],  # int64 [r, l], token ids
    ordinary: NDArray[np.bool_],  # bool [v], tokens that can be predicted: all but special tokens
    # bool [v], tokens that begin a unit of masking: all tokens, or those that begin a word; a token
    # after a special token always begins one
    begins: NDArray[np.bool_],
    others: NDArray[np.int64],  # int64 [k], tokens that can replace another
    mask: int,  # id of the mask token
    rate: float,  # share of the units that are predicted
    keys: NDArray[np.uint64],  # uint64 [r], one key per row
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Mask rows of tokens.

    Returns:
        int64 [r, l], the masked rows, and bool [r, l], the tokens to predict.
    """
    inputs = ids.copy()
    picked = np.zeros(ids.shape, np.bool_)
    for r in range(ids.shape[0]):
        taking = False
        inside = False
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
            random_key = chance(key + GOLDEN)
            if random_key < MASKED:
                inputs[r, c] = mask
            elif random_key < MASKED + REPLACED:
                inputs[r, c] = others[int(chance(key + GOLDEN + GOLDEN) * len(others))]
    return inputs, picked
