"""From UTF-8 bytes to the means of a static model's token vectors, without a tokenizer's pass.

What: cuts texts at ASCII white space and ASCII punctuation as BERT's pre-tokenizer does, finds each
word in a table of words seen before, cuts new ones into WordPiece's pieces, and adds up the vectors
of all tokens.
Why: a tokenizer reads 4 MB/s; a word's tokens are the same wherever it stands, so that only new
words outside ASCII need to be normalized, and every word is cut into pieces once.
Trade-off: two words share an identity with probability 2^-64; the table of words has a fixed size.
Reference: `BertPreTokenizer` and `WordPiece` of tokenizers; Schuster and Nakajima 2012 (WordPiece);
Knuth, The Art of Computer Programming 3, 6.4 (linear probing).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from corpusfit.kernels.machine_words import Word, load
from corpusfit.kernels.tokens import finish, mix

_WORD = 0
_SPACE = 1
_SIGN = 2
_JOINING = 3
_FREE = np.int32(-1)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_EIGHT = np.uint64(8)

Pieces = tuple[Any, Any, Any, Any, int, int, bool]
"""WordPiece's first pieces and later pieces, each as keys and ids of `index_pieces`, its longest
word in characters, the id of unknown words, and whether ASCII is lower-cased."""


# The kind of each byte; control characters and bytes of other characters are in words. The three
# signs that a character outside ASCII can turn into another character are joining.
KINDS = np.full(256, _WORD, np.uint8)
KINDS[list(b" \t\n\r")] = _SPACE
KINDS[[c for c in range(33, 127) if not chr(c).isalnum()]] = _SIGN
KINDS[list(b"<=>")] = _JOINING


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
def _end_of_characters(data: NDArray[np.uint8], i: int, end: int, max_characters: int) -> int:
    """The byte after the first `max_characters` characters of data[i : end]."""
    while i < end:
        if data[i] & 0xC0 != 0x80:
            if max_characters == 0:
                return i
            max_characters -= 1
        i += 1
    return end


@njit(cache=True, nogil=True)
def _begins_special(
    data: NDArray[np.uint8], i: int, end: int, special_tokens: NDArray[np.uint8]
) -> bool:
    """Whether data[i : end] begins with a special token."""
    for token in special_tokens:
        j = 0
        while j < len(token) and token[j] and i + j < end and data[i + j] == token[j]:
            j += 1
        if j == len(token) or not token[j]:
            return True
    return False


@njit(cache=True, nogil=True, inline="always")
def _word_end(data: NDArray[np.uint8], begin: int, end: int) -> Any:
    """The end of the word at `begin`; `begin` at white space."""
    i = begin
    while i < end and (
        KINDS[data[i]] == _WORD
        or (KINDS[data[i]] == _JOINING and i + 1 < end and data[i + 1] >= 0x80)
    ):
        i += 1
    return begin + 1 if i == begin and KINDS[data[i]] != _SPACE else i


@njit(cache=True, nogil=True)
def index_pieces(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], ids: NDArray[np.int32]
) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """Keys and ids of a table of n pieces, data[offsets[i] : offsets[i + 1]] with ids int32 [n]."""
    size = 4
    while size < 2 * len(ids):
        size *= 2
    keys = np.zeros(size, np.uint64)
    entries = np.full(size, _FREE)
    for i in range(len(ids)):
        key = _identity(data, offsets[i], offsets[i + 1])
        at = _place(keys, entries, key)
        keys[at] = key
        entries[at] = ids[i]
    return keys, entries


@njit(cache=True, nogil=True)
def _plain(data: NDArray[np.uint8], begin: int, end: int, fold: bool) -> NDArray[np.uint8]:
    """A word of printable ASCII, lower-cased if `fold`; empty for another word."""
    word = data[begin:end].copy()
    for i in range(len(word)):
        if not 0x20 < word[i] < 0x7F:
            return word[:0]
        if fold and 0x41 <= word[i] <= 0x5A:
            word[i] |= 0x20
    return word


@njit(cache=True, nogil=True)
def _word_pieces(
    word: NDArray[np.uint8], pieces: Pieces, ids: NDArray[np.int32], n_tokens: int
) -> int:
    """Write the ids of a normalized word's pieces to ids[used:]; returns their end."""
    first_keys, first_ids, later_keys, later_ids, max_characters, unknown, _ = pieces
    start = 0
    n = n_tokens
    if _end_of_characters(word, 0, len(word), max_characters) == len(word):
        while start < len(word):
            if start:
                piece, start = _longest_piece(word, start, later_keys, later_ids)
            else:
                piece, start = _longest_piece(word, start, first_keys, first_ids)
            if piece == _FREE:
                break
            ids[n] = piece
            n += 1
    if start < len(word):
        ids[n_tokens] = unknown
        return n_tokens + 1
    return n


@njit(cache=True, nogil=True)
def _longest_piece(
    word: NDArray[np.uint8], start: int, keys: NDArray[np.uint64], entries: NDArray[np.int32]
) -> tuple[Any, int]:
    """The id of the longest piece at a place of a word, and its end; -1 and `start` for none."""
    for stop in range(len(word), start, -1):
        piece = entries[_place(keys, entries, _identity(word, start, stop))]
        if piece != _FREE:
            return piece, stop
    return _FREE, start


@njit(cache=True, nogil=True)
def piece_ids(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], pieces: Pieces
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The token ids of n normalized texts, whose words are separated by spaces.

    Args:
        data: uint8 [b], UTF-8 bytes.
        offsets: int64 [n + 1], where each text begins.
        pieces: WordPiece's vocabulary.

    Returns:
        The ids, int32; begin and end of each text's, int64 [n, 2].
    """
    ids = np.empty(len(data), np.int32)
    n_tokens = 0
    spans = np.empty((len(offsets) - 1, 2), np.int64)
    for text in range(len(spans)):
        spans[text, 0] = n_tokens
        i = offsets[text]
        end = offsets[text + 1]
        while i < end:
            begin = i
            while i < end and data[i] != 0x20:
                i += 1
            if i > begin:
                n_tokens = _word_pieces(data[begin:i], pieces, ids, n_tokens)
            i += 1
        spans[text, 1] = n_tokens
    return ids[:n_tokens], spans


@njit(cache=True, nogil=True)
def cut_words(
    data: NDArray[np.uint8],  # uint8 [b], UTF-8 bytes
    offsets: NDArray[np.int64],  # int64 [n + 1], where each text begins
    max_characters: int,  # characters of a text that are read
    # uint8 [m, longest], zero-padded texts that the tokenizer finds before it cuts; each begins
    # with an ASCII sign
    special_tokens: NDArray[np.uint8],
    pieces: Pieces,  # WordPiece's vocabulary
    # uint64, a power of two of them: the words found last, few enough for the processor's cache;
    # changed
    near: NDArray[np.uint64],
    numbers: NDArray[np.int32],  # int32, their numbers, -1 at a free place; changed
    # uint64, a power of two of them: the word at each place of the table; changed
    keys: NDArray[np.uint64],
    entries: NDArray[np.int32],  # int32, its number, -1 at a free place; changed
    # int64 [words, 2], begin and end of a word's tokens in `ids`; changed
    spans: NDArray[np.int64],
    ids: NDArray[np.int32],  # int32, the tokens of all words; changed
    n_words: int,  # words in the table
    n_tokens: int,  # tokens in `ids`
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64], int, int]:
    """Cut n texts into words and number each word; the tables have room for all that are new.

    A word ends at ASCII white space and signs, where no normalization joins two characters to one;
    only <, = and > have a composition, with U+0338, and belong to the word where that may follow.

    Returns:
        The number of each word, int32 [w]; the place of each text's first word among them, int64
        [n + 1]; which texts hold a special token, bool [n]; number, begin and end in `data` of new
        words that have no tokens yet, int64 [k, 3]; the new `n_words` and `n_tokens`.
    """
    word_numbers = np.empty(offsets[-1] - offsets[0], np.int32)
    firsts = np.zeros(len(offsets), np.int64)
    has_special = np.zeros(len(offsets) - 1, np.bool_)
    fresh = np.empty((len(word_numbers), 3), np.int64)
    starts_special = np.zeros(256, np.bool_)
    for token in special_tokens:
        starts_special[token[0]] = True
    n = 0
    new = 0
    for text in range(len(has_special)):
        i = offsets[text]
        end = offsets[text + 1]
        if end - i > max_characters:
            end = _end_of_characters(data, i, end, max_characters)
        while i < end:
            begin = i
            i = _word_end(data, begin, end)
            if i == begin:
                i += 1
                continue
            if starts_special[data[begin]] and _begins_special(data, begin, end, special_tokens):
                has_special[text] = True
            # most words are frequent: try a small cache before the large table
            key = _identity(data, begin, i)
            slot = np.int64(key) & (len(near) - 1)
            if numbers[slot] == _FREE or near[slot] != key:
                at = _place(keys, entries, key)
                # a new word: plain ASCII is cut here, anything else is left to the caller
                if entries[at] == _FREE:
                    keys[at] = key
                    entries[at] = n_words
                    word = _plain(data, begin, i, pieces[-1])
                    if len(word):
                        spans[n_words, 0] = n_tokens
                        n_tokens = spans[n_words, 1] = _word_pieces(word, pieces, ids, n_tokens)
                    else:
                        fresh[new, 0] = n_words
                        fresh[new, 1] = begin
                        fresh[new, 2] = i
                        new += 1
                    n_words += 1
                near[slot] = key
                numbers[slot] = entries[at]
            word_numbers[n] = numbers[slot]
            n += 1
        firsts[text + 1] = n
    return word_numbers[:n], firsts, has_special, fresh[:new], n_words, n_tokens


@njit(cache=True, nogil=True, inline="always")
def _add(total: NDArray[np.float32], row: NDArray[np.float32]) -> None:
    for j in range(len(total)):
        total[j] += row[j]


@njit(cache=True, nogil=True, inline="always")
def _add_four(
    total: NDArray[np.float32], table: NDArray[np.float32], four: NDArray[np.int32]
) -> None:
    """Add four rows in one pass, in their order."""
    a = table[four[0]]
    b = table[four[1]]
    c = table[four[2]]
    d = table[four[3]]
    for j in range(len(total)):
        total[j] = (((total[j] + a[j]) + b[j]) + c[j]) + d[j]


@njit(cache=True, nogil=True)
def _scale(total: NDArray[np.float32], count: int, normalize: bool) -> None:
    """Turn a sum of `count` vectors into their mean, or into length 1."""
    scale = np.float32(1.0 / max(count, 1))
    if normalize:
        square = 0.0
        for j in range(len(total)):
            square += np.float64(total[j]) * np.float64(total[j])
        scale = np.float32(1.0 / np.sqrt(square)) if square > 0 else np.float32(0.0)
    for j in range(len(total)):
        total[j] *= scale


@njit(cache=True, nogil=True)
def means(
    table: NDArray[np.float32],  # float32 [tokens, d]
    word_numbers: NDArray[np.int32],  # int32 [w], the number of each word, text by text
    # int64 [n + 1], the position of each text's first word in `word_numbers`
    firsts: NDArray[np.int64],
    ids: NDArray[np.int32],  # int32, the token ids of all words
    spans: NDArray[np.int64],  # int64 [words, 2], begin and end of each word's tokens in `ids`
    limit: int,  # tokens of a text that are read
    skip: int,  # id of a token that is left out; -1 for none
    normalize: bool,  # scale to length 1
) -> NDArray[np.float32]:
    """The mean of the token vectors of each text, added up in float32 token by token.

    Returns:
        float32 [n, d]; zeros for a text without tokens.
    """
    out = np.zeros((len(firsts) - 1, table.shape[1]), dtype=np.float32)
    four = np.empty(4, np.int32)
    for text in range(len(out)):
        total = out[text]
        left = limit
        count = 0
        waiting = 0
        for position in range(firsts[text], firsts[text + 1]):
            begin = spans[word_numbers[position], 0]
            end = min(spans[word_numbers[position], 1], begin + left)
            left -= end - begin
            for k in range(begin, end):
                if ids[k] == skip:
                    continue
                count += 1
                four[waiting] = ids[k]
                waiting += 1
                if waiting == len(four):
                    _add_four(total, table, four)
                    waiting = 0
        for k in range(waiting):
            _add(total, table[four[k]])
        _scale(total, count, normalize)
    return out
