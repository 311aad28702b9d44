"""Pack chunks into rows of fixed length, so that little of a batch is padding.

What: chunks come one after the other; each goes into the fullest open row that has room for it.
Why: short texts padded to a row's length would waste most of a training step.
Trade-off: only a limited number of rows is open at once. That keeps a chunk near its position in
the order, and each step cheap, at the price of the last percent of room; there is never more than
one row that is at most half full.
Reference: bounded-space best fit, Csirik and Johnson (2001), Bounded Space On-Line Bin Packing:
Best Is Better than First.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

OPEN = 64
"""Most rows that are open at once."""


def fill_rows(
    order: NDArray[np.int64], lengths: NDArray[np.int32], room: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Put chunks into rows.

    Args:
        order: int64 [m], chunk numbers in their order; a number can occur more than once.
        lengths: int32 [n], by chunk number; in [1, room].
        room: length of a row.

    Returns:
        order: int64 [m], the same numbers row by row, rows in the order of their opening, each
            row's in the order they came.
        begins: int64 [rows + 1]; row r is `order[begins[r] : begins[r + 1]]`.
    """
    row_of, rows = _rows_of(order, lengths, room)
    begins = np.concatenate([[0], np.cumsum(np.bincount(row_of, minlength=rows))])
    return order[np.argsort(row_of, kind="stable")], begins


@njit(cache=True, nogil=True)
def cut_batches(lengths: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Cut a sequence of texts into batches whose padded size is bounded.

    Args:
        lengths: int64 [n], tokens of each text, 1 or more texts; best in order.
        most: most texts of a batch times its longest text; a longer text is a batch of its own.

    Returns:
        int64 [batches + 1], where each begins; the last is n.
    """
    begins = np.empty(len(lengths) + 1, np.int64)
    begins[0], batches = 0, 0
    longest = np.int64(0)
    for i in range(len(lengths)):
        longest = max(longest, lengths[i])
        if i > begins[batches] and longest * (i + 1 - begins[batches]) > most:
            batches += 1
            begins[batches], longest = i, lengths[i]
    begins[batches + 1] = len(lengths)
    return begins[: batches + 2]


@njit(cache=True, nogil=True)
def _rows_of(
    order: NDArray[np.int64], lengths: NDArray[np.int32], room: int
) -> tuple[NDArray[np.int64], int]:
    """The row of each number, int64 [m], and the number of rows."""
    row_of = np.empty(len(order), np.int64)
    left = np.empty(OPEN, np.int64)  # room in the open rows
    row = np.empty(OPEN, np.int64)
    rows, opened = 0, 0
    for i in range(len(order)):
        length = np.int64(lengths[order[i]])
        best, least = -1, room + 1  # the fullest with room
        for j in range(opened if length < room else 0):
            if length <= left[j] < least:
                best, least = j, left[j]
        if best >= 0:
            row_of[i] = row[best]
            left[best] -= length
            if left[best] == 0:
                opened -= 1
                left[best], row[best] = left[opened], row[opened]
            continue
        row_of[i] = rows
        if length < room:
            best = opened if opened < OPEN else int(np.argmin(left))  # closes the fullest
            opened = min(opened + 1, OPEN)
            left[best], row[best] = room - length, rows
        rows += 1
    return row_of, rows
