"""The token ids of words that were read before, so that each word is cut into pieces once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corpusfit.embed.wordpiece import WordPiece
from corpusfit.kernels.pieces import cut_words

WORDS = 1 << 20
"""Most words in a table: about 60 MB."""

_NEAR = 1 << 15
"""Words found last."""

BLOCK = WORDS >> 2
"""Most bytes of the texts that are cut at once, and so of new words."""


class WordTokens:
    """A table of the words that a tokenizer has read, with their token ids.

    The table is emptied when it is full; which words it holds changes no id.

    Attributes:
        tokenizer: reads words that are not ASCII.
        spans: int64 [words, 2], begin and end of each word's tokens in `ids`.
        ids: int32, the tokens of all words.

    """

    def __init__(self, tokenizer: WordPiece) -> None:
        self.tokenizer = tokenizer
        marks = [mark.encode() for mark in tokenizer.marks]
        longest = max(map(len, marks), default=0)
        padded = b"".join(mark.ljust(longest, b"\0") for mark in marks)
        self._marks = np.frombuffer(padded, np.uint8).reshape(len(marks), longest)
        self._empty()

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
        """Cut n texts of at most `BLOCK` bytes into words, and add new words to the table."""
        if self._known + BLOCK > WORDS:
            self._empty()
        self._make_room(BLOCK)
        how = most, self._marks, self.tokenizer.pieces
        tables = *self._near, self._keys, self._entries, self.spans, self.ids
        found, firsts, marked, fresh, self._known, self._used = cut_words(
            data, offsets, *how, *tables, self._known, self._used
        )
        if len(fresh):
            view = data.data
            words = [str(view[begin:end], "utf-8") for _, begin, end in fresh.tolist()]
            ids, spans = self.tokenizer.ids(words)
            self._make_room(len(ids))
            self.ids[self._used : self._used + len(ids)] = ids
            self.spans[fresh[:, 0]] = self._used + spans
            self._used += len(ids)
        return found, firsts, marked

    def _make_room(self, tokens: int) -> None:
        if self._used + tokens > len(self.ids):
            self.ids = np.concatenate([self.ids, np.empty(tokens + len(self.ids), np.int32)])
