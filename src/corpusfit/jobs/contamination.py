"""The job that looks for watched texts in a shard of text that is to be trained on.

What: reads the shard, finds what its texts hold, cuts a few excerpts to show.
Why: a corpus is looked through once, a shard at a time, anywhere.
Trade-off: every find travels back, but of the texts only what is shown.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpusfit.adapt.keys import text_keys
from corpusfit.corpus import rows
from corpusfit.engine import Job
from corpusfit.evaluate.contamination import ContaminationFinder, ContaminationMatches, HeldoutIndex
from corpusfit.jobs.reading import Tally, read_shard
from corpusfit.plan import ReadPlan
from corpusfit.types import Document, Shard, Texts, buffers

_SHOWN = 8
_LENGTH = 300  # bytes


@dataclass(frozen=True)
class Excerpt:
    """A find to show: its place among the shard's finds, and the text from what was found on."""

    find: int
    text: str


@dataclass(frozen=True, eq=False)
class Finds:
    """What one shard holds of the watched texts: m pairs, by row and watched text.

    Attributes:
        shard: its number.
        tally: what was read.
        size: bytes of all its texts.
        rows: int64 [m], the row of the text that holds.
        watched: int64 [m], the number of the text that is held.
        containment: float32 [m].
        keys: uint64 [m], the key of the text that holds.
        origins: where each one's row is from.
        excerpts: of a few.
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
    """Find what the texts of a shard hold.

    Attributes:
        read: how rows become texts.
        names: the sources' names.
        watched: the file of the texts, as `HeldoutIndex.write` wrote it.
        origin: the field that says where a row is from; the name of its source if left out.
        translations: look at the other sides of aligned pairs.
    """

    read: ReadPlan
    names: tuple[str, ...]
    watched: Path
    origin: str = ""
    translations: bool = False

    def start(self) -> Callable[[Shard], Finds]:
        """Open the watched texts."""
        watch = ContaminationFinder(HeldoutIndex.read(self.watched))

        def work(shard: Shard) -> Finds:
            found, tally = read_shard(shard, self.read, self.names, translations=self.translations)
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
        """Where some rows are from."""
        known: dict[int, str] = {}
        if self.origin and len(wanted):
            read = dataclasses.replace(self.read, id_field=self.origin)
            found = (row for row in rows(shard, read) if isinstance(row, Document))
            known = {row.row: str(row.id) for row in found if row.id not in (None, "")}
        return [known.get(row, self.names[shard.source]) for row in wanted.tolist()]


def _excerpts(texts: Texts, held: ContaminationMatches) -> list[Excerpt]:
    """Excerpts of some finds, from the fullest to the least."""
    if not len(held):
        return []
    fullest = np.argsort(-held.containment, kind="stable")
    shown = np.unique(np.linspace(0, len(held) - 1, _SHOWN).astype(np.int64))
    found = []
    for find in fullest[shown].tolist():
        data = texts[int(held.text[find])].as_py().encode()
        begin = int(held.byte[find])
        found.append(Excerpt(find, data[begin : begin + _LENGTH].decode(errors="ignore")))
    return found
