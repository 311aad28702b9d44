"""The form in which words are compared, so that a word is one word however it is stored.

What: Unicode's form NFKC for letters and digits, without the characters that are defined to be
invisible (Default_Ignorable_Code_Point: soft hyphens, joiners, variation selectors, byte order
marks) and without the stroke that stretches Arabic words. `word_form` makes it of one text;
`word_forms` of many at once, by their bytes, and looks only at characters that may change.
Why: PDFs, e-books, OCR and Japanese text have ligatures, full-width and mathematical letters and
soft hyphens inside words; macOS and some keyboards store "ệ" as a letter and one or two marks.
What is not NFKC:
- Signs and spaces stay, as they are no part of a word; so do signs for several letters, which stand
  beside words (™, №, ㎏). A sign that is one letter is that letter (ⓐ, the radical ⼀).
- Numbers other than plain digits stay (², ½, ①): 10² is not 102.
- The zero-width space stays between letters of scripts without spaces, such as Khmer and Thai,
  where it separates words. Elsewhere it allows a line to break, and is nothing.
- The zero-width joiner stays before a symbol, as an emoji is not its parts. Between letters, both
  joiners only shape them: no word of Persian, Hindi or Sinhala ends at one (Unicode Standard
  Annex 29), and many are typed without.
- Thai's and Lao's AM stays one letter: nearly all texts have it. Its parts are joined to it.
Trade-off: Persian words that only a joiner tells apart are one word.
Reference: Unicode Standard Annex 15, sections 4 and 9 (composition; quick check); The Unicode
Standard, section 5.21 (ignorable characters).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple
from unicodedata import category, combining, decomposition, is_normalized, name

import numpy as np
from numba import njit
from numpy.typing import NDArray

from corpusfit.kernels.characters import LAST, UNSPACED
from corpusfit.kernels.machine_words import HIGH, bytes_before, load, store
from corpusfit.kernels.normal_form import Form, normalized
from corpusfit.kernels.tokens import character, utf8

_END = 0x110000
# Default_Ignorable_Code_Point without the two below, and the Arabic stroke; first to last
_IGNORABLE = (
    *((0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x640, 0x640), (0x115F, 0x1160)),
    *((0x17B4, 0x17B5), (0x180B, 0x180F), (0x200C, 0x200C), (0x200E, 0x200F), (0x202A, 0x202E)),
    *((0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0)),
    *((0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF)),
)
_SPACE = 0x200B
_JOINER = 0x200D
_AM = (0xE33, 0xEB3)
_NIKHAHIT = [0xE4D, 0xECD]  # which is joined to AM, also before a tone
_AM_PARTS = re.compile("[\u0e4d\u0ecd]([\u0e48-\u0e4b\u0ec8-\u0ecb]?)([\u0e32\u0eb2])")
_HANGUL_PARTS = ((0x1161, 0x1176), (0x11A8, 0x11C3))  # vowels, ends
_ONE = np.uint64(1)
_GROWTH = 11  # most bytes of a form for each byte of its character

# why a character may change its text: see `_FormTables.kind`
_HAS_FORM = 1
_BY_NEIGHBORS = 2
_HAS_PARTS = 3
_JOINS = 4
_MARK = 5
# the neighbors beside which a zero-width space and a joiner stay
_OF_UNSPACED = 1
_SYMBOL = 2


@cache
def _characters() -> list[str]:
    """The characters beyond ASCII, but ideographs and syllables of Hangul, which stay."""
    ranges = (0xA0, 0x3400), (0xA000, 0xAC00), (0xF900, LAST), (0x2F800, 0x2FA20)
    return [chr(code) for begin, end in ranges for code in range(begin, end)]


def _changed_by(form: Form) -> Iterator[tuple[str, str]]:
    """The characters that a form changes, each with what it becomes."""
    chars = [char for char in _characters() if decomposition(char)]
    others = normalized("\n".join(chars), form).split("\n")
    return (pair for pair in zip(chars, others, strict=True) if pair[0] != pair[1])


@cache
def _forms() -> dict[int, str]:
    """The forms of characters that have another, by code point."""
    forms = {code: "" for first, last in _IGNORABLE for code in range(first, last + 1)}
    for char, other in _changed_by("NFKC"):
        if ord(char) in forms or ord(char) in _AM:
            continue
        kind = category(char)
        in_word = kind[0] in "LM" or kind in ("Nd", "Nl", "Pc")
        if in_word or (kind[0] == "S" and len(other) == 1 and other.isalpha()):
            # NFKC puts a space or a stroke before Arabic marks
            forms[ord(char)] = other.strip().replace("\u0640", "")
        elif normalized(char) != char:
            forms[ord(char)] = normalized(char)
    return forms


@cache
def _sides() -> NDArray[np.uint8]:
    """uint8 [_END]: which characters are of scripts without spaces, and which are symbols."""
    sides = np.zeros(_END, np.uint8)
    for char in _characters():
        kind = category(char)[0]
        if kind == "S" and ord(char) not in _forms():
            sides[ord(char)] = _SYMBOL
        elif kind in "LM" and name(char, "").startswith(UNSPACED):
            sides[ord(char)] = _OF_UNSPACED
    return sides


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Patterns of the characters that may change, and of spaces and joiners to remove."""
    unspaced, symbols = (
        "".join(re.escape(chr(code)) for code in np.flatnonzero(_sides() == side).tolist())
        for side in (_OF_UNSPACED, _SYMBOL)
    )
    changing = sorted({*_forms(), _SPACE, _JOINER, *_NIKHAHIT})
    few = "".join(chr(code) for code in changing if code < 0x10000)
    return (
        # all of plane 1, as a pattern is slow with several ranges of it
        re.compile(f"[{few}\U00010000-\U0001ffff\U000e0000-\U000e0fff]"),
        re.compile(f"\u200b(?:(?<![{unspaced}]\u200b)|(?![{unspaced}]))|\u200d(?![{symbols}])"),
    )


_ASCII = bytes(range(128))


def beyond_ascii(text: str) -> str:
    """The characters of a text that are not ASCII, in which patterns search faster."""
    data = text.encode("utf-8", "surrogatepass").translate(None, _ASCII)
    return data.decode("utf-8", "surrogatepass")


def word_form(text: str) -> str:
    """A text in the form in which words are compared; see the module."""
    if text.isascii():
        return text
    changing, ignored = _patterns()
    if changing.search(beyond_ascii(text)):
        text = ignored.sub("", text).translate(_forms())
        text = _AM_PARTS.sub(lambda parts: parts[1] + chr(ord(parts[2]) + 1), text)
    return normalized(text)


class _FormTables(NamedTuple):
    """Tables of the characters that may change a text in its form."""

    kind: NDArray[np.uint8]  # [_END], one of those above, or 0
    order: NDArray[np.uint8]  # [_END], the class by which marks are ordered; 0 is no mark
    side: NDArray[np.uint8]  # [_END], see `_sides`
    joined: NDArray[np.int64]  # sorted: first << 21 | second, of pairs that are others in NFC
    composed: NDArray[np.int32]  # the character of each pair, 0 if NFC makes others of the two
    leads: NDArray[np.bool_]  # [65536], whether some character that may change begins with them
    place: NDArray[np.int32]  # [_END + 1], where a character's form begins in `forms`
    forms: NDArray[np.uint8]  # the bytes of the forms, in the order of the characters


@cache
def _form_tables() -> _FormTables:
    order, kind = np.zeros((2, _END), np.uint8)
    order[[*map(ord, _characters())]] = [*map(combining, _characters())]
    kind[order > 0] = _MARK
    joined: dict[int, int] = {}
    for char, _ in _changed_by("NFD"):
        if is_normalized("NFC", char):
            first, second = (int(part, 16) for part in decomposition(char).split())
            kind[second] = _JOINS
            joined[first << 21 | second] = ord(char)
    # "â" and a dot below are "ậ", although its parts are "ạ" and a circumflex
    joining = np.flatnonzero((kind == _JOINS) & (order > 0)).tolist()
    for letter in [*joined.values()]:
        for mark in joining:
            if not is_normalized("NFC", chr(letter) + chr(mark)):
                joined.setdefault(letter << 21 | mark, 0)
    for begin, end in _HANGUL_PARTS:
        kind[begin:end] = _HAS_PARTS
    kind[_NIKHAHIT] = _HAS_PARTS
    kind[[_SPACE, _JOINER]] = _BY_NEIGHBORS
    forms = {code: form.encode() for code, form in sorted(_forms().items())}
    codes = np.array([*forms])
    kind[codes] = _HAS_FORM
    place = np.zeros(_END + 1, np.int32)
    place[codes + 1] = [*map(len, forms.values())]
    leads = np.zeros(1 << 16, bool)
    for char in map(chr, np.flatnonzero(kind).tolist()):
        one, two = char.encode()[:2]
        leads[one << 8 | two] = True
    return _FormTables(
        kind,
        order,
        _sides(),
        np.array(sorted(joined), np.int64),
        np.array([joined[pair] for pair in sorted(joined)], np.int32),
        leads,
        np.cumsum(place, dtype=np.int32),
        np.frombuffer(b"".join(forms.values()), np.uint8),
    )


@njit(cache=True, nogil=True, inline="always")
def _is_ascii_block(data: NDArray[np.uint8], i: int) -> bool:
    """Whether the 64 bytes from i on are ASCII."""
    x = load(data, i)
    for j in range(8, 64, 8):
        x |= load(data, i + j)
    return bool(x & HIGH == 0)


@njit(cache=True, nogil=True)
def _is_ascii(data: NDArray[np.uint8], i: int, end: int) -> bool:
    """Whether data[i:end] is ASCII."""
    while i + 64 <= end and _is_ascii_block(data, i):
        i += 64
    while i < end and data[i] < 0x80:
        i += 1
    return i == end


@njit(cache=True, nogil=True, inline="always")
def _is_plain(data: NDArray[np.uint8], i: int) -> bool:
    """Whether no byte of the 64 from i on begins a character that may change."""
    other = False
    for byte in data[i : i + 64]:  # no branch, so that it is vectorized
        # most European letters but Greek ones; no byte within a character is above these
        other |= (byte >= 0xC2) & (byte != 0xC3) & (byte != 0xC8) & (byte != 0xD0) & (byte != 0xD1)
    return not other


@njit(cache=True, nogil=True)
def _before(data: NDArray[np.uint8], i: int, begin: int) -> int:
    """The character before i in data[begin:i]; 0 for none."""
    j = i - 1
    while j > begin and data[j] & 0xC0 == 0x80:
        j -= 1
    return character(data, j, i)[0] if i > begin else 0


@njit(cache=True, nogil=True)
def _ignored(
    data: NDArray[np.uint8], i: int, begin: int, end: int, code: int, side: NDArray[np.uint8]
) -> bool:
    """Whether a zero-width space or joiner at i, of three bytes, is removed in data[begin:end]."""
    after = side[character(data, i + 3, end)[0]] if i + 3 < end else 0
    if code == _JOINER:
        return bool(after != _SYMBOL)
    return bool(after != _OF_UNSPACED or side[_before(data, i, begin)] != _OF_UNSPACED)


@njit(cache=True, nogil=True)
def _composed(first: int, second: int, tables: _FormTables) -> int:
    """The character that NFC composes of two; 0 if it makes others of them, -1 if they stay."""
    pair = first << 21 | second
    at = np.searchsorted(tables.joined, pair)
    return tables.composed[at] if at < len(tables.joined) and tables.joined[at] == pair else -1


@njit(cache=True, nogil=True)
def _changes(data: NDArray[np.uint8], i: int, begin: int, end: int, tables: _FormTables) -> bool:
    """Whether the character at i, which may change, changes data[begin:end]."""
    code = character(data, i, end)[0]
    kind = tables.kind[code]
    if kind == _BY_NEIGHBORS:
        return bool(_ignored(data, i, begin, end, code, tables.side))
    if kind not in (_JOINS, _MARK):
        return True
    before = _before(data, i, begin)
    above = tables.order[before]
    if kind == _MARK:
        return bool(above > tables.order[code])
    # behind a mark it may join the letter before that
    return bool(above > 0 or _composed(before, code, tables) >= 0)


@njit(cache=True, nogil=True)
def _suspects(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    asked: NDArray[np.bool_],  # [n], the texts that are looked at
    tables: _FormTables,
) -> NDArray[np.bool_]:
    """Whether each text [n] may change in its form."""
    suspect = np.zeros(len(asked), np.bool_)
    for text in np.flatnonzero(asked):
        begin = offsets[text]
        end = offsets[text + 1]
        i = begin
        while i < end and not suspect[text]:
            stop = min(i + 64, end)
            if stop == i + 64 and (_is_ascii_block(data, i) or _is_plain(data, i)):
                i = stop
            while i < stop:
                firsts = HIGH
                if i + 8 <= len(data):
                    x = load(data, i)
                    firsts = x & (x << _ONE) & HIGH  # the first bytes of characters
                while firsts and not suspect[text]:
                    j = i + bytes_before(firsts)
                    firsts &= firsts - _ONE
                    if j < end and data[j] >= 0xC0:
                        may_change = tables.leads[np.int64(data[j]) << 8 | data[j + 1]]
                        if may_change and tables.kind[character(data, j, end)[0]]:
                            suspect[text] = _changes(data, j, begin, end, tables)
                i += 8
    return suspect


@njit(cache=True, nogil=True)
def _write(
    data: NDArray[np.uint8],
    begin: int,
    end: int,
    out: NDArray[np.uint8],  # with room for `_GROWTH` times the text's bytes, and eight more
    at: int,
    tables: _FormTables,
) -> int:
    """Write one text with the forms of its characters to out[at:]; returns their end."""
    i = begin
    start = at
    while i < end:
        if i + 8 <= len(data):
            x = load(data, i)
            store(out, at, x)  # what is not ASCII is written over
            plain = min(bytes_before(x & HIGH), end - i)
            i += plain
            at += plain
            if plain == 8 or i == end:
                continue
        code, length = character(data, i, end)
        kind = tables.kind[code]
        last = at
        if kind == _HAS_FORM:
            for j in range(tables.place[code], tables.place[code + 1]):
                out[at] = tables.forms[j]
                at += 1
        elif kind != _BY_NEIGHBORS or not _ignored(data, i, begin, end, code, tables.side):
            for j in range(i, i + length):
                out[at] = data[j]
                at += 1
        i += length
        if kind and start < last < at:
            joining, size = character(out, last, at)
            if tables.kind[joining] == _JOINS and last + size == at:
                before = _before(out, last, start)
                composed = _composed(before, joining, tables)
                if composed > 0:
                    at = last - utf8(before)[1]
                    packed, size = utf8(composed)
                    for _ in range(size):
                        out[at] = packed & np.uint64(0xFF)
                        packed >>= np.uint64(8)
                        at += 1
    return at


@njit(cache=True, nogil=True)
def _replaced(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    chosen: NDArray[np.bool_],  # [n]
    tables: _FormTables,
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Bytes and offsets of n texts, of those chosen with the forms of their characters."""
    most = 8
    for text in range(len(chosen)):
        most += (offsets[text + 1] - offsets[text]) * (_GROWTH if chosen[text] else 1)
    out = np.empty(most, np.uint8)
    at = 0
    bounds = np.zeros(len(offsets), np.int64)
    for text in range(len(chosen)):
        begin = offsets[text]
        end = offsets[text + 1]
        if chosen[text]:
            at = _write(data, begin, end, out, at, tables)
        else:
            out[at : at + end - begin] = data[begin:end]
            at += end - begin
        bounds[text + 1] = at
    return out[:at], bounds


def word_forms(data: NDArray[Any], offsets: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The bytes and offsets of texts in their `word_form`; the same arrays if all are.

    Args:
        data: uint8 [b], UTF-8; text i is `data[offsets[i] : offsets[i + 1]]`.
        offsets: int64 [n + 1].
    """
    if _is_ascii(data, offsets[0], offsets[-1]):
        return data, offsets
    tables = _form_tables()
    suspects = _suspects(data, offsets, np.ones(len(offsets) - 1, bool), tables)
    if not suspects.any():
        return data, offsets
    data, offsets = _replaced(data, offsets, suspects, tables)
    data.flags.writeable = False  # as all bytes are, or a kernel is compiled twice
    # syllables of Hangul, and marks of several kinds
    left = np.flatnonzero(_suspects(data, offsets, suspects, tables)).tolist()
    if not left:
        return data, offsets
    parts = []
    lengths = np.diff(offsets)
    at = offsets[0]
    for text in left:
        form = word_form(str(data.data[offsets[text] : offsets[text + 1]], "utf-8")).encode()
        parts += [data[at : offsets[text]].tobytes(), form]
        lengths[text] = len(form)
        at = offsets[text + 1]
    parts.append(data[at : offsets[-1]].tobytes())
    return np.frombuffer(b"".join(parts), np.uint8), np.concatenate(([0], np.cumsum(lengths)))
