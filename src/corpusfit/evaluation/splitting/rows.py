"""The rows of a corpus to split: hashes of their texts, and the draw of dev and test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corpusfit import text as corpus
from corpusfit.core.engine import PlainJob
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Document, Shard, Source
from corpusfit.kernels.chance import value_keys
from corpusfit.text import cures, rows
from corpusfit.text.context import RunContext
from corpusfit.text.reading import Reasons, Tally, require_none_rejected
from corpusfit.text.same_text import exact_key, text_keys

_ROWS = 1 << 40  # more rows than a source has
_STREAM = 20  # random numbers apart from all others of a seed
KEPT = 0
# Why a pair is dropped, by the code that `one_to_one` returns.
REASONS = {
    1: "the same pair came before",
    2: "another translation of a text that came before",
    3: "another text of a translation that came before",
}

_Keyed = tuple[int, Tally, NDArray[np.int64], NDArray[np.uint64], NDArray[np.uint64]]
_Piece = tuple[Shard, NDArray[np.int64]]
_Texts = tuple[int, list[tuple[str, ...]]]


def _sides(document: Document) -> tuple[str, ...]:
    if document.translation is None:
        return (document.text,)
    return document.text, document.translation


@dataclass(frozen=True)
class KeyTexts(PlainJob[Shard, _Keyed]):
    """Hash the texts of a shard (XXH3); returns its number, counts, rows and both hashes."""

    read: ReadPlan
    names: tuple[str, ...]
    sides: int  # 2 for aligned pairs, else 1

    def _work(self, shard: Shard) -> _Keyed:
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
        of_keys, exact = (
            np.array(each, np.uint64).reshape(-1, self.sides) for each in (keys, written)
        )
        return shard.index, tally, np.array(numbers, np.int64), of_keys, exact


@dataclass(frozen=True)
class TextsOfRows(PlainJob[_Piece, _Texts]):
    """Read the texts of some rows of a shard (int64 [k], increasing), each with all its sides."""

    read: ReadPlan

    def _work(self, piece: _Piece) -> _Texts:
        shard, numbers = piece
        wanted = set(numbers.tolist())
        asked = (row for row in rows(shard, self.read) if row.row in wanted)
        return shard.index, [_sides(row) for row in asked if isinstance(row, Document)]


@dataclass(frozen=True, eq=False)
class Rows:
    """The n usable rows of some sources, in reading order."""

    shard: NDArray[np.int64]  # int64 [n], number of the row's shard
    source: NDArray[np.int64]  # int64 [n], number of the row's source
    row: NDArray[np.int64]  # int64 [n], number of the row in its source
    keys: NDArray[np.uint64]  # uint64 [n, sides], `text_keys`
    written: NDArray[np.uint64]  # uint64 [n, sides], `exact_key`
    rejected: Reasons  # why other rows are unusable
    losses: cures.Losses  # them and the usable ones by source

    def __len__(self) -> int:
        return len(self.row)

    def at(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """int64 [m]: the numbers of rows at (source, row in the source), int64 [m, 2]."""
        known = self.source * _ROWS + self.row
        return np.searchsorted(known, places[:, 0] * _ROWS + places[:, 1])


def key_rows(sources: Sequence[Source], read: ReadPlan, context: RunContext, stage: str) -> Rows:
    """Hash every text, in one pass; holds about 30 bytes per row, 50 for pairs."""
    sides = 2 if corpus.is_parallel(sources) else 1
    job = KeyTexts(read, tuple(s.name for s in sources), sides)
    with context.progress.showing(stage, sum(s.size for s in sources)):
        keyed = context.map(job, context.shards_of(sources, read))
        parts = sorted(keyed, key=lambda part: part[0])
    rejected, losses = Reasons(), cures.Losses()
    for _, tally, numbers, *_ in parts:
        rejected.add(tally.rejects)
        losses.add(sources[tally.source].name, len(numbers), tally.reasons())
    none, nothing = np.empty(0, np.int64), np.empty((0, sides), np.uint64)
    return Rows(
        np.concatenate([none, *(np.full(len(part[2]), part[0]) for part in parts)]),
        np.concatenate([none, *(np.full(len(part[2]), part[1].source) for part in parts)]),
        np.concatenate([none, *(part[2] for part in parts)]),
        np.concatenate([nothing, *(part[3] for part in parts)]),
        np.concatenate([nothing, *(part[4] for part in parts)]),
        rejected,
        losses,
    )


def one_to_one(keys: NDArray[np.uint64]) -> NDArray[np.int8]:
    """int8 [n]: `KEPT`, or why a pair is dropped, so that no side of a kept pair repeats.

    Reference: Aharoni and Goldberg (2020), section 3.1: "we did not allow more than one translation
    of a given source or target sentence".
    """
    codes = np.zeros(len(keys), np.int8)
    translation_of: dict[int, int] = {}
    translations: set[int] = set()
    for i, (text, translation) in enumerate(keys.tolist()):
        if text in translation_of:
            codes[i] = 1 if translation_of[text] == translation else 2
        elif translation in translations:
            codes[i] = 3
        else:
            translation_of[text] = translation
            translations.add(translation)
    return codes


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of rows with the same text: g groups over n rows, in the order of drawing."""

    of: NDArray[np.int64]  # int64 [n], each row's group; -1 for a row in none
    sizes: NDArray[np.int64]  # int64 [g], rows of each group

    @classmethod
    def of_keys(cls, keys: NDArray[np.uint64], kept: NDArray[np.bool_], seed: int) -> Groups:
        """Group the kept rows, bool [n], by their keys, uint64 [n]."""
        different, member, sizes = np.unique(keys[kept], return_inverse=True, return_counts=True)
        # by seed and text alone, so a growing corpus keeps most of its held-out rows
        order = np.argsort(value_keys(seed, _STREAM, different), kind="stable")
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        of = np.full(len(keys), -1, np.int64)
        of[kept] = rank[member]
        return cls(of, sizes[order])


class Drawn(NamedTuple):
    """The groups drawn for test and dev."""

    test: frozenset[int]
    dev: frozenset[int]


def draw(
    groups: Groups, dev: int, test: int, near: Mapping[int, AbstractSet[int]], candidates: int
) -> Drawn | None:
    """Draw test, then dev from groups without a near-duplicate in test."""
    sizes = groups.sizes[:candidates].tolist()
    of_test = _fill(sizes, test, range(len(sizes)))
    if of_test is None:
        return None
    similar = {other for group in of_test for other in near.get(group, ())}
    free = (g for g in range(len(sizes)) if g not in of_test and g not in similar)
    of_dev = _fill(sizes, dev, free)
    return None if of_dev is None else Drawn(of_test, of_dev)


def _fill(sizes: list[int], wanted: int, groups: Iterable[int]) -> frozenset[int] | None:
    """The first groups that together have exactly `wanted` rows; None if none do."""
    chosen: list[int] = []
    for group in groups:
        if not wanted:
            break
        if sizes[group] <= wanted:  # a larger one is skipped, so sizes are exact
            chosen.append(group)
            wanted -= sizes[group]
    return None if wanted else frozenset(chosen)
