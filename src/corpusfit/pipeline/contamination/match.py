"""What of a task's held-out texts lies in some sources.

What: `find_leaks` looks for the texts that `heldout.py` read; `find_all_leaks` looks on both sides
of aligned pairs.
Why: the report (`report.py`) and the guard of a training (`filter.py`) must find the same.
Trade-off: what is found is held in memory: some 30 bytes, and the name of where it is from, for
each pair of a watched text and a text that holds it.
Reference: Broder (1997), On the resemblance and containment of documents.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpusfit.engine import Engine
from corpusfit.evaluate.contamination import HeldoutIndex
from corpusfit.jobs.contamination import Finds, FindWatched
from corpusfit.jobs.reading import Reasons
from corpusfit.pipeline.run import Machine, moving
from corpusfit.pipeline.text_keys import is_parallel
from corpusfit.plan import ReadPlan
from corpusfit.types import Source


@dataclass(frozen=True, eq=False)
class Leaks:
    """What sources hold of watched texts: m pairs, by shard, row and watched text.

    Attributes:
        texts: read.
        size: their bytes.
        source: int64 [m], the number of the source of the text that holds.
        rows: int64 [m], its row there.
        watched: int64 [m], the number of the text that is held.
        containment: float32 [m].
        keys: uint64 [m], the key of the text that holds.
        origins: where it is from.
        excerpts: by pair, of some pairs.
        reasons: of rows that could not be read.
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
        """int64 [m, 2]: source and row of the text that holds, of each pair."""
        return np.stack([self.source, self.rows], 1)

    def holders(self) -> int:
        """How many texts hold one."""
        return len(np.unique(self.places(), axis=0))


def find_leaks(
    watched: HeldoutIndex,
    sources: list[Source],
    read: ReadPlan,
    spool: Path,
    engine: Engine,
    machine: Machine,
    *,
    origin: str = "",
    translations: bool = False,
) -> Leaks:
    """Look for watched texts in every text of some sources.

    Args:
        watched: what may not be trained on.
        sources: found before.
        read: how their rows become texts.
        spool: folder that the workers see.
        engine: started.
        machine: told of progress.
        origin: the field that says where a row is from, if not its source.
        translations: look at the other sides of aligned pairs.

    Raises:
        CorpusfitError: a source cannot be read.
    """
    path = spool / "watched.safetensors"
    watched.write(path)
    job = FindWatched(read, tuple(s.name for s in sources), path, origin, translations)
    machine.progress.begin("look for held-out texts", sum(s.size for s in sources))
    try:
        found = sorted(engine.map(job, moving(sources, read, machine)), key=lambda f: f.shard)
    finally:
        machine.progress.end()
        path.unlink(missing_ok=True)
    return _joined(found)


def find_all_leaks(
    watched: HeldoutIndex,
    sources: list[Source],
    read: ReadPlan,
    spool: Path,
    engine: Engine,
    machine: Machine,
    *,
    origin: str = "",
) -> Leaks:
    """As `find_leaks`, of aligned pairs in the texts and then in their translations.

    A row is one text to train on, of which both sides count as bytes. A key is that of the side
    that holds.
    """
    first = find_leaks(watched, sources, read, spool, engine, machine, origin=origin)
    if not is_parallel(sources):
        return first
    other = find_leaks(
        watched, sources, read, spool, engine, machine, origin=origin, translations=True
    )
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
    """The finds of all shards, in their order."""
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
