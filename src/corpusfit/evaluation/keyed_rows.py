"""The folder of a split, and hashes of the rows that are split."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpusfit import text as corpus
from corpusfit.core.artifacts import remove
from corpusfit.core.manifest import OutFolder
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Reject, Shard, Source, file_of, in_file
from corpusfit.labeled.heldout import each_text
from corpusfit.text import cures, rows
from corpusfit.text.context import Run
from corpusfit.text.fields import NoTextError, Row, from_value, text_in
from corpusfit.text.reading import Reasons, Tally, read_shard, require_none_rejected
from corpusfit.text.rejects import noted
from corpusfit.text.same_text import text_keys

_Keyed = tuple[int, Tally, NDArray[np.int64], NDArray[np.uint64]]


def with_every_text(sources: Sequence[Source], read: ReadPlan) -> ReadPlan:
    """The plan by which a row's document carries the texts that are not its first."""
    first, *others = each_text(sources, read)
    return first.keeping(tuple(plan.text_field for plan in others))


def texts_of(row: Row, read: ReadPlan) -> list[str] | Reject:
    """All texts of a row that was read by `with_every_text`; each of them must be usable."""
    if isinstance(row, Reject):
        return row
    texts = [row.text]
    for name in read.kept_fields():
        value = (row.fields or {}).get(name)
        try:
            other = from_value(row.row, row.byte, text_in({name: value}, name))
        except NoTextError as e:
            other = Reject(row.row, row.byte, e.reason)
        if isinstance(other, Reject):
            return dataclasses.replace(other, reason=noted(other.reason, name))
        texts.append(other.text)
    return texts


@dataclass(frozen=True)
class KeyTexts:
    """Hash the texts of a shard (XXH3); returns its number, counts, rows and hashes."""

    read: ReadPlan  # of `with_every_text`
    names: tuple[str, ...]

    def __call__(self, shard: Shard) -> _Keyed:
        texts: list[str] = []
        texts_per_row = 1 + len(self.read.kept_fields())
        if texts_per_row == 1:
            documents, tally = read_shard(shard, self.read, self.names)
            texts = documents.texts.to_pylist()
            numbers = documents.row
        else:
            tally = Tally.of(shard)
            of_rows = list[int]()
            for row in rows(shard, self.read):
                of_row = texts_of(row, self.read)
                if isinstance(of_row, Reject):
                    tally.rejects.append(row.row, row.byte, of_row.reason)
                else:
                    of_rows.append(row.row)
                    texts += of_row
            tally.documents = len(of_rows)
            numbers = np.array(of_rows, np.int64)
            if self.read.strict:
                require_none_rejected(tally, self.names)
        return shard.index, tally, numbers, text_keys(texts).reshape(-1, texts_per_row)


@dataclass(frozen=True, eq=False)
class Rows:
    """The n usable rows of some sources, in reading order."""

    shard: NDArray[np.int64]  # int64 [n], number of the row's shard
    source: NDArray[np.int64]  # int64 [n], number of the row's source
    row: NDArray[np.int64]  # int64 [n], number of the row in its source
    place: NDArray[np.int64]  # int64 [n], number of the row in its shard
    keys: NDArray[np.uint64]  # uint64 [n, texts], `text_keys`
    rejected: Reasons  # why other rows are unusable
    losses: cures.Losses  # them, and the usable rows of their sources

    def __len__(self) -> int:
        return len(self.row)


def key_rows(sources: Sequence[Source], read: ReadPlan, context: Run, stage: str) -> Rows:
    """Hash every text, in one pass; holds about 20 bytes per row, 30 for pairs."""
    job = KeyTexts(read, tuple(s.name for s in sources))
    with context.progress.showing(stage, sum(s.size for s in sources)):
        keyed = context.map(job, context.shards_of(sources, read, corpus.packed))
        parts = sorted(keyed, key=lambda part: part[0])
    none = np.empty(0, np.int64)
    nothing = np.empty((0, 1 + len(read.kept_fields())), np.uint64)
    place = np.concatenate([none, *(part[2] for part in parts)])
    first = np.concatenate([none, *(np.full(len(part[2]), part[1].source) for part in parts)])
    source = first + file_of(place)
    rejected = Reasons()
    losses = cures.Losses()
    lossy = set[int]()
    for _, tally, *_ in parts:
        rejected.add(tally.rejects.counts())
        for file, lost in tally.rejects.by_file().items():
            number = tally.source + file
            losses.add(sources[number].name, 0, lost)
            lossy.add(number)
    usable = np.bincount(source, minlength=len(sources))
    for number in lossy:
        losses.add(sources[number].name, int(usable[number]))
    return Rows(
        np.concatenate([none, *(np.full(len(part[2]), part[0]) for part in parts)]),
        source,
        in_file(place),
        place,
        np.concatenate([nothing, *(part[3] for part in parts)]),
        rejected,
        losses,
    )


class SplitFolder(OutFolder):
    """The folder of a split: train, dev, test and rejected rows."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.rejects = path / "rejects.jsonl"

    def part(self, split: str, suffix: str) -> Path:
        """A file of a split."""
        return self.path / f"{split}.{suffix}"

    def _has_work(self) -> bool:
        return (self.work / "files.json").exists() or self.finished() is not None

    def _clear(self) -> None:
        super()._clear()
        self.remove_written()
        remove(self.rejects)
