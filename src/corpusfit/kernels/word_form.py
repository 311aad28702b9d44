"""Texts in Unicode's form NFC, so that a letter with its marks is one word however it is stored.

What: finds the texts that are not in NFC, by their bytes; only these become Python's strings.
Why: files of macOS, text of PDFs and some keyboards store "ệ" as a letter and one or two marks, and
the forms are different bytes. A text is another one in NFC only if it has a character that NFC
replaces, one that joins the characters before, or marks in another order than Unicode's; of most
European text one pass at memory speed shows that it has none.
Trade-off: symbols and marks from U+2000 to U+2FFF are no reason to look at a text, as quotes and
dashes are among them (the signs of Kelvin, Ohm and Ångström have letters as lower case).
Reference: Unicode Standard Annex 15, sections 4 and 9 (composition; quick check).
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple
from unicodedata import combining, decomposition, is_normalized

import numpy as np
from numba import njit
from numpy.typing import NDArray

from corpusfit.kernels.normal_form import normalized
from corpusfit.kernels.tokens import character

_END = 0x30000
_REPLACED, _JOINS, _HANGUL, _MARK = 1, 2, 3, 4
_HANGUL_PARTS = ((0x1161, 0x1176), (0x11A8, 0x11C3))  # vowels, ends


class _Watched(NamedTuple):
    """The characters by which a text may be another one in NFC."""

    kind: NDArray[np.uint8]  # [_END], one of those above, or 0
    order: NDArray[np.uint8]  # [_END], the class by which marks are ordered; 0 is no mark
    joined: NDArray[np.int64]  # sorted: first << 21 | second, of pairs that are others in NFC
    leads: NDArray[np.bool_]  # [65536], whether the first two bytes are those of a watched one


@cache
def _watched() -> _Watched:
    order = np.array([combining(chr(code)) for code in range(_END)], np.uint8)
    kind = np.where(order > 0, _MARK, 0).astype(np.uint8)
    joined, letters = [], []
    for code in range(0xC0, _END):
        parts = decomposition(chr(code)).split()
        if not parts or parts[0].startswith("<"):  # compatibility, which NFC leaves as it is
            continue
        if is_normalized("NFC", chr(code)):
            first, second = (int(part, 16) for part in parts)
            kind[second] = _JOINS
            joined.append(first << 21 | second)
            letters.append(code)
        else:
            kind[code] = _REPLACED
    # "â" and a dot below are "ậ", although its parts are "ạ" and a circumflex
    joined += [
        letter << 21 | mark
        for letter in letters
        for mark in np.flatnonzero((kind == _JOINS) & (order > 0)).tolist()
        if not is_normalized("NFC", chr(letter) + chr(mark))
    ]
    for begin, end in _HANGUL_PARTS:
        kind[begin:end] = _HANGUL
    kind[0x2000:0x3000] = 0
    leads = np.zeros(1 << 16, bool)
    for code in np.flatnonzero(kind).tolist():
        if not 0xD800 <= code < 0xE000:
            one, two = chr(code).encode()[:2]
            leads[one << 8 | two] = True
    return _Watched(kind, order, np.unique(np.array(joined, np.int64)), leads)


@njit(cache=True, nogil=True)
def _has_lead(data: NDArray[np.uint8]) -> bool:
    """Whether a byte may begin a watched character, which most European text lacks."""
    for begin in range(0, len(data), 1 << 14):
        found = False
        for byte in data[begin : begin + (1 << 14)]:  # no branch, so that it is vectorized
            # not Latin, not most of Greek and Cyrillic (0xCF to 0xD1), and not U+2000 to U+2FFF
            found |= (byte >= 0xCC) & ((byte < 0xCF) | (byte > 0xD1)) & (byte != 0xE2)
        if found:
            return True
    return False


@njit(cache=True, nogil=True)
def _suspects(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    kind: NDArray[np.uint8],
    order: NDArray[np.uint8],
    joined: NDArray[np.int64],
    leads: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Of each text [n], whether a character is replaced, joined, or a mark in another order."""
    found = np.zeros(len(offsets) - 1, np.bool_)
    for text in range(len(found)):
        begin, end = offsets[text], offsets[text + 1]
        i = begin
        while i < end and not found[text]:
            first = np.int64(data[i])
            if first < 0x80:
                i += 1
                continue
            if leads[first << 8 | data[i + 1]]:
                code = character(data, i, end)[0]
                what = kind[code] if code < len(kind) else 0
                if what in (_REPLACED, _HANGUL):
                    found[text] = True
                elif what and i > begin:
                    j = i - 1
                    while data[j] & 0xC0 == 0x80:
                        j -= 1
                    before = character(data, j, end)[0]
                    above = order[before] if before < len(order) else 0
                    if what == _MARK:
                        found[text] = above > order[code]
                    else:  # behind a mark it may join the letter before that
                        key = before << 21 | code
                        at = np.searchsorted(joined, key)
                        joins = at < len(joined) and joined[at] == key
                        found[text] = joins or above > 0
            i += 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    return found


def composed(data: NDArray[Any], offsets: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The bytes and offsets of texts in NFC; the same arrays if all are.

    Args:
        data: uint8 [b], UTF-8; text i is `data[offsets[i] : offsets[i + 1]]`.
        offsets: int64 [n + 1].
    """
    if not _has_lead(data):
        return data, offsets
    changed: dict[int, bytes] = {}
    for text in np.flatnonzero(_suspects(data, offsets, *_watched())).tolist():
        spelled = bytes(data[offsets[text] : offsets[text + 1]]).decode()
        one = normalized(spelled)
        if one != spelled:
            changed[text] = one.encode()
    if not changed:
        return data, offsets
    parts, lengths, at = [], np.diff(offsets), offsets[0]
    for text, anew in changed.items():
        parts += [bytes(data[at : offsets[text]]), anew]
        lengths[text], at = len(anew), offsets[text + 1]
    parts.append(bytes(data[at : offsets[-1]]))
    return np.frombuffer(b"".join(parts), np.uint8), np.concatenate(([0], np.cumsum(lengths)))
