"""Keys of texts by their letters: 64-bit hashes of code points in one form.

What: a table says what each code point stands for, or that it counts for nothing; a text with one
for which this takes a look at its neighbors is left to the caller, who hashes its code points.
Why: a corpus has many short segments; a call in Python for each takes longer than to hash it.
Reference: the mixing of `kernels/tokens.py`.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from corpusfit.kernels.tokens import finish, mix

LAST = 0x3000
"""First code point that the table does not have."""
COMPLEX = 0xFFFFFFFF
"""What a code point stands for if that depends on others, or is several."""


@njit(cache=True, nogil=True)
def hash_letters(
    data: NDArray[np.uint8], bounds: NDArray[np.int64], table: NDArray[np.uint32]
) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Hash n UTF-8 texts.

    Args:
        data: the bytes of the texts.
        bounds: int64 [n, 2], where each begins and ends.
        table: uint32 [LAST], what each code point stands for; 0 for nothing.

    Returns:
        uint64 [n], the hashes; bool [n], whether they hold: false for texts with a code point that
        is `COMPLEX` or not in the table, and for those in which nothing counts.
    """
    hashes = np.zeros(len(bounds), np.uint64)
    holds = np.zeros(len(bounds), np.bool_)
    for t in range(len(bounds)):
        i, end = bounds[t]
        h = np.uint64(0)
        counts = False
        simple = True
        while i < end and simple:
            first = np.uint32(data[i])
            if first < 0x80:
                point = first
                i += 1
            elif first < 0xE0:
                point = (first & 0x1F) << 6 | (data[i + 1] & 0x3F)
                i += 2
            elif first < 0xF0:
                middle = np.uint32(data[i + 1] & 0x3F)
                point = (first & 0x0F) << 12 | middle << 6 | (data[i + 2] & 0x3F)
                i += 3
            else:
                point = np.uint32(LAST)
            letter = table[point] if point < LAST else np.uint32(COMPLEX)
            simple = letter != COMPLEX
            if simple and letter:
                h = mix(h, np.uint64(letter))
                counts = True
        hashes[t] = finish(h)
        holds[t] = simple and counts
    return hashes, holds


@njit(cache=True, nogil=True)
def hash_points(points: NDArray[np.uint32], ends: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Hash n texts by their code points, uint32 [p], and where each ends: uint64 [n]."""
    hashes = np.empty(len(ends), np.uint64)
    i = 0
    for t in range(len(ends)):
        h = np.uint64(0)
        while i < ends[t]:
            h = mix(h, np.uint64(points[i]))
            i += 1
        hashes[t] = finish(h)
    return hashes
