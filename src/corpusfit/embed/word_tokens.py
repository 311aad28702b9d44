"""The token ids of words that were read before, so that a tokenizer reads few words and once."""

from __future__ import annotations

import json
import string
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from corpusfit.kernels.pieces import cut_words, index_pieces
from corpusfit.types import buffers, text_array

WORDS = 1 << 20
"""Most words in a table: about 60 MB."""

_NEAR = 1 << 15
"""Words found last."""

BLOCK = WORDS >> 2
"""Most bytes of the texts that are cut at once, and so of new words."""

_NORMALISERS = ("BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "StripAccents")
"""Those that change a word in the same way wherever it stands, and ASCII only to lower case."""


class WordTokens:
    """A table of the words that a tokenizer has read, with their token ids.

    The table is emptied when it is full; which words it holds changes no id.

    Attributes:
        spans: int64 [words, 2], begin and end of each word's tokens in `ids`.
        ids: int32, the tokens of all words.

    Args:
        tokenizer: a `tokenizers.Tokenizer` whose pre-tokenizer is BERT's.
        settings: what it writes to tokenizer.json.
    """

    def __init__(self, tokenizer: Any, settings: Mapping[str, Any]) -> None:
        self._tokenizer = tokenizer
        marks = [one["content"].encode() for one in settings["added_tokens"]]
        longest = max(map(len, marks), default=0)
        padded = b"".join(mark.ljust(longest, b"\0") for mark in marks)
        self._marks = np.frombuffer(padded, np.uint8).reshape(len(marks), longest)
        self._pieces = _word_pieces(settings)
        self._empty()

    @classmethod
    def of(cls, tokenizer: Any) -> Self | None:
        """A table for a tokenizer; None if the ids of a text are not those of its words."""
        settings = json.loads(tokenizer.to_str())
        added = settings["added_tokens"]
        marks = [one["content"] for one in added]
        if (
            (settings["pre_tokenizer"] or {}).get("type") != "BertPreTokenizer"
            or any(step["type"] not in _NORMALISERS for step in _steps(settings))
            or any(one["normalized"] for one in added)
            or any(len(m) < 2 or not m.isascii() or m[0] not in string.punctuation for m in marks)
        ):
            return None
        return cls(tokenizer, settings)

    def _empty(self) -> None:
        self._known, self._used = 0, 0
        self._near = np.empty(_NEAR, np.uint64), np.full(_NEAR, -1, np.int32)
        self._keys = np.empty(2 * WORDS, np.uint64)
        self._entries = np.full(2 * WORDS, -1, np.int32)
        self.spans = np.empty((WORDS, 2), np.int64)
        self.ids = np.empty(WORDS, np.int32)

    def numbers(
        self, data: NDArray[np.uint8], offsets: NDArray[np.int64], most: int
    ) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.bool_]]:
        """Cut n texts of at most `BLOCK` bytes into words, and add new words to the table.

        Args:
            data: uint8 [b], UTF-8 bytes.
            offsets: int64 [n + 1], where each text begins.
            most: characters of a text that are read.

        Returns:
            The number of each word, int32 [w]; the place of each text's first word among them,
            int64 [n + 1]; the texts that only the tokenizer itself can read, bool [n].
        """
        if self._known + BLOCK > WORDS:
            self._empty()
        self._make_room(BLOCK)
        tables = *self._near, self._keys, self._entries, self.spans, self.ids
        found, firsts, marked, fresh, self._known, self._used = cut_words(
            data, offsets, most, self._marks, self._pieces, *tables, self._known, self._used
        )
        if len(fresh):
            view = data.data
            words = [str(view[begin:end], "utf-8") for _, begin, end in fresh.tolist()]
            ids, spans = token_ids(self._tokenizer, words)
            self._make_room(len(ids))
            self.ids[self._used : self._used + len(ids)] = ids
            self.spans[fresh[:, 0]] = self._used + spans
            self._used += len(ids)
        return found, firsts, marked

    def _make_room(self, tokens: int) -> None:
        if self._used + tokens > len(self.ids):
            self.ids = np.concatenate([self.ids, np.empty(tokens + len(self.ids), np.int32)])


def _steps(settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What a tokenizer's normaliser does, step by step."""
    normaliser = settings["normalizer"]
    if normaliser is None:
        return []
    return normaliser["normalizers"] if normaliser["type"] == "Sequence" else [normaliser]


def _word_pieces(settings: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """WordPiece's vocabulary as `cut_words` reads it; None for another tokenizer."""
    model = settings["model"]
    if model["type"] != "WordPiece":
        return None
    vocabulary, prefix = model["vocab"], model["continuing_subword_prefix"]
    later = {
        piece.removeprefix(prefix): i for piece, i in vocabulary.items() if piece.startswith(prefix)
    }
    tables = [
        index_pieces(*buffers(text_array(list(some))), np.array(list(some.values()), np.int32))
        for some in (vocabulary, later)
    ]
    fold = any(step["type"] == "Lowercase" or step.get("lowercase") for step in _steps(settings))
    longest, unknown = model["max_input_chars_per_word"], vocabulary[model["unk_token"]]
    return *tables[0], *tables[1], longest, unknown, fold


def token_ids(tokenizer: Any, texts: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The token ids of n texts, int32; begin and end of each text's, int64 [n, 2]."""
    coded = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
    rows = [one.ids for one in coded]
    ends = np.cumsum([len(row) for row in rows], dtype=np.int64)
    spans = np.stack([np.concatenate([[0], ends[:-1]]), ends], axis=1)
    return np.fromiter(chain.from_iterable(rows), dtype=np.int32, count=ends[-1]), spans
