"""Finds held-out texts in sources, and on both sides of parallel corpora."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from corpusfit import text as corpus
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Source
from corpusfit.evaluation.contamination.finder import HeldoutIndex
from corpusfit.evaluation.contamination.job import Finds, FindWatched
from corpusfit.text.context import RunContext
from corpusfit.text.contract import SIDES
from corpusfit.text.reading import Reasons


@dataclass(frozen=True, eq=False)
class Leaks:
    """Finds in some sources: m pairs of a text and a held-out text that it contains.

    Pairs are ordered by shard, row and held-out text. Each takes about 30 bytes of memory, and the
    name of its origin.

    Attributes:
        texts: number of texts that were read.
        size: their size in bytes.
        source: int64 [m], number of the source of the text.
        rows: int64 [m], row of the text in its source.
        watched: int64 [m], number of the held-out text.
        containment: float32 [m], share of the held-out text's 5-grams in the text.
        keys: uint64 [m], key of the text.
        origins: [m], origin of the text.
        excerpts: excerpts of some texts, by pair.
        reasons: reasons of rejected rows.
    """

    texts: int
    size: int
    source: NDArray[np.int64]
    rows: NDArray[np.int64]
    watched: NDArray[np.int64]
    containment: NDArray[np.float32]
    keys: NDArray[np.uint64]
    origins: list[str]
    excerpts: dict[int, str]
    reasons: Reasons = field(default_factory=Reasons)

    def places(self) -> NDArray[np.int64]:
        """int64 [m, 2]: source and row of the text of each pair."""
        return np.stack([self.source, self.rows], 1)

    def holders(self) -> int:
        """How many texts contain a held-out text."""
        return len(np.unique(self.places(), axis=0))


def find_leaks(
    watched: HeldoutIndex,
    sources: list[Source],
    read: ReadPlan,
    context: RunContext,
    *,
    origin: str = "",
) -> Leaks:
    """Look for held-out texts in every text of some sources.

    Reference: Broder (1997), On the resemblance and containment of documents.
    """
    path = context.work / "watched.safetensors"
    watched.write(path)
    job = FindWatched(read, tuple(s.name for s in sources), path, origin)
    try:
        with context.progress.showing("look for held-out texts", sum(s.size for s in sources)):
            found = list(context.map(job, context.shards_of(sources, read)))
    finally:
        path.unlink(missing_ok=True)
    return _joined(sorted(found, key=lambda finds: finds.shard))


def find_all_leaks(
    watched: HeldoutIndex,
    sources: list[Source],
    read: ReadPlan,
    context: RunContext,
    *,
    origin: str = "",
) -> Leaks:
    """As `find_leaks`; of a parallel corpus, on the source side and then on the target side.

    A row is one text to train on, and the size covers both sides. A key is that of the side that
    contains the held-out text.
    """
    if not corpus.is_parallel(sources):
        return find_leaks(watched, sources, read, context, origin=origin)
    return _of_both_sides(
        *(find_leaks(watched, sources, side, context, origin=origin) for side in read.sides())
    )


def find_leaks_in_rows(
    watched: HeldoutIndex,
    sources: list[Source],
    read: ReadPlan,
    context: RunContext,
    *,
    origin: str = "",
) -> Leaks:
    """As `find_all_leaks`, of the rows of a selection of pairs: their text and `translation`."""
    plans = (replace(read, text_field=field) for field in SIDES)
    return _of_both_sides(
        *(find_leaks(watched, sources, side, context, origin=origin) for side in plans)
    )


def _of_both_sides(first: Leaks, other: Leaks) -> Leaks:
    """The finds on the source side and then those on the target side."""
    after = len(first.origins)
    return Leaks(
        first.texts,
        first.size + other.size,
        np.concatenate([first.source, other.source]),
        np.concatenate([first.rows, other.rows]),
        np.concatenate([first.watched, other.watched]),
        np.concatenate([first.containment, other.containment]),
        np.concatenate([first.keys, other.keys]),
        first.origins + other.origins,
        first.excerpts | {after + at: text for at, text in other.excerpts.items()},
        first.reasons,
    )


def _joined(found: list[Finds]) -> Leaks:
    """The finds of all shards, in order."""
    reasons = Reasons()
    excerpts: dict[int, str] = {}
    origins: list[str] = []
    for finds in found:
        reasons.add(finds.tally.rejects)
        excerpts |= {len(origins) + e.find: e.text for e in finds.excerpts}
        origins += finds.origins
    source = [np.full(len(f.rows), f.tally.source, np.int64) for f in found]
    return Leaks(
        sum(f.tally.documents for f in found),
        sum(f.size for f in found),
        np.concatenate([np.empty(0, np.int64), *source]),
        np.concatenate([np.empty(0, np.int64), *(f.rows for f in found)]),
        np.concatenate([np.empty(0, np.int64), *(f.watched for f in found)]),
        np.concatenate([np.empty(0, np.float32), *(f.containment for f in found)]),
        np.concatenate([np.empty(0, np.uint64), *(f.keys for f in found)]),
        origins,
        excerpts,
        reasons,
    )
