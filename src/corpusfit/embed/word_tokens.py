"""The token ids of words that a tokenizer has read, so that each word is tokenised once."""

from __future__ import annotations

import json
import string
from collections.abc import Sequence
from itertools import chain
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from corpusfit.kernels.pieces import cut_words

WORDS = 1 << 20
"""Most words in a table: about 50 MB."""

BLOCK = WORDS >> 2
"""Most bytes of the texts that are cut at once, and so of new words."""

_NORMALISERS = ("BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "StripAccents")
"""Those that change a word in the same way wherever it stands."""


class WordTokens:
    """A table of the words that a tokenizer has read, with their token ids.

    The table is emptied when it is full; which words it holds changes no id.

    Args:
        tokenizer: a `tokenizers.Tokenizer` whose pre-tokenizer is BERT's.
        marks: texts that the tokenizer finds before it cuts.
    """

    def __init__(self, tokenizer: Any, marks: Sequence[bytes]) -> None:
        self._tokenizer = tokenizer
        longest = max(map(len, marks), default=0)
        padded = b"".join(mark.ljust(longest, b"\0") for mark in marks)
        self._marks = np.frombuffer(padded, np.uint8).reshape(len(marks), longest)
        self._empty()

    @classmethod
    def of(cls, tokenizer: Any) -> Self | None:
        """A table for a tokenizer; None if the ids of a text are not those of its words."""
        settings = json.loads(tokenizer.to_str())
        before = settings["normalizer"] or {"type": "Sequence", "normalizers": []}
        steps = before["normalizers"] if before["type"] == "Sequence" else [before]
        added = settings["added_tokens"]
        marks = [one["content"] for one in added]
        if (
            (settings["pre_tokenizer"] or {}).get("type") != "BertPreTokenizer"
            or any(step["type"] not in _NORMALISERS for step in steps)
            or any(one["normalized"] for one in added)
            or any(len(m) < 2 or not m.isascii() or m[0] not in string.punctuation for m in marks)
        ):
            return None
        return cls(tokenizer, [mark.encode() for mark in marks])

    def _empty(self) -> None:
        self._known, self._used = 0, 0
        self._keys = np.empty(2 * WORDS, np.uint64)
        self._entries = np.full(2 * WORDS, -1, np.int32)
        self._ids = np.empty(WORDS, np.int32)
        self._begins = np.zeros(WORDS + 1, np.int64)

    @property
    def tokens(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The token ids of all words, int32; the place of each word's first, int64 [words + 1]."""
        return self._ids[: self._used], self._begins[: self._known + 1]

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
        found, firsts, marked, fresh = cut_words(
            data, offsets, most, self._marks, self._keys, self._entries, self._known
        )
        if len(fresh):
            view = memoryview(data)
            self._add([str(view[begin:end], "utf-8") for begin, end in fresh.tolist()])
        return found, firsts, marked

    def _add(self, words: list[str]) -> None:
        ids, begins = token_ids(self._tokenizer, words)
        while self._used + len(ids) > len(self._ids):
            self._ids = np.concatenate([self._ids, np.empty_like(self._ids)])
        self._ids[self._used : self._used + len(ids)] = ids
        self._begins[self._known : self._known + len(begins)] = self._used + begins
        self._known, self._used = self._known + len(words), self._used + len(ids)


def token_ids(tokenizer: Any, texts: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The token ids of n texts, int32; the place of each text's first, int64 [n + 1]."""
    coded = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
    rows = [one.ids for one in coded]
    begins = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum([len(row) for row in rows], out=begins[1:])
    return np.fromiter(chain.from_iterable(rows), dtype=np.int32, count=begins[-1]), begins
