"""From UTF-8 bytes to the means of a static model's token vectors, without a tokenizer's pass.

What: cuts texts at ASCII white space and ASCII punctuation as BERT's pre-tokenizer does, finds each
word in a table of words seen before, and adds up the vectors of its tokens.
Why: a tokenizer reads 4 MB/s; a word's tokens are the same wherever it stands, so that only new
words need it.
Trade-off: two words share an identity with probability 2^-64; a table of 1,048,576 words at most
(50 MB), which is emptied when it is full.
Reference: `BertPreTokenizer` of tokenizers; Knuth, The Art of Computer Programming 3, 6.4
(linear probing).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from corpusfit.kernels.tokens import finish, mix
from corpusfit.kernels.words import Word, load

_WORD, _SPACE, _SIGN, _JOINING = 0, 1, 2, 3
_FREE = np.int32(-1)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_EIGHT = np.uint64(8)


def _kinds() -> NDArray[np.uint8]:
    """The kind of each byte; control characters and bytes of other characters are in words.

    The three signs that a character outside ASCII can turn into another character are joining.
    """
    kinds = np.full(256, _WORD, np.uint8)
    kinds[list(b" \t\n\r")] = _SPACE
    kinds[[c for c in range(33, 127) if not chr(c).isalnum()]] = _SIGN
    kinds[list(b"<=>")] = _JOINING
    return kinds


KINDS = _kinds()


@njit(cache=True, nogil=True, inline="always")
def _identity(data: NDArray[np.uint8], begin: int, end: int) -> Word:
    """The identity of the word data[begin : end]."""
    h = np.uint64(end - begin)
    while begin + 8 < end:
        h = mix(h, load(data, begin))
        begin += 8
    if begin + 8 <= len(data):
        last = load(data, begin) & (_ALL >> np.uint64(64 - 8 * (end - begin)))
    else:
        last = np.uint64(0)
        for i in range(end - 1, begin - 1, -1):
            last = (last << _EIGHT) | np.uint64(data[i])
    return finish(mix(finish(h), last))


@njit(cache=True, nogil=True, inline="always")
def _place(keys: NDArray[np.uint64], entries: NDArray[np.int32], key: Word) -> Any:
    """Where a word is in the table, or would be."""
    mask = np.int64(len(keys) - 1)
    at = np.int64(key) & mask
    while entries[at] != _FREE and keys[at] != key:
        at = (at + 1) & mask
    return at


@njit(cache=True, nogil=True)
def _end_of_characters(data: NDArray[np.uint8], i: int, end: int, most: int) -> int:
    """The byte after the first `most` characters of data[i : end]."""
    while i < end:
        if data[i] & 0xC0 != 0x80:
            if most == 0:
                return i
            most -= 1
        i += 1
    return end


@njit(cache=True, nogil=True)
def _begins_mark(data: NDArray[np.uint8], i: int, end: int, marks: NDArray[np.uint8]) -> bool:
    """Whether one of the marks stands at data[i : end]."""
    for mark in marks:
        j = 0
        while j < len(mark) and mark[j] and i + j < end and data[i + j] == mark[j]:
            j += 1
        if j == len(mark) or not mark[j]:
            return True
    return False


@njit(cache=True, nogil=True, inline="always")
def _joins(data: NDArray[np.uint8], i: int, end: int) -> Any:
    """Whether data[i] is a sign that belongs to the word around it."""
    return KINDS[data[i]] == _JOINING and i + 1 < end and data[i + 1] >= 0x80


@njit(cache=True, nogil=True)
def cut_words(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    most: int,
    marks: NDArray[np.uint8],
    keys: NDArray[np.uint64],
    entries: NDArray[np.int32],
    known: int,
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]]:
    """Cut n texts into words and number each word; the table has room for all that are new.

    A word ends at ASCII white space and signs, where no normalisation joins two characters to one;
    only <, = and > have a composition, with U+0338, and belong to the word where that may follow.

    Args:
        data: uint8 [b], UTF-8 bytes.
        offsets: int64 [n + 1], where each text begins.
        most: characters of a text that are read.
        marks: uint8 [m, longest], zero-padded texts that the tokenizer finds before it cuts; each
            begins with an ASCII sign.
        keys: uint64, a power of two of them: the word at each place of the table; changed.
        entries: int32, its number, -1 at a free place; changed.
        known: words in the table.

    Returns:
        The number of each word, int32 [w]; the place of each text's first word among them, int64
        [n + 1]; which texts hold a mark, bool [n]; begin and end of the k new words in `data`,
        int64 [k, 2], which have the numbers from `known` on.
    """
    found = np.empty(offsets[-1] - offsets[0], np.int32)
    firsts = np.zeros(len(offsets), np.int64)
    marked = np.zeros(len(offsets) - 1, np.bool_)
    fresh = np.empty((len(found), 2), np.int64)
    n, new = 0, 0
    for text in range(len(marked)):
        i, end = offsets[text], offsets[text + 1]
        if end - i > most:
            end = _end_of_characters(data, i, end, most)
        while i < end:
            kind = KINDS[data[i]]
            begin = i
            i += 1
            if kind == _SPACE:
                continue
            if kind != _WORD and _begins_mark(data, begin, end, marks):
                marked[text] = True
            if kind == _WORD or _joins(data, begin, end):
                while i < end and (KINDS[data[i]] == _WORD or _joins(data, i, end)):
                    i += 1
            key = _identity(data, begin, i)
            at = _place(keys, entries, key)
            if entries[at] == _FREE:
                keys[at], entries[at] = key, known + new
                fresh[new, 0], fresh[new, 1] = begin, i
                new += 1
            found[n] = entries[at]
            n += 1
        firsts[text + 1] = n
    return found[:n], firsts, marked, fresh[:new]


@njit(cache=True, nogil=True)
def means(
    table: NDArray[np.float32],
    found: NDArray[np.int32],
    firsts: NDArray[np.int64],
    ids: NDArray[np.int32],
    begins: NDArray[np.int64],
    limit: int,
    skip: int,
    normalise: bool,
) -> NDArray[np.float32]:
    """The mean of the token vectors of each text, added up in float32 token by token.

    Args:
        table: float32 [tokens, d].
        found: int32 [w], the number of each word, text by text.
        firsts: int64 [n + 1], the place of each text's first word in `found`.
        ids: int32, the token ids of all words.
        begins: int64 [words + 1], the place of each word's first token in `ids`.
        limit: tokens of a text that are read.
        skip: id of a token that is left out; -1 for none.
        normalise: scale to length 1.

    Returns:
        float32 [n, d]; zeros for a text without tokens.
    """
    out = np.zeros((len(firsts) - 1, table.shape[1]), dtype=np.float32)
    for text in range(len(out)):
        total = out[text]
        left, count = limit, 0
        for place in range(firsts[text], firsts[text + 1]):
            begin = begins[found[place]]
            end = min(begins[found[place] + 1], begin + left)
            left -= end - begin
            for k in range(begin, end):
                if ids[k] != skip:
                    count += 1
                    row = table[ids[k]]
                    for j in range(len(total)):
                        total[j] += row[j]
        scale = np.float32(1.0 / max(count, 1))
        if normalise:
            square = 0.0
            for j in range(len(total)):
                square += np.float64(total[j]) * np.float64(total[j])
            scale = np.float32(1.0 / np.sqrt(square)) if square > 0 else np.float32(0.0)
        for j in range(len(total)):
            total[j] *= scale
    return out
