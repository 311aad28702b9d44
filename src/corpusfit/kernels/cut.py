"""Cut one document into units in a single pass over its code points.

What: sentence borders, an estimate of word pieces, and the packing into windows, together.
Why: every byte of the corpus passes here, for every method, so it may not cost more than
reading; and units must not depend on a model's tokenizer, or scores of two embedders could not
be laid side by side.
Trade-off: word pieces are estimated (a word of up to six letters is one, every four further
letters one more; three digits are one; a sign or a character of a script without spaces is one),
which is within about 15 % of BERT's own count on English text and below it on other languages.
Sentence borders follow terminators and blank lines with a short list of abbreviations; a wrong
border only moves a window's edge.
Reference: TADPOLE, section 3.2 and appendix D (a "sentence" is about 256 word pieces).
"""

from __future__ import annotations

import unicodedata
from functools import cache

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["FIXED", "PARAGRAPH", "SENTENCE", "WHOLE", "WINDOW", "class_table", "cut_points"]

WINDOW, SENTENCE, PARAGRAPH, FIXED, WHOLE = range(5)
"""Where units end: packed sentences, each sentence, each paragraph, fixed windows, nowhere."""

_SPACE, _NEWLINE, _LETTER, _LOWER, _UPPER, _DIGIT, _SOLO, _SPACED, _SIGN, _STOP, _FULL, _CLOSER = (
    range(12)
)
# _SOLO: scripts without spaces whose sentences end with a full-width stop (Chinese, Japanese).
# _SPACED: scripts without spaces between words that put one between sentences (Thai, Lao …).
# _STOP needs white space behind it to end a sentence, _FULL does not.

_STOPS = ".!?…‽؟۔։።।॥᠃᠉"
_FULLS = "。！？．｡"
_CLOSERS = ")]}\"'”’»›」』）】〉》"
_SOLO_NAMES = ("CJK", "HIRAGANA", "KATAKANA", "BOPOMOFO", "YI SYLLABLE", "HALFWIDTH KATAKANA")
_SPACED_NAMES = ("THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN", "TAI ", "NEW TAI")
_ABBREVIATIONS = (
    "mr mrs ms dr prof sr jr st vs al fig figs eq eqs ref refs vol pp ed eds cf ca approx dept gen "
    "col lt sgt rep sen gov hon rev viz resp sec ch art jan feb mar apr jun jul aug sep sept oct "
    "nov dec bzw usw abs nr tel str"
)
_PACKED = np.array(
    sorted(int.from_bytes(word.encode(), "big") for word in _ABBREVIATIONS.split()), np.uint64
)
_SINGLE_PIECE = 6
_FURTHER_PIECE = 4
_DIGITS_A_PIECE = 3
_PACK_LIMIT = 8


def _class_of(char: str) -> int:  # noqa: PLR0911
    category = unicodedata.category(char)
    if char in "\n\r\v\f\x85\u2028\u2029":
        return _NEWLINE
    for chars, kind in ((_STOPS, _STOP), (_FULLS, _FULL), (_CLOSERS, _CLOSER)):
        if char in chars:
            return kind
    if category in ("Zs", "Cc"):
        return _SPACE
    if category[0] in "LM":
        name = unicodedata.name(char, "")
        if name.startswith(_SOLO_NAMES):
            return _SOLO
        if name.startswith(_SPACED_NAMES):
            return _SPACED
        return {"Ll": _LOWER, "Lu": _UPPER, "Lt": _UPPER}.get(category, _LETTER)
    return _DIGIT if category == "Nd" else _SIGN


@cache
def class_table() -> NDArray[np.uint8]:
    """uint8 [0x110000]: the class of every code point.

    Planes 2 and 3 are Chinese characters; what lies above them counts as signs.
    """
    table = np.full(0x110000, _SIGN, np.uint8)
    table[:0x20000] = [_class_of(chr(c)) for c in range(0x20000)]
    table[0x20000:0x40000] = _SOLO
    return table


@njit(cache=True, nogil=True)
def _is_abbreviation(packed: int, length: int, upper: bool, after_stop: bool) -> bool:
    """Whether the word before a full stop is an initial or a listed abbreviation."""
    if length == 1:
        return upper or after_stop
    if length == 0 or length > _PACK_LIMIT:
        return False
    place = np.searchsorted(_PACKED, np.uint64(packed))
    return bool(place < len(_PACKED) and _PACKED[place] == np.uint64(packed))


@njit(cache=True, nogil=True)
def cut_points(  # noqa: C901, PLR0912, PLR0915
    codes: NDArray[np.uint32], table: NDArray[np.uint8], mode: int, limit: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Where the units of one document end, and how many word pieces each has.

    One loop by design: it keeps its whole state in registers.

    Args:
        codes: uint32 [n], the document's code points; n > 0.
        table: what `class_table` returns.
        mode: one of `WINDOW`, `SENTENCE`, `PARAGRAPH`, `FIXED`, `WHOLE`.
        limit: no unit has more word pieces than this, except with `WHOLE`.

    Returns:
        ends: int64 [k], increasing, the last is n; unit j is `codes[ends[j-1]:ends[j]]`.
        pieces: int32 [k], estimated word pieces of each.
    """
    n = len(codes)
    ends, pieces = np.empty(16, np.int64), np.empty(16, np.int32)
    k = 0
    start, total, at_start = 0, 0, 0  # of the open unit; pieces so far; pieces before the unit
    sentence, at_sentence = 0, 0  # the last sentence border in the unit, pieces before it
    word, at_word = 0, 0  # the same for the last word border
    letters, digits, packed, upper, after_stop = 0, 0, 0, False, False  # of the open word
    state = 0  # 1 after a stop, 2 after a stop and space, 3 after a full-width stop
    gap, newlines, before = False, 0, _SPACE  # white space just passed; the class before it
    for i in range(n):
        kind = table[codes[i]]
        letter = _LETTER <= kind <= _UPPER
        if letter and letters > 0:  # inside a word: nothing can end here but a full window
            over = letters + 1 - _SINGLE_PIECE
            if over <= 0 or over % _FURTHER_PIECE != 1:
                letters += 1
                packed = (packed << 8) | ((codes[i] | 0x20) & 0xFF)
                before = kind
                continue
        blank = kind <= _NEWLINE
        cost = 0
        if letter:
            if letters == 0:
                packed, upper, after_stop = 0, kind == _UPPER, state == 1
            letters += 1
            digits = 0
            packed = (packed << 8) | ((codes[i] | 0x20) & 0xFF)
            over = letters - _SINGLE_PIECE
            cost = 1 if letters == 1 or (over > 0 and over % _FURTHER_PIECE == 1) else 0
        elif kind == _DIGIT:
            cost = 1 if digits % _DIGITS_A_PIECE == 0 else 0
            digits += 1
        elif not blank:
            cost = 1

        if not blank:
            rank = 0
            if newlines >= 2:
                rank = 2
            elif (
                (state == 2 and kind != _LOWER)
                or (state == 3 and kind not in (_CLOSER, _FULL, _STOP))
                or (gap and before == _SPACED and kind == _SPACED)
            ):
                rank = 1
            filled = total > at_start
            if filled and (gap or kind == _SOLO or before == _SOLO):  # noqa: PLR1714
                word, at_word = i, total
            if filled and rank > 0:
                sentence, at_sentence = i, total
            cut, at_cut = -1, 0
            wanted = (mode == SENTENCE and rank > 0) or (mode == PARAGRAPH and rank == 2)
            if wanted and filled:
                cut, at_cut = i, total
            if cut < 0 and mode != WHOLE and total + cost - at_start > limit and filled:
                cut, at_cut = i, total
                if mode != FIXED and sentence > start:
                    cut, at_cut = sentence, at_sentence
                elif word > start:
                    cut, at_cut = word, at_word
            if cut >= 0:
                if k == len(ends):
                    ends = np.append(ends, np.empty(k, np.int64))
                    pieces = np.append(pieces, np.empty(k, np.int32))
                ends[k], pieces[k] = cut, at_cut - at_start
                k += 1
                start, at_start = cut, at_cut
        total += cost

        if kind == _STOP:
            short = codes[i] == 46 and _is_abbreviation(packed, letters, upper, after_stop)
            state = 0 if short else 1
            if short and letters == 1:
                after_stop = True
        elif kind == _FULL:
            state = 3
        elif blank:
            state = 2 if state == 1 else state
        elif not (kind == _CLOSER and state in (1, 3)):
            state = 0
        if not letter:
            letters = 0
            if kind != _DIGIT:
                digits = 0
        if blank:
            newlines += 1 if kind == _NEWLINE and codes[i] != 13 else 0
            gap = True
        else:
            gap, newlines, before = False, 0, kind
    if k == len(ends):
        ends = np.append(ends, np.empty(1, np.int64))
        pieces = np.append(pieces, np.empty(1, np.int32))
    ends[k], pieces[k] = n, total - at_start
    return ends[: k + 1], pieces[: k + 1]
