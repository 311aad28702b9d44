"""Jobs that hash all texts of a shard, and that read the texts of some rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.engine import PlainJob
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Document, Shard
from corpusfit.text import rows
from corpusfit.text.reading import Tally, require_none_rejected
from corpusfit.text.same_text import exact_key, text_keys

_Piece = tuple[Shard, NDArray[np.int64]]
_Found = tuple[int, list[tuple[str, ...]]]


@dataclass(frozen=True, eq=False)
class Keyed:
    """The n usable rows of a shard; their texts have one side, or two.

    Attributes:
        tally: counts of its rows.
        rows: int64 [n], in reading order.
        keys: uint64 [n, sides], `text_keys`.
        written: uint64 [n, sides], `exact_key`.
    """

    shard: int
    tally: Tally
    rows: NDArray[np.int64]
    keys: NDArray[np.uint64]
    written: NDArray[np.uint64]


def _sides(document: Document) -> tuple[str, ...]:
    if document.translation is None:
        return (document.text,)
    return document.text, document.translation


@dataclass(frozen=True)
class KeyTexts(PlainJob[Shard, Keyed]):
    """Hash the texts of a shard (XXH3); two texts share a hash with probability 2^-64.

    Attributes:
        sides: 2 for aligned pairs, else 1.
    """

    read: ReadPlan
    names: tuple[str, ...]
    sides: int

    def _work(self, shard: Shard) -> Keyed:
        tally, numbers = Tally.of(shard), []
        keys: list[int] = []
        written: list[int] = []
        for row in rows(shard, self.read):
            if isinstance(row, Document):
                numbers.append(row.row)
                texts = _sides(row)
                keys += text_keys(texts).tolist()
                written += (exact_key(text.encode()) for text in texts)
            else:
                tally.rejects.append((row.row, row.byte, row.reason))
        tally.documents = len(numbers)
        if self.read.strict:
            require_none_rejected(tally, self.names)
        hashed = (np.array(found, np.uint64).reshape(-1, self.sides) for found in (keys, written))
        return Keyed(shard.index, tally, np.array(numbers, np.int64), *hashed)


@dataclass(frozen=True)
class TextsOfRows(PlainJob[_Piece, _Found]):
    """Read the texts of some rows of a shard (int64 [k], increasing), each with all its sides.

    Returns the shard's number too.
    """

    read: ReadPlan

    def _work(self, piece: _Piece) -> _Found:
        shard, numbers = piece
        wanted = set(numbers.tolist())
        found = (row for row in rows(shard, self.read) if row.row in wanted)
        return shard.index, [_sides(row) for row in found if isinstance(row, Document)]
