"""Finds held-out texts in every text of some sources, shard by shard, in workers."""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpusfit import text as corpus
from corpusfit.core.engine import Job
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Shard, Source, Texts, file_of, in_file
from corpusfit.decontamination.finder import (
    ContaminationFinder,
    ContaminationMatches,
    HeldoutIndex,
)
from corpusfit.text.context import Run
from corpusfit.text.reading import Reasons, Tally, read_shard
from corpusfit.text.same_text import folded, text_keys

_SHOWN = 8  # excerpts of a shard
_LENGTH = 300  # bytes of an excerpt


@dataclass(frozen=True, eq=False)
class Leaks:
    """m pairs of a text and a held-out text that it contains, by shard, row and held-out text."""

    # Each takes about 30 bytes of memory.

    texts: int  # number of texts that were read
    source: NDArray[np.int64]  # int64 [m], number of the source of the text
    rows: NDArray[np.int64]  # int64 [m], row of the text in its source
    heldout: NDArray[np.int64]  # int64 [m], number of the held-out text
    containment: NDArray[np.float32]  # float32 [m], share of the held-out text's 5-grams
    keys: NDArray[np.uint64]  # uint64 [m], key of the text
    excerpts: dict[int, str]  # from the match on, of a few texts, by pair
    reasons: Reasons = field(default_factory=Reasons)  # of rejected rows

    def places(self) -> NDArray[np.int64]:
        """int64 [m, 2]: source and row of the text of each pair."""
        return np.stack([self.source, self.rows], 1)


@dataclass(frozen=True)
class FindHeldout(Job[Shard, tuple[int, Tally, Leaks]]):
    """Find held-out texts in the texts of a shard."""

    read: ReadPlan
    names: tuple[str, ...]
    heldout: Path  # file of the held-out texts, as `HeldoutIndex.write` wrote it

    def start(self) -> Callable[[Shard], tuple[int, Tally, Leaks]]:
        """Read the held-out texts."""
        finder = ContaminationFinder(HeldoutIndex.read(self.heldout))

        def work(shard: Shard) -> tuple[int, Tally, Leaks]:
            documents, tally = read_shard(shard, self.read, self.names)
            matches = finder.find(documents.texts)
            # a text that contains several held-out ones is hashed once
            texts, nth = np.unique(matches.text, return_inverse=True)
            keys = text_keys([documents.texts[i].as_py() for i in texts.tolist()])
            holders = documents.row[matches.text]
            leaks = Leaks(
                tally.documents,
                tally.source + file_of(holders),
                in_file(holders),
                matches.heldout,
                matches.containment,
                keys[nth],
                _excerpts(documents.texts, matches),
            )
            return shard.index, tally, leaks

        return work


def _excerpts(texts: Texts, matches: ContaminationMatches) -> dict[int, str]:
    """Excerpts of a few matches, spread from the highest containment to the lowest."""
    if not len(matches):
        return {}
    fullest = np.argsort(-matches.containment, kind="stable")
    shown = np.unique(np.linspace(0, len(matches) - 1, _SHOWN).astype(np.int64))
    excerpts = {}
    for match in fullest[shown].tolist():
        text = texts[int(matches.text[match])].as_py()
        byte = int(matches.byte[match])
        # the offset counts bytes of the `folded` text: find the character that reaches it
        ends = range(len(text))
        begin = bisect_left(ends, byte, key=lambda end: len(folded(text[:end]).encode()))
        data = text[begin : begin + _LENGTH].encode()[:_LENGTH]
        excerpts[match] = data.decode(errors="ignore")
    return excerpts


def find_leaks(
    heldout: HeldoutIndex,
    sources: list[Source],
    read: ReadPlan,
    context: Run,
) -> Leaks:
    """Search all texts of the sources for held-out texts.

    Reference: Broder (1997), On the resemblance and containment of documents.
    """
    path = context.work / "heldout.safetensors"
    heldout.write(path)
    job = FindHeldout(read, tuple(s.name for s in sources), path)
    try:
        with context.progress.showing("look for held-out texts", sum(s.size for s in sources)):
            shards = context.shards_of(sources, read, corpus.packed)
            parts = list(context.map(job, shards))
    finally:
        path.unlink(missing_ok=True)
    parts.sort(key=lambda part: part[0])
    reasons = Reasons()
    for _, tally, _ in parts:
        reasons.add(tally.rejects.counts())
    return dataclasses.replace(_joined([leaks for *_, leaks in parts]), reasons=reasons)


def find_all_leaks(
    heldout: HeldoutIndex,
    sources: list[Source],
    reads: Sequence[ReadPlan],
    context: Run,
) -> Leaks:
    """As `find_leaks`, in each text of a row: all that the plans read."""
    of_texts = [find_leaks(heldout, sources, read, context) for read in reads]
    # a row is one text to train on; its key is that of the text that contains the held-out text
    first = of_texts[0]
    return dataclasses.replace(_joined(of_texts), texts=first.texts, reasons=first.reasons)


def _joined(parts: Sequence[Leaks]) -> Leaks:
    excerpts: dict[int, str] = {}
    pairs = 0
    for part in parts:
        excerpts |= {pairs + at: text for at, text in part.excerpts.items()}
        pairs += len(part.rows)
    return Leaks(
        sum(part.texts for part in parts),
        np.concatenate([np.empty(0, np.int64), *(part.source for part in parts)]),
        np.concatenate([np.empty(0, np.int64), *(part.rows for part in parts)]),
        np.concatenate([np.empty(0, np.int64), *(part.heldout for part in parts)]),
        np.concatenate([np.empty(0, np.float32), *(part.containment for part in parts)]),
        np.concatenate([np.empty(0, np.uint64), *(part.keys for part in parts)]),
        excerpts,
    )
