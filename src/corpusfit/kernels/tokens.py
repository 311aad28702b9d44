"""From UTF-8 bytes to tokens, the input of every lexical method.

What: lower-cased words and numbers, one token per character for scripts without spaces (Chinese,
Japanese, Thai, Khmer …) and, on request, runs of punctuation; a token is a 64-bit hash of its
lower-cased UTF-8 bytes.
Why: methods only need to know whether two tokens are equal, so no string is created; ASCII words
are found eight bytes at a time.
Trade-off: two words share an identity with probability 2^-64 (never if both have at most eight
bytes), as in KenLM's vocabulary.
Texts: kernels of texts take uint8 `data` [b], the UTF-8 bytes of n texts; int64 `offsets` [n + 1],
text i is `data[offsets[i] : offsets[i + 1]]`; `characters`, what `characters.table` returns; and
`signs`, whether runs of punctuation are tokens too.
Reference: Unicode Technical Standard 18, annex C; Heafield 2011 (hashed words).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from corpusfit.kernels.characters import KIND_SHIFT, LAST, SIGN, SOLO, WORD, kind_of, table
from corpusfit.kernels.machine_words import REACH, Word, load, word_bits, zeros_below

_MULTIPLY = np.uint64(0x9E3779B97F4A7C15)
_FINAL = np.uint64(0xD6E8FEB86659FD93)
_FOLD = np.uint64(0x2020202020202020)
_SHIFT = np.uint64(32)
_ONE = np.uint64(1)
_BYTE = np.uint64(8)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
# `| 0x20` turns the underscore into DEL, which is in no token.
_UNDERSCORE = 0x5F
_FOLDED_UNDERSCORE = 0x7F

BEGIN = np.uint64(1)
END = np.uint64(2)
"""Identities of the begin and the end of a text, which no token has in practice."""


@njit(cache=True, nogil=True, inline="always")
def mix(h: Word, chunk: Word) -> Word:
    """An unfinished identity with eight more bytes."""
    h = (h ^ chunk) * _MULTIPLY
    return h ^ (h >> _SHIFT)


@njit(cache=True, nogil=True, inline="always")
def finish(h: Word) -> Word:
    """The identity of the bytes that were mixed."""
    h = h * _FINAL
    return h ^ (h >> _SHIFT)


@njit(cache=True, nogil=True, inline="always")
def follow(gram: Word, token: Word) -> Word:
    """The identity of an n-gram followed by one more token; order matters."""
    return mix(gram * _FINAL, token)


@njit(cache=True, nogil=True, inline="always")
def _lead(first: Any) -> tuple[Any, Any]:
    """Length of a UTF-8 sequence by its first byte, and the bits of that byte."""
    if first < 0x80:
        return 1, first
    if first < 0xE0:
        return 2, first & 0x1F
    if first < 0xF0:
        return 3, first & 0x0F
    return 4, first & 0x07


@njit(cache=True, nogil=True, inline="always")
def character(data: NDArray[np.uint8], i: int, end: int) -> tuple[int, int]:
    """The code point at i and its length in bytes, cut at `end`."""
    length, code = _lead(np.int64(data[i]))
    length = min(length, end - i)
    for j in range(i + 1, i + length):
        code = (code << 6) | (np.int64(data[j]) & 0x3F)
    return code, length


@njit(cache=True, nogil=True, inline="always")
def _entry(code: Any, characters: NDArray[np.uint32]) -> tuple[Any, Any]:
    """Kind and lower case of a code point."""
    if code < LAST:
        entry = np.int64(characters[code])
        return entry >> KIND_SHIFT, entry & 0xFFFFFF
    return (SOLO if code < 0x40000 else SIGN), code


@njit(cache=True, nogil=True, inline="always")
def utf8(code: Any) -> tuple[Word, Any]:
    """A code point's UTF-8 bytes, the first in the lowest byte, and their number."""
    if code < 0x80:
        return np.uint64(code), 1
    last = 0x80 | code & 0x3F
    if code < 0x800:
        return np.uint64((0xC0 | code >> 6) | last << 8), 2
    middle = 0x80 | code >> 6 & 0x3F
    if code < 0x10000:
        return np.uint64((0xE0 | code >> 12) | middle << 8 | last << 16), 3
    first = (0xF0 | code >> 18) | (0x80 | code >> 12 & 0x3F) << 8
    return np.uint64(first | middle << 16 | last << 24), 4


@njit(cache=True, nogil=True)
def _push(h: Word, chunk: Word, held: int, code: int) -> tuple[Word, Word, int]:
    """Add a code point's UTF-8 bytes to an unfinished identity, eight at a time."""
    packed, length = utf8(_FOLDED_UNDERSCORE if code == _UNDERSCORE else code)
    for _ in range(length):
        if held == 8:
            h = mix(h, chunk)
            chunk = np.uint64(0)
            held = 0
        chunk |= (packed & np.uint64(0xFF)) << (_BYTE * np.uint64(held))
        packed >>= _BYTE
        held += 1
    return h, chunk, held


@njit(cache=True, nogil=True)
def _any_token(
    data: NDArray[np.uint8], i: int, end: int, characters: NDArray[np.uint32], signs: bool
) -> tuple[Word, int, bool]:
    """The slow way, for any character: the token's identity, its end, whether it is a token."""
    h = np.uint64(0)
    chunk = np.uint64(0)
    held: Any = np.int64(0)  # a literal would be a type of its own
    first = -1
    while i < end:
        code, length = character(data, i, end)
        kind, lower = _entry(code, characters)
        if first >= 0 and kind != first:
            break
        first = kind
        i += length
        if kind in (WORD, SOLO) or (kind == SIGN and signs):
            h, chunk, held = _push(h, chunk, held, lower)
        if kind == SOLO:
            break
    return finish(mix(h, chunk)), i, held > 0


@njit(cache=True, nogil=True, inline="always")
def _ascii_word(data: NDArray[np.uint8], i: int, length: int) -> Word:
    """The identity of a word of ASCII letters, digits and underscores."""
    h = np.uint64(0)
    while length > 8:
        h = mix(h, load(data, i) | _FOLD)
        i += 8
        length -= 8
    mask = _ALL >> np.uint64(64 - 8 * length)
    return finish(mix(h, (load(data, i) | _FOLD) & mask))


@njit(cache=True, nogil=True, inline="always")
def _sign_in(data: NDArray[np.uint8], begin: int, end: int, characters: NDArray[np.uint32]) -> int:
    """The first ASCII sign in data[begin:end], or end."""
    while begin < end and np.int64(characters[data[begin]]) >> KIND_SHIFT != SIGN:
        begin += 1
    return begin


@njit(cache=True, nogil=True)
def tokenise(
    data: NDArray[np.uint8],  # the bytes of many texts
    begin: int,  # where the text begins
    end: int,  # one past its last byte
    characters: NDArray[np.uint32],  # see the module
    signs: bool,  # see the module
    # uint64 with room for end - begin tokens; the tokens' identities are written here
    ids: NDArray[np.uint64],
    # int64 of the same size for the begin of each in `data`, or None
    starts: NDArray[np.int64] | None,
    ends: NDArray[np.int64] | None,  # the same for the ends
) -> int:
    """The tokens of one text, data[begin:end].

    The borders of words are found for 64 bytes at a time; words with characters outside ASCII, and
    the last bytes of `data`, are read the slow way, character by character.

    Returns:
        The number of tokens.
    """
    n = 0
    i = begin
    while i < end:
        fast = i + REACH <= len(data)
        # bit masks of the next 64 bytes: letters of words, and bytes outside ASCII
        words = np.uint64(0)
        others = np.uint64(0)
        k = 0
        size = end - i
        if fast:
            words, others = word_bits(data, i)
            size = 64
            if end - i < 64:
                size = end - i
                words &= (_ONE << np.uint64(size)) - _ONE
        while k < size:
            start = i + k
            length = 0
            slow = not fast
            if fast:
                rest = words >> np.uint64(k)
                start = i + min(size, k + zeros_below(rest))
                if signs:
                    sign = _sign_in(data, i + k, start, characters)
                    slow = sign < start
                    start = sign
                if not slow:
                    k = start - i
                    if k == size:
                        break
                    length = zeros_below(~(words >> np.uint64(k)))
                    # the word may go on after these 64 bytes: restart there, or read it slowly
                    if k + length >= 64 and end - i > 64:
                        if k > 0:
                            break
                        slow = True
                    length = min(length, size - k)
                    slow |= (others >> np.uint64(k)) & (_ALL >> np.uint64(64 - length)) != 0
            after = start + length
            has_token = True
            if slow:
                h, after, has_token = _any_token(data, start, end, characters, signs)
            else:
                h = _ascii_word(data, start, length)
            if has_token:
                ids[n] = h
                if starts is not None:
                    starts[n] = start
                if ends is not None:
                    ends[n] = after
                n += 1
            k = after - i
        i += k
    return n


def reference(text: str, *, signs: bool = False) -> list[str]:
    """The tokens of a text in plain Python: the definition against which `tokenise` is tested."""
    tokens: list[str] = []
    before = -1
    for char in text:
        kind = kind_of(char)
        lower = char.lower() if len(char.lower()) == 1 else char
        if kind in (WORD, SOLO) or (kind == SIGN and signs):
            if kind == SOLO or kind != before:
                tokens.append(lower)
            else:
                tokens[-1] += lower
        before = kind
    return tokens


def identity(token: str) -> int:
    """The identity of one token, as from `tokenise`."""
    data = np.frombuffer(token.encode(), np.uint8)
    ids = np.empty(len(data), np.uint64)
    count = tokenise(data, 0, len(data), table(), True, ids, None, None)
    if count != 1:
        raise ValueError(f"{token!r} is {count} tokens, not one")
    return int(ids[0])
