"""The jobs that tell texts apart without keeping them, and that fetch the few that are kept.

What: `KeyTexts` gives for every row of a shard two hashes of its text (and of its translation): of
its letters and digits, and of all that is written. `TextsOfRows` reads some rows' texts.
Why: whether a text stands in two places is seen from eight bytes of it, so a corpus of any size is
looked through by the workers and compared by one process.
Trade-off: two texts share a hash by chance with probability 2^-64.
Reference: XXH3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import xxhash
from numpy.typing import NDArray

from corpusfit.adapt.keys import alphanumeric, key_of
from corpusfit.corpus import rows
from corpusfit.engine import Job
from corpusfit.jobs.reading import Tally, require_none_rejected
from corpusfit.plan import ReadPlan
from corpusfit.types import Document, Shard

_Piece = tuple[Shard, NDArray[np.int64]]
_Found = tuple[int, list[tuple[str, ...]]]


@dataclass(frozen=True, eq=False)
class Keyed:
    """The n usable rows of a shard; their texts have one side, or two.

    Attributes:
        shard: its number.
        tally: what was read.
        rows: int64 [n], in reading order.
        keys: uint64 [n, sides], see `same_text_key`.
        written: uint64 [n, sides], of the texts to the letter.
    """

    shard: int
    tally: Tally
    rows: NDArray[np.int64]
    keys: NDArray[np.uint64]
    written: NDArray[np.uint64]


def same_text_key(text: str) -> int:
    """The key of a text's letters and digits, case folded; all else is left out.

    So texts are the same that differ in case, blanks, punctuation, symbols or combining marks
    alone; `é` as one character is a letter, and another than `e`. A text without a letter or a
    digit goes by all that is written, but for blanks around it.
    """
    return key_of(alphanumeric(text) or text.strip())


def _sides(document: Document) -> tuple[str, ...]:
    if document.translation is None:
        return (document.text,)
    return document.text, document.translation


@dataclass(frozen=True)
class KeyTexts(Job[Shard, Keyed]):
    """Hash the texts of a shard.

    Attributes:
        read: how rows become texts.
        names: the sources' names.
        sides: 2 for aligned pairs, else 1.
    """

    read: ReadPlan
    names: tuple[str, ...]
    sides: int

    def start(self) -> Callable[[Shard], Keyed]:
        """Nothing to open."""
        return self._work

    def _work(self, shard: Shard) -> Keyed:
        tally, numbers = Tally(shard.source), []
        keys: list[int] = []
        written: list[int] = []
        for row in rows(shard, self.read):
            if isinstance(row, Document):
                numbers.append(row.row)
                texts = _sides(row)
                keys += map(same_text_key, texts)
                written += (xxhash.xxh3_64_intdigest(t.encode()) for t in texts)
            else:
                tally.rejects.append((row.row, row.byte, row.reason))
        tally.documents = len(numbers)
        if self.read.strict:
            require_none_rejected(tally, self.names)
        hashed = (np.array(found, np.uint64).reshape(-1, self.sides) for found in (keys, written))
        return Keyed(shard.index, tally, np.array(numbers, np.int64), *hashed)


@dataclass(frozen=True)
class TextsOfRows(Job[_Piece, _Found]):
    """The texts of some rows of a shard, int64 [k] increasing, each with all its sides.

    Returns the shard's number with them.
    """

    read: ReadPlan

    def start(self) -> Callable[[_Piece], _Found]:
        """Nothing to open."""
        return self._work

    def _work(self, piece: _Piece) -> _Found:
        shard, numbers = piece
        wanted = set(numbers.tolist())
        found = (row for row in rows(shard, self.read) if row.row in wanted)
        return shard.index, [_sides(row) for row in found if isinstance(row, Document)]
