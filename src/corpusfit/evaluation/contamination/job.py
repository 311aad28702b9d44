"""The job that finds held-out texts in a shard of training text."""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.engine import Job
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Document, Shard, Texts, buffers
from corpusfit.evaluation.contamination.finder import (
    ContaminationFinder,
    ContaminationMatches,
    HeldoutIndex,
)
from corpusfit.text import rows
from corpusfit.text.reading import Tally, read_shard
from corpusfit.text.same_text import folded, text_keys

_SHOWN = 8
_LENGTH = 300  # bytes


@dataclass(frozen=True)
class Excerpt:
    """A match to show: its place among the shard's matches, and the text from the match on."""

    find: int
    text: str


@dataclass(frozen=True, eq=False)
class Finds:
    """The m matches of held-out texts in one shard, by row and held-out text.

    Attributes:
        tally: counts of its rows.
        size: bytes of all its texts.
        rows: int64 [m], row of the training text.
        watched: int64 [m], number of the held-out text.
        containment: float32 [m], share of the held-out text's n-grams in the training text.
        keys: uint64 [m], hash of the training text.
        origins: origin of each match's row.
        excerpts: excerpts of a few matches.
    """

    shard: int
    tally: Tally
    size: int
    rows: NDArray[np.int64]
    watched: NDArray[np.int64]
    containment: NDArray[np.float32]
    keys: NDArray[np.uint64]
    origins: list[str]
    excerpts: list[Excerpt]


@dataclass(frozen=True)
class FindWatched(Job[Shard, Finds]):
    """Find held-out texts in the texts of a shard.

    Attributes:
        watched: file of the held-out texts, as `Watched.write` wrote it.
        origin: field with a row's origin (default: the name of its source).
    """

    read: ReadPlan
    names: tuple[str, ...]
    watched: Path
    origin: str = ""

    def start(self) -> Callable[[Shard], Finds]:
        """Read the held-out texts."""
        watch = ContaminationFinder(HeldoutIndex.read(self.watched))

        def work(shard: Shard) -> Finds:
            found, tally = read_shard(shard, self.read, self.names)
            held = watch.find(found.texts)
            texts, nth = np.unique(held.text, return_inverse=True)
            keys = text_keys([found.texts[i].as_py() for i in texts.tolist()])
            return Finds(
                shard.index,
                tally,
                len(buffers(found.texts)[0]),
                found.row[held.text],
                held.watched,
                held.containment,
                keys[nth],
                self._origins(shard, found.row[held.text]),
                _excerpts(found.texts, held),
            )

        return work

    def _origins(self, shard: Shard, wanted: NDArray[np.int64]) -> list[str]:
        """The origins of some rows."""
        known: dict[int, str] = {}
        if self.origin and len(wanted):
            read = dataclasses.replace(self.read, id_field=self.origin)
            found = (row for row in rows(shard, read) if isinstance(row, Document))
            known = {row.row: str(row.id) for row in found if row.id not in (None, "")}
        return [known.get(row, self.names[shard.source]) for row in wanted.tolist()]


def _excerpts(texts: Texts, held: ContaminationMatches) -> list[Excerpt]:
    """Excerpts of some matches, by decreasing containment."""
    if not len(held):
        return []
    fullest = np.argsort(-held.containment, kind="stable")
    shown = np.unique(np.linspace(0, len(held) - 1, _SHOWN).astype(np.int64))
    found = []
    for find in fullest[shown].tolist():
        text, byte = texts[int(held.text[find])].as_py(), int(held.byte[find])
        # the byte is of the form that was searched: the fewest characters that reach it
        ends = range(len(text))
        begin = bisect_left(ends, byte, key=lambda end: len(folded(text[:end]).encode()))
        data = text[begin : begin + _LENGTH].encode()[:_LENGTH]
        found.append(Excerpt(find, data.decode(errors="ignore")))
    return found
