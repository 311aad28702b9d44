"""Cut documents into units in a single pass over their bytes.

What: sentence borders, an estimate of word pieces, and the packing into windows, together.
Why: every byte of the corpus passes here for every method, so cutting must not cost more than
reading; and units must not depend on a model's tokenizer, or the scores of two embedders could not
be compared.
Trade-off: word pieces are estimated (one for a word of up to six letters, one more for every four
further letters; one for three digits; one for a sign or a character of a script without spaces),
which is within about 15 % of BERT's own count on English text and below it on other languages.
Sentence borders follow terminators and blank lines with a short list of abbreviations; a wrong
border only moves a window's edge.
Reference: TADPOLE, section 3.2 and appendix D (a "sentence" is about 256 word pieces).
"""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from corpusfit.kernels.characters import IDEOGRAPHIC, UNSPACED
from corpusfit.kernels.machine_words import (
    HIGH,
    REACH,
    bytes_before,
    letter_bits,
    letter_bytes,
    load,
    twice,
    zeros_below,
)

WINDOW, SENTENCE, PARAGRAPH, FIXED, WHOLE = range(5)
"""Where units end: packed sentences, each sentence, each paragraph, fixed windows, nowhere."""

_SPACE, _NEWLINE, _LETTER, _LOWER, _UPPER, _DIGIT, _SIGN = range(7)
_STOP, _FULL, _CLOSER, _SOLO, _SPACED, _PHRASED = range(7, 13)
# _SOLO: scripts without spaces whose sentences end with a full-width stop (Chinese, Japanese).
# _SPACED: scripts without spaces between words that put one between sentences (Thai, Lao …).
# _PHRASED: the same, but with a stop between sentences, and spaces between phrases (Khmer …).
# _STOP needs white space behind it to end a sentence, _FULL does not.

STOPS = ".!?…‽‼⁇⁈⁉؟؞۔։׃܀߹።।॥෴᙮᠃᠉᥄᥅᱾⸮꓿꘎꛳꯫"
FULLS = "。！？．｡︒﹒﹖﹗។៕။།༎༏༐༑༔᪨᪩᭚᭛᭞᭟꧉꩝꩞꩟"
# beginnings of the names of characters in scripts that have such stops
_OF_PHRASES = ("KHMER", "MYANMAR", "TIBETAN", "TAI THAM", "BALINESE", "JAVANESE")
CLOSERS = ")]}\"'”’»›」』）】〉》"
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
_SMALL_A = 0x61
_POINT = 0x2E
_ONE = np.uint64(1)


def _class_of(char: str) -> int:
    category = unicodedata.category(char)
    if char in "\n\r\v\f\x85\u2028\u2029":
        return _NEWLINE
    for chars, kind in ((STOPS, _STOP), (FULLS, _FULL), (CLOSERS, _CLOSER)):
        if char in chars:
            return kind
    if category in ("Zs", "Cc"):
        return _SPACE
    if category[0] in "LM":
        name = unicodedata.name(char, "")
        if name.startswith(IDEOGRAPHIC):
            return _SOLO
        if name.startswith(_OF_PHRASES):
            return _PHRASED
        if name.startswith(UNSPACED):
            return _SPACED
        return {"Ll": _LOWER, "Lu": _UPPER, "Lt": _UPPER}.get(category, _LETTER)
    return _DIGIT if category == "Nd" else _SIGN


@cache
def class_table() -> NDArray[np.uint8]:
    """uint8 [0x110000]: the class of every code point.

    Planes 2 and 3 are Chinese characters; planes above them count as signs.
    """
    table = np.full(0x110000, _SIGN, np.uint8)
    table[:0x20000] = [_class_of(chr(c)) for c in range(0x20000)]
    table[0x20000:0x40000] = _SOLO
    return table


@njit(cache=True, nogil=True)
def _is_abbreviation(data: NDArray[np.uint8], end: int, length: int, initial: bool) -> bool:
    """Whether the word of `length` letters before a full stop is an initial or abbreviation."""
    if length == 1:
        return initial
    if length == 0 or length > _PACK_LIMIT:
        return False
    packed = np.uint64(0)
    for j in range(end - length, end):
        if data[j] >= 0x80:
            return False
        packed = (packed << np.uint64(8)) | np.uint64(data[j] | 0x20)
    same = False
    for known in _PACKED:
        same |= known == packed
    return same


@njit(cache=True, nogil=True, inline="always")
def _further(letters: int) -> int:
    """Pieces of a word beyond its first."""
    return max(0, letters - _SINGLE_PIECE + _FURTHER_PIECE - 1) // _FURTHER_PIECE


@njit(cache=True, nogil=True)
def _characters(data: NDArray[np.uint8], begin: int, end: int) -> int:
    """Code points in data[begin:end]: the bytes that do not continue one."""
    count = 0
    for j in range(begin, end):
        count += (data[j] & 0xC0) != 0x80
    return count


@njit(cache=True, nogil=True)
def _cut_document(  # noqa: C901, PLR0912, PLR0915
    data: NDArray[np.uint8],
    begin: int,
    end: int,
    table: NDArray[np.uint8],
    mode: int,
    limit: int,
    ends: NDArray[np.int64],
    lengths: NDArray[np.int64],
    pieces: NDArray[np.int32],
) -> int:
    """Write one document's units to the last three arrays; returns their number, -1 without room.

    One loop by design: it keeps its whole state in registers. The rest of a word of ASCII letters,
    the space after it and the first letter of the next word are skipped without further checks.
    """
    if len(ends) == 0:
        return -1
    max_pieces: Any = limit if mode != WHOLE else np.int64(1) << 62
    i = begin
    n = 0
    last = len(data) - 8
    reach = len(data) - REACH
    # the begin of the open unit, the pieces so far, and those before the unit
    start = i
    total = 0
    at_start = 0
    # the last sentence border in the unit, and the pieces before it
    sentence = i
    at_sentence = 0
    word = i  # the same for the last word border
    at_word = 0
    letters = 0  # of the open word
    digits = 0
    upper = False
    after_stop = False
    # 1 after a stop, 2 after a stop and a space, 3 after a full-width stop
    state = 0
    gap = False  # white space just passed
    newlines = 0
    before: Any = _SPACE  # the class before it
    ascii_only = True
    while i < end:
        code = np.int64(data[i])
        length = 1
        if code >= 0x80:
            ascii_only = False
            length = 2 if code < 0xE0 else 3 if code < 0xF0 else 4
            code &= 0x7F >> length
            for j in range(i + 1, i + length):
                code = (code << 6) | (np.int64(data[j]) & 0x3F)
        kind = np.int64(table[code])
        calm = letters == 0 and newlines < 2 and before < _SOLO
        calm &= state == 0 or (state == 2 and mode != SENTENCE)
        if calm and i <= reach and length == 1 and _LETTER <= kind <= _UPPER:
            if state == 2 and kind != _LOWER and total > at_start:
                sentence = i
                at_sentence = total
            state = 0
            letter_at, space_at = letter_bits(data, i)  # words, a sign at most and a space between
            if end - i < 64:
                letter_at &= (_ONE << np.uint64(end - i)) - _ONE
            k = 0
            more = True
            taken = False
            while more:
                run = zeros_below(~(letter_at >> np.uint64(k)))
                cost = 1 + _further(run)
                if k + run >= 62 or total + cost - at_start > max_pieces:
                    break
                if gap and total > at_start:
                    word = i + k
                    at_word = total
                total += cost
                letters = run
                upper = data[i + k] < _SMALL_A
                gap = False
                taken = True
                k += run
                more = (space_at >> np.uint64(k)) & (letter_at >> np.uint64(k + 1)) & _ONE != 0
                if more:
                    k += 1
                elif (space_at >> np.uint64(k + 1)) & (letter_at >> np.uint64(k + 2)) & _ONE:
                    byte = data[i + k]
                    sign = table[byte] if byte < 0x80 else _SOLO
                    stop = sign == _STOP and mode != SENTENCE
                    more = (stop or sign in (_SIGN, _CLOSER)) and total < at_start + max_pieces
                    total += more
                    k += 2 * more
                    if more and stop and data[i + k] < _SMALL_A:
                        short = byte == _POINT and _is_abbreviation(data, i + k - 2, run, upper)
                        if not short:
                            sentence = i + k
                            at_sentence = total
                if more:
                    letters = 0
                    gap = True
            if taken:
                digits = 0
                newlines = 0
                after_stop = False
                before = _LOWER
                i += k
                continue
        if kind <= _NEWLINE:
            letters = 0
            digits = 0
            gap = True
            if state == 1:
                state = 2
            newlines += kind == _NEWLINE and code != 13
            i += length
            continue

        cost = 1
        letter = _LETTER <= kind <= _UPPER
        if letter:
            if letters == 0:
                upper = kind == _UPPER
                after_stop = state == 1
            else:
                cost = _further(letters + 1) - _further(letters)
            letters += 1
        elif kind == _DIGIT and digits > 0:
            cost = 0

        full = total + cost - at_start > max_pieces
        if state == 0 and newlines < 2 and not full and kind < _SOLO and before < _SOLO:
            if gap and total > at_start:
                word = i
                at_word = total
        elif not (letter and cost == 0):
            rank = 0
            if newlines >= 2:
                rank = 2
            elif (
                (state == 2 and kind != _LOWER)
                or (state == 3 and kind != _CLOSER and kind != _FULL and kind != _STOP)  # noqa: PLR1714
                or (gap and before == _SPACED and kind == _SPACED)
            ):
                rank = 1
            filled = total > at_start
            if filled and (gap or kind == _SOLO or before == _SOLO):  # noqa: PLR1714
                word = i
                at_word = total
            if filled and rank > 0:
                sentence = i
                at_sentence = total
            cut = -1
            at_cut = 0
            if filled and ((mode == SENTENCE and rank > 0) or (mode == PARAGRAPH and rank == 2)):
                cut = i
                at_cut = total
            elif filled and full:
                cut = i
                at_cut = total
                if mode != FIXED and sentence > start:
                    cut = sentence
                    at_cut = at_sentence
                elif word > start:
                    cut = word
                    at_cut = at_word
            if cut >= 0:
                if n + 1 >= len(ends):
                    return -1
                ends[n] = cut
                pieces[n] = at_cut - at_start
                lengths[n] = cut - start if ascii_only else _characters(data, start, cut)
                n += 1
                start = cut
                at_start = at_cut
        total += cost
        i += length
        gap = False
        newlines = 0
        before = kind

        if letter:
            digits = 0
            state = 0
            # pass over the rest of a word at once, unless it fills the unit
            if length == 1 and i <= last:
                run = min(bytes_before(letter_bytes(load(data, i)) ^ HIGH), end - i)
                more = _further(letters + run) - _further(letters)
                if total + more - at_start <= max_pieces:
                    total += more
                    letters += run
                    i += run
            continue
        if kind == _DIGIT:
            digits = digits + 1 if digits < _DIGITS_A_PIECE - 1 else 0
            letters = 0
            state = 0
            continue
        if kind == _STOP:
            initial = upper or after_stop
            short = code == _POINT and _is_abbreviation(data, i - 1, letters, initial)
            state = 0 if short else 1
            if short and letters == 1:
                after_stop = True
        elif kind == _FULL:
            state = 3
        elif not (kind == _CLOSER and (state == 1 or state == 3)):  # noqa: PLR1714
            state = 0
        letters = 0
        digits = 0
    ends[n] = end
    pieces[n] = total - at_start
    lengths[n] = end - start if ascii_only else _characters(data, start, end)
    return n + 1


@njit(cache=True, nogil=True)
def cut_points(
    data: NDArray[np.uint8],  # uint8, the documents' texts in UTF-8
    # int64 [n + 1]; document d is `data[offsets[d] : offsets[d + 1]]` and not empty
    offsets: NDArray[np.int64],
    table: NDArray[np.uint8],  # what `class_table` returns
    mode: int,  # one of `WINDOW`, `SENTENCE`, `PARAGRAPH`, `FIXED`, `WHOLE`
    limit: int,  # no unit has more word pieces than this, except with `WHOLE`
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
    """Where the units of documents end, and their numbers of word pieces.

    Returns:
        counts: int64 [n], units of each document.
        ends: int64 [k], where each unit ends in `data`; it begins where the one before it ends.
        lengths: int64 [k], its length in code points.
        pieces: int32 [k], estimated word pieces of each.
    """
    n = len(offsets) - 1
    k = 0
    capacity = 64 + n + len(data) // 512
    counts = np.empty(n, np.int64)
    ends = np.empty(capacity, np.int64)
    lengths = np.empty(capacity, np.int64)
    pieces = np.empty(capacity, np.int32)
    for d in range(n):
        cuts = -1
        while cuts < 0:
            begin = offsets[d]
            end = offsets[d + 1]
            rest = (ends[k:], lengths[k:], pieces[k:])
            cuts = _cut_document(data, begin, end, table, mode, limit, *rest)
            if cuts < 0:
                ends = twice(ends)
                lengths = twice(lengths)
                pieces = twice(pieces)
        counts[d] = cuts
        k += cuts
    return counts, ends[:k], lengths[:k], pieces[:k]
