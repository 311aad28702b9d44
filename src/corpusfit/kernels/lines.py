"""Read texts from lines without building objects: a field of JSON lines, documents of plain text.

What: scans a block of lines once and copies the texts to a buffer; of JSON lines it checks that
each is an object, and unescapes one string field. Any unusual line or document is marked for a full
parser.
Why: a parser that builds objects spends most of its time on values that are then discarded, and an
object for each of many small files takes longer than its scoring.
Trade-off: what these kernels do not decide is parsed again by the caller: malformed or unusual
lines, a missing or repeated field, escapes in names, lone surrogates, numbers of hundreds of
digits; documents with NUL, or perhaps without a letter. The caller also checks UTF-8 for all lines
at once.
Reference: RFC 8259.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from corpusfit.kernels.machine_words import (
    HIGH,
    Word,
    bytes_before,
    first_stop,
    load,
    newline_bytes,
    store,
)
from corpusfit.kernels.tokens import utf8

_Bytes = NDArray[np.uint8]
_Offsets = NDArray[np.int64]
_QUOTE = 0x22
_BACKSLASH = 0x5C
_OPEN = 0x7B
_CLOSE = 0x7D
_COMMA = 0x2C
_COLON = 0x3A
_LIST = 0x5B
_END_LIST = 0x5D
_MINUS = 0x2D
_ZERO = 0x30
_POINT = 0x2E
_TAB = 0x09
_NEWLINE = 0x0A
_RETURN = 0x0D
_SPACE = 0x20
_MAX_DEPTH = 60
# A number of this many characters is finite, as its exponent has two digits at most.
_MAX_NUMBER_CHARACTERS = 200
_EXPONENT = 0x65
_PLUS = 0x2B
_UNDECIDED = -1  # end of a value that this kernel does not decide
_EACH = np.uint64(0x0101010101010101)
_RETURNS = np.uint64(0x0D0D0D0D0D0D0D0D)


@njit(cache=True, nogil=True)
def _ends_from(data: _Bytes, i: int, ends: _Offsets) -> tuple[int, int]:
    """Line ends from byte i on while there is room; returns their number and where to continue."""
    n = 0
    last = len(data) - 8
    while i <= last and n < len(ends):
        seen = newline_bytes(load(data, i))
        if not seen:
            i += 8
            continue
        i += bytes_before(seen) + 1
        ends[n] = i - 1
        n += 1
    while last < i < len(data) and n < len(ends):
        if data[i] == _NEWLINE:
            ends[n] = i
            n += 1
        i += 1
    return n, i


def line_ends(data: _Bytes) -> _Offsets:
    """int64 [m]: offsets of the line ends in uint8 [b]."""
    parts = [np.empty(0, np.int64)]
    at = 0
    while at < len(data):
        ends = np.empty(64 + (len(data) - at) // 128, np.int64)
        n, at = _ends_from(data, at, ends)
        parts.append(ends[:n])
    return np.concatenate(parts)


def line_spans(data: bytes) -> tuple[_Offsets, _Offsets]:
    """Where each line begins and ends: int64 [lines] twice.

    A final line end begins no line.
    """
    ends = line_ends(np.frombuffer(data, np.uint8))
    begins = np.concatenate((np.zeros(1, np.int64), ends + 1))
    if begins[-1] == len(data):
        return begins[:-1], ends
    return begins, np.append(ends, len(data))


@njit(cache=True, nogil=True, inline="always")
def _space(data: _Bytes, i: int, end: int) -> Any:
    while i < end and (data[i] == 0x20 or data[i] == 0x09 or data[i] == 0x0D):
        i += 1
    return i


@njit(cache=True, nogil=True)
def _hex4(data: _Bytes, i: int, end: int) -> Any:
    """The value of four hexadecimal digits, or -1."""
    if i + 4 > end:
        return -1
    value: Any = 0
    for j in range(i, i + 4):
        c = np.int64(data[j])
        if 0x30 <= c <= 0x39:
            digit = c - 0x30
        elif 0x61 <= c | 0x20 <= 0x66:
            digit = (c | 0x20) - 0x61 + 10
        else:
            return -1
        value = value << 4 | digit
    return value


@njit(cache=True, nogil=True)
def _escape(data: _Bytes, i: int, end: int) -> tuple[Any, int]:
    """The code point of the escape at i and the index after it; -1 for an unusual escape."""
    if i + 1 >= end:
        return -1, i
    c = data[i + 1]
    for letter, code in ((0x6E, 10), (0x74, 9), (0x72, 13), (0x62, 8), (0x66, 12)):
        if c == letter:
            return code, i + 2
    if c in (_QUOTE, _BACKSLASH, 0x2F):
        return np.int64(c), i + 2
    if c != 0x75:
        return -1, i
    code = _hex4(data, i + 2, end)
    i += 6
    if 0xD800 <= code < 0xDC00 and i + 1 < end and data[i] == _BACKSLASH and data[i + 1] == 0x75:
        low = _hex4(data, i + 2, end)
        if 0xDC00 <= low < 0xE000:
            return 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00), i + 6
    return (-1 if code <= 0 or 0xD800 <= code < 0xE000 else code), i


@njit(cache=True, nogil=True)
def _read_string(data: _Bytes, i: int, end: int, out: _Bytes | None, j: int) -> tuple[int, int]:
    """Unescape the string whose content begins at i into out[j:]; both ends, or `_UNDECIDED`.

    Without `out`, for which numba drops the branches, nothing is written.
    """
    last = len(data) - 8
    while i < end:
        if i <= last:
            # copy eight bytes at once, and go on after the plain ones among them
            x = load(data, i)
            stop = first_stop(x)
            if out is not None:
                store(out, j, x)
            i += stop
            j += stop
            if stop == 8:
                continue
            if i >= end:
                return _UNDECIDED, j
        c = data[i]
        if c == _QUOTE:
            return i + 1, j
        if c < 0x20:
            return _UNDECIDED, j
        if c == _BACKSLASH:
            code, i = _escape(data, i, end)
            if code < 0:
                return _UNDECIDED, j
            packed, length = utf8(code)
            if out is not None:
                store(out, j, packed)
            j += length
        else:
            if out is not None:
                out[j] = c
            i += 1
            j += 1
    return _UNDECIDED, j


@njit(cache=True, nogil=True)
def _skip_string(data: _Bytes, i: int, end: int) -> Any:
    """One past the closing quote of the string whose content begins at i, or `_UNDECIDED`."""
    return _read_string(data, i, end, None, 0)[0]


@njit(cache=True, nogil=True)
def _digits(data: _Bytes, i: int, end: int) -> Any:
    while i < end and 0x30 <= data[i] <= 0x39:
        i += 1
    return i


@njit(cache=True, nogil=True)
def _skip_number(data: _Bytes, i: int, end: int) -> Any:
    begin = i
    if data[i] == _MINUS:
        i += 1
    whole = i
    i = _digits(data, i, end)
    if i == whole or (data[whole] == _ZERO and i > whole + 1):
        return _UNDECIDED
    if i < end and data[i] == _POINT:
        fraction = i + 1
        i = _digits(data, fraction, end)
        if i == fraction:
            return _UNDECIDED
    if i < end and data[i] | 0x20 == _EXPONENT:
        i += 1
        if i < end and (data[i] == _MINUS or data[i] == _PLUS):
            i += 1
        exponent = i
        i = _digits(data, exponent, end)
        if not 0 < i - exponent <= 2:
            return _UNDECIDED
    return i if i - begin <= _MAX_NUMBER_CHARACTERS else _UNDECIDED


@njit(cache=True, nogil=True)
def _is(data: _Bytes, i: int, end: int, word: _Bytes) -> bool:
    if i + len(word) > end:
        return False
    same = True
    for k in range(len(word)):
        same &= data[i + k] == word[k]
    return same


_TRUE, _FALSE, _NULL = (np.frombuffer(w, np.uint8).copy() for w in (b"true", b"false", b"null"))


@njit(cache=True, nogil=True)
def _skip_plain(data: _Bytes, i: int, end: int) -> Any:
    """One past the string, number or word at i; `_UNDECIDED` if there is none."""
    if i >= end:
        return _UNDECIDED
    if data[i] == _QUOTE:
        return _skip_string(data, i + 1, end)
    if data[i] == _MINUS or 0x30 <= data[i] <= 0x39:
        return _skip_number(data, i, end)
    if _is(data, i, end, _TRUE) or _is(data, i, end, _NULL):
        return i + 4
    return i + 5 if _is(data, i, end, _FALSE) else _UNDECIDED


@njit(cache=True, nogil=True)
def _skip_name(data: _Bytes, i: int, end: int) -> int:
    """One past `"name" :` and the space after it."""
    if i >= end or data[i] != _QUOTE:
        return _UNDECIDED
    i = _skip_string(data, i + 1, end)
    if i < 0:
        return _UNDECIDED
    i = _space(data, i, end)
    return _space(data, i + 1, end) if i < end and data[i] == _COLON else _UNDECIDED


@njit(cache=True, nogil=True)
def _skip_value(data: _Bytes, i: int, end: int) -> int:  # noqa: PLR0912
    """One past the value at i, fully checked; `_UNDECIDED` if it is not plain JSON.

    One loop with the open brackets as bits of an integer, because recursion is slow in numba.
    """
    kinds = 0  # lowest bit: whether the innermost bracket is an object's
    depth = 0
    while True:
        if i < end and (data[i] == _OPEN or data[i] == _LIST):
            is_object = data[i] == _OPEN
            kinds = kinds << 1 | is_object
            depth = depth + 1
            if depth > _MAX_DEPTH:
                return _UNDECIDED
            i = _space(data, i + 1, end)
            if i < end and data[i] == (_CLOSE if is_object else _END_LIST):
                i += 1
                kinds = kinds >> 1
                depth = depth - 1
            elif is_object:
                i = _skip_name(data, i, end)
                if i < 0:
                    return _UNDECIDED
                continue
            else:
                continue
        else:
            i = _skip_plain(data, i, end)
            if i < 0:
                return _UNDECIDED
        while depth > 0:
            i = _space(data, i, end)
            if i >= end:
                return _UNDECIDED
            if data[i] == _COMMA:
                i = _space(data, i + 1, end)
                if kinds & 1:
                    i = _skip_name(data, i, end)
                    if i < 0:
                        return _UNDECIDED
                break
            if data[i] != (_CLOSE if kinds & 1 else _END_LIST):
                return _UNDECIDED
            i += 1
            kinds = kinds >> 1
            depth = depth - 1
        if depth == 0:
            return i


@njit(cache=True, nogil=True)
def has_text(out: _Bytes, begin: int, end: int) -> bool:
    """Whether out[begin:end] certainly holds a character other than white space and line ends.

    Unicode's spaces begin with the bytes C2, E1, E2 or E3 in UTF-8.
    """
    for i in range(begin, end):
        c = out[i]
        if 0x20 < c < 0x7F or 0xC3 <= c < 0xE1 or c > 0xE3:
            return True
    return False


@njit(cache=True, nogil=True)
def _line_text(data: _Bytes, i: int, end: int, field: _Bytes, out: _Bytes, j: int) -> int:
    """Copy the field's text of one line to out[j:]; returns its end, or `_UNDECIDED`."""
    text_end = _UNDECIDED
    i = _space(data, i, end)
    if i >= end or data[i] != _OPEN:
        return _UNDECIDED
    while True:
        name = _space(data, i + 1, end) + 1
        value = _skip_name(data, name - 1, end)
        if value < 0:
            return _UNDECIDED
        wanted = _is(data, name, end, field) and data[name + len(field)] == _QUOTE
        if wanted and (text_end >= 0 or value >= end or data[value] != _QUOTE):
            return _UNDECIDED
        if wanted:
            i, text_end = _read_string(data, value + 1, end, out, j)
        else:
            if data[name] == _BACKSLASH or _escaped(data, name, value):
                return _UNDECIDED
            i = _skip_value(data, value, end)
        if i < 0:
            return _UNDECIDED
        i = _space(data, i, end)
        if i >= end or (data[i] != _COMMA and data[i] != _CLOSE):
            return _UNDECIDED
        if data[i] == _CLOSE:
            return text_end if _space(data, i + 1, end) >= end else _UNDECIDED


@njit(cache=True, nogil=True)
def _escaped(data: _Bytes, begin: int, end: int) -> bool:
    escaped = False
    for i in range(begin, end):
        escaped |= data[i] == _BACKSLASH
    return escaped


@njit(cache=True, nogil=True)
def field_texts(
    data: _Bytes, begins: _Offsets, ends: _Offsets, field: _Bytes, out: _Bytes
) -> tuple[_Offsets, NDArray[np.bool_]]:
    """The text of one field of every plain line.

    Args:
        data: uint8 [b], the lines.
        begins: int64 [n], where each line to be read begins.
        ends: int64 [n], where it ends, its line end not counted.
        field: uint8, the field's name in UTF-8.
        out: uint8 with room for b + 8 bytes; the texts are written here, one after the other.

    Returns:
        through: int64 [n + 1], where in `out` each line's text begins, and the last one's end.
        plain: bool [n], False for a line that needs a full parser; its text here is empty.
    """
    # a literal 0 would have a type of its own, for which numba compiles again
    n = len(begins)
    j = np.int64(0)
    through = np.zeros(n + 1, np.int64)
    plain = np.zeros(n, np.bool_)
    for line in range(n):
        text_end = _line_text(data, begins[line], ends[line], field, out, j)
        if text_end > j and has_text(out, j, text_end):
            j = text_end
            plain[line] = True
        through[line + 1] = j
    return through, plain


@njit(cache=True, nogil=True, inline="always")
def _unusual(x: Word) -> Word:
    """Nonzero if a byte of x is NUL or a carriage return."""
    other = x ^ _RETURNS
    return (((x - _EACH) & ~x) | ((other - _EACH) & ~other)) & HIGH


@njit(cache=True, nogil=True, inline="always")
def _stripped(data: _Bytes, begin: int, end: int) -> int:
    """The end of data[begin:end] without trailing white space and line ends."""
    while end > begin and (data[end - 1] == _SPACE or _TAB <= data[end - 1] <= _RETURN):
        end -= 1
    return end


@njit(cache=True, nogil=True, inline="always")
def _is_blank(data: _Bytes, begin: int, end: int) -> bool:
    """Whether data[begin:end] is white space, U+00A0 and U+3000 included, which typists leave."""
    while end > begin:
        rest = _stripped(data, begin, end)
        if rest - begin >= 2 and data[rest - 2] == 0xC2 and data[rest - 1] == 0xA0:
            rest -= 2
        elif (
            rest - begin >= 3
            and data[rest - 3] == 0xE3
            and data[rest - 2] == 0x80
            and data[rest - 1] == 0x80
        ):
            rest -= 3
        if rest == end:
            return False
        end = rest
    return True


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
    data: _Bytes, ends: _Offsets, by_line: bool, out: _Bytes
) -> tuple[_Offsets, _Offsets, _Offsets, _Offsets, NDArray[np.bool_]]:
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
    max_lines = len(ends) + 1
    rows, begins, stops = np.empty((3, max_lines), np.int64)
    through = np.zeros(max_lines + 1, np.int64)
    plain = np.zeros(max_lines, np.bool_)
    n = 0
    begin = -1
    first = 0
    at = 0
    for line in range(max_lines):
        end = ends[line] if line < len(ends) else len(data)
        last = line == len(ends)
        if last and at == len(data) and begin < 0:
            break
        blank = _is_blank(data, at, end)
        if begin < 0 and (by_line or not blank):
            begin = at
            first = line
        if begin >= 0 and (by_line or blank or last):
            stop = _stripped(data, begin, at if blank and not by_line else end)
            rows[n] = first
            begins[n] = begin
            stops[n] = stop
            j = _copy(data, begin, stop, out, through[n])
            through[n + 1] = through[n]
            if j > through[n] and has_text(out, through[n], j):
                through[n + 1] = j
                plain[n] = True
            n += 1
            begin = -1
        at = end + 1
    return rows[:n], begins[:n], stops[:n], through[: n + 1], plain[:n]
