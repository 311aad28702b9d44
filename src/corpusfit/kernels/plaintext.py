"""Find the documents of plain text without building objects.

What: scans a block of text once, line by line, and copies each document, without the white space
around it, to a buffer; any unusual document is marked for a full parser.
Why: of many small files each is a document, and an object for each takes longer than its scoring.
Trade-off: documents that this kernel does not decide (with NUL, or perhaps without a letter) are
parsed again by the caller. The caller also checks UTF-8 for all documents at once.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from corpusfit.kernels.jsonlines import has_text
from corpusfit.kernels.words import Word, load, store

_Bytes = NDArray[np.uint8]
_Places = NDArray[np.int64]
_TAB, _NEWLINE, _RETURN, _SPACE = 9, 10, 13, 32
_EACH, _HIGH = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_RETURNS = np.uint64(0x0D0D0D0D0D0D0D0D)


@njit(cache=True, nogil=True, inline="always")
def _unusual(x: Word) -> Word:
    """Nonzero if a byte of x is NUL or a carriage return."""
    other = x ^ _RETURNS
    return (((x - _EACH) & ~x) | ((other - _EACH) & ~other)) & _HIGH


@njit(cache=True, nogil=True, inline="always")
def _white(c: int) -> bool:
    """Whether it is a space, a tab, or ends a line or a page."""
    return c == _SPACE or _TAB <= c <= _RETURN


@njit(cache=True, nogil=True)
def _copy(data: _Bytes, begin: int, end: int, out: _Bytes, j: int) -> int:
    """Copy data[begin:end] to out[j:] with plain line ends; returns its end, or -1 for a NUL."""
    i = begin
    while i < end:
        if i + 8 <= end:
            x = load(data, i)
            if not _unusual(x):
                store(out, j, x)
                i += 8
                j += 8
                continue
        if data[i] == 0:
            return -1
        if data[i] != _RETURN or i + 1 == end or data[i + 1] != _NEWLINE:
            out[j] = data[i]
            j += 1
        i += 1
    return j


@njit(cache=True, nogil=True)
def document_texts(
    data: _Bytes, ends: _Places, by_line: bool, out: _Bytes
) -> tuple[_Places, _Places, _Places, _Places, NDArray[np.bool_]]:
    """The n documents of plain text.

    Args:
        data: uint8 [b], whole lines.
        ends: int64 [m], the offsets of its line ends.
        by_line: whether each line is a document, also a blank one; else blank lines end documents.
        out: uint8 with room for b + 8 bytes; the texts are written here, one after the other.

    Returns:
        rows: int64 [n], the line on which each document begins, from 0.
        begins: int64 [n], where it begins.
        stops: int64 [n], where it ends, the white space after it not counted.
        through: int64 [n + 1], where in `out` each text begins, and the last one's end.
        plain: bool [n], False for a document that needs a full parser; its text here is empty.
    """
    most = len(ends) + 1
    rows, begins, stops = np.empty((3, most), np.int64)
    through, plain = np.zeros(most + 1, np.int64), np.zeros(most, np.bool_)
    n, begin, first, at = 0, -1, 0, 0
    for line in range(most):
        end = ends[line] if line < len(ends) else len(data)
        last = line == len(ends)
        if last and at == len(data) and begin < 0:
            break
        stop = end
        while stop > at and _white(data[stop - 1]):
            stop -= 1
        blank = stop == at
        if begin < 0 and (by_line or not blank):
            begin, first = at, line
        if begin >= 0 and (by_line or blank or last):
            stop = end
            while stop > begin and _white(data[stop - 1]):
                stop -= 1
            rows[n], begins[n], stops[n] = first, begin, stop
            j = _copy(data, begin, stop, out, through[n])
            through[n + 1] = through[n]
            if j > through[n] and has_text(out, through[n], j):
                through[n + 1], plain[n] = j, True
            n += 1
            begin = -1
        at = end + 1
    return rows[:n], begins[:n], stops[:n], through[: n + 1], plain[:n]
