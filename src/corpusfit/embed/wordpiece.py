"""BERT's tokenizer, read from tokenizer.json: no library is needed.

What: normalizes texts, cuts them into words at white space and signs, and words into pieces.
Why: with it static models run in the core install; `tokenizers` reads every text whole.
Trade-off: characters have the properties that this Python knows; those of tokenizers are of about
Unicode 8, so characters that came later can differ.
Reference: `BertNormalizer`, `BertPreTokenizer` and `WordPiece` of tokenizers.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any
from unicodedata import category

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.types import buffers, text_array
from corpusfit.kernels.normal_form import normalized
from corpusfit.kernels.pieces import Pieces, cut_words, index_pieces, piece_ids

_CHINESE = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)

WORDS = 1 << 20
"""Most words in a table: about 60 MB."""

# words found last
_NEAR = 1 << 15

BLOCK = WORDS >> 2
"""Most bytes of the texts that are cut at once, and so of new words."""

Change = Callable[[str], str]


class WordPiece:
    """BERT's tokenizer, of a tokenizer.json that it `reads`."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        # texts that are tokens wherever they stand, such as `[SEP]`
        self.special_tokens = [token["content"] for token in settings["added_tokens"]]
        longest_first = sorted(self.special_tokens, key=len, reverse=True)
        self._special = re.compile(f"({'|'.join(map(re.escape, longest_first)) or '(?!)'})")
        self._changes = _changes(settings["normalizer"])
        self.pieces = _pieces(settings)

    @staticmethod
    def reads(settings: Mapping[str, Any]) -> bool:
        """Whether a tokenizer is one of BERT's, and its added tokens are found before cutting."""
        added = settings["added_tokens"]
        flags = ("normalized", "single_word", "lstrip", "rstrip")
        special_tokens = [token["content"] for token in added]
        return (
            settings["model"]["type"] == "WordPiece"
            and (settings["pre_tokenizer"] or {}).get("type") == "BertPreTokenizer"
            and (settings["normalizer"] or {}).get("type") == "BertNormalizer"
            and not any(token[flag] for token in added for flag in flags)
            and all(
                len(t) > 1 and t.isascii() and t[0] in string.punctuation for t in special_tokens
            )
        )

    def ids(self, texts: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The token ids of n texts, int32; begin and end of each text's, int64 [n, 2]."""
        data, offsets = buffers(text_array([*map(self._words, texts)]))
        ids: tuple[NDArray[np.int32], NDArray[np.int64]] = piece_ids(data, offsets, self.pieces)
        return ids

    def _words(self, text: str) -> str:
        """The normalized words of a text, separated by spaces."""
        parts = self._special.split(text)  # every second part is a special token
        for change in self._changes:
            parts[::2] = map(change, parts[::2])
        return " ".join(parts)


class _Each(dict[int, str]):
    """A lazy table for `str.translate` that applies changes to a character."""

    def __init__(self, *changes: Change) -> None:
        super().__init__()
        self._changes = changes

    def __missing__(self, code: int) -> str:
        text = chr(code)
        for change in self._changes:
            text = "".join(map(change, text))
        self[code] = text
        return text

    def __call__(self, text: str) -> str:
        return text.translate(self)


def _changes(normalizer: Mapping[str, Any]) -> list[Change]:
    """The changes from a text to its words, whole texts in turn."""
    lower = normalizer["lowercase"]
    by_character = [_clean] * normalizer["clean_text"]
    by_character += [_space_chinese] * normalizer["handle_chinese_chars"]
    whole: list[Change] = []
    if lower if normalizer["strip_accents"] is None else normalizer["strip_accents"]:
        whole = [_Each(*by_character), partial(normalized, form="NFD")]
        by_character = [_strip_mark]
    return [*whole, _Each(*by_character, *[str.lower] * lower, _cut)]


def _clean(character: str) -> str:
    if character in "\t\n\r":
        return " "
    kind = category(character)
    if kind in ("Cc", "Cf", "Co") or character == "\ufffd":
        return ""
    return " " if character.isspace() else character


def _space_chinese(character: str) -> str:
    chinese = any(first <= ord(character) <= last for first, last in _CHINESE)
    return f" {character} " if chinese else character


def _strip_mark(character: str) -> str:
    return "" if category(character) == "Mn" else character


def _cut(character: str) -> str:
    if character.isspace() and not "\x1c" <= character <= "\x1f":
        return " "
    sign = character in string.punctuation or category(character)[0] == "P"
    return f" {character} " if sign else character


def _pieces(settings: Mapping[str, Any]) -> Pieces:
    """WordPiece's vocabulary; added tokens are words of it."""
    model = settings["model"]
    prefix = model["continuing_subword_prefix"]
    added = settings["added_tokens"]
    first = model["vocab"] | {one["content"]: one["id"] for one in added}
    later = {
        piece.removeprefix(prefix): i
        for piece, i in model["vocab"].items()
        if piece.startswith(prefix)
    }
    tables = [
        index_pieces(*buffers(text_array(list(some))), np.array(list(some.values()), np.int32))
        for some in (first, later)
    ]
    fold = settings["normalizer"]["lowercase"]
    max_characters = int(np.int64(model["max_input_chars_per_word"]))
    unknown = model["vocab"][model["unk_token"]]
    return *tables[0], *tables[1], max_characters, unknown, fold


class WordTokens:
    """A table of the words that a tokenizer has read, with their token ids."""

    # The table is emptied when it is full; which words it holds changes no id.
    spans: NDArray[np.int64]  # [words, 2], begin and end of each word's tokens in `ids`
    ids: NDArray[np.int32]  # the tokens of all words

    def __init__(self, tokenizer: WordPiece) -> None:
        self.tokenizer = tokenizer
        special_tokens = [token.encode() for token in tokenizer.special_tokens]
        longest = max(map(len, special_tokens), default=0)
        padded = b"".join(token.ljust(longest, b"\0") for token in special_tokens)
        self._special_tokens = np.frombuffer(padded, np.uint8).reshape(len(special_tokens), longest)
        self._empty()

    def _empty(self) -> None:
        self._n_words = 0
        self._n_tokens = 0
        self._near = np.empty(_NEAR, np.uint64), np.full(_NEAR, -1, np.int32)
        self._keys = np.empty(2 * WORDS, np.uint64)
        self._entries = np.full(2 * WORDS, -1, np.int32)
        self.spans = np.empty((WORDS, 2), np.int64)
        self.ids = np.empty(WORDS, np.int32)

    def numbers(
        self, data: NDArray[np.uint8], offsets: NDArray[np.int64], max_characters: int
    ) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.bool_]]:
        """Cut n texts of at most `BLOCK` bytes into words, and add new words to the table."""
        if self._n_words + BLOCK > WORDS:
            self._empty()
        self._make_room(BLOCK)
        how = max_characters, self._special_tokens, self.tokenizer.pieces
        tables = *self._near, self._keys, self._entries, self.spans, self.ids
        words, firsts, has_special, fresh, self._n_words, self._n_tokens = cut_words(
            data, offsets, *how, *tables, self._n_words, self._n_tokens
        )
        if len(fresh):
            view = data.data
            new_words = [str(view[begin:end], "utf-8") for _, begin, end in fresh.tolist()]
            ids, spans = self.tokenizer.ids(new_words)
            self._make_room(len(ids))
            self.ids[self._n_tokens : self._n_tokens + len(ids)] = ids
            self.spans[fresh[:, 0]] = self._n_tokens + spans
            self._n_tokens += len(ids)
        return words, firsts, has_special

    def _make_room(self, tokens: int) -> None:
        if self._n_tokens + tokens > len(self.ids):
            self.ids = np.concatenate([self.ids, np.empty(tokens + len(self.ids), np.int32)])
