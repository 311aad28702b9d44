"""Hashes of all texts of some sources, as arrays in reading order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpusfit import text as corpus
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Source
from corpusfit.evaluation.splitting.text_keys_job import KeyTexts
from corpusfit.text import cures
from corpusfit.text.context import RunContext
from corpusfit.text.reading import Reasons

_ROWS = 1 << 40
"""More rows than a source has."""


@dataclass(frozen=True, eq=False)
class Rows:
    """The n usable rows of some sources, in reading order.

    Attributes:
        shard: int64 [n], number of the row's shard.
        source: int64 [n], number of the row's source.
        row: int64 [n], number of the row in its source.
        keys: uint64 [n, sides], `corpus.same_text.text_keys`.
        written: uint64 [n, sides], `corpus.same_text.exact_key`.
        rejected: why other rows are unusable.
        losses: them and the usable ones by source.
    """

    shard: NDArray[np.int64]
    source: NDArray[np.int64]
    row: NDArray[np.int64]
    keys: NDArray[np.uint64]
    written: NDArray[np.uint64]
    rejected: Reasons
    losses: cures.Losses

    def __len__(self) -> int:
        return len(self.row)

    def at(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """int64 [m]: the numbers of rows at (source, row in the source), int64 [m, 2]."""
        own = self.source * _ROWS + self.row
        return np.searchsorted(own, places[:, 0] * _ROWS + places[:, 1])


def key_rows(sources: Sequence[Source], read: ReadPlan, context: RunContext, stage: str) -> Rows:
    """Hash every text, in one pass; holds about 30 bytes per row, 50 for pairs."""
    sides = 2 if corpus.is_parallel(sources) else 1
    job = KeyTexts(read, tuple(s.name for s in sources), sides)
    with context.progress.showing(stage, sum(s.size for s in sources)):
        parts = context.map(job, context.shards_of(sources, read))
        found = sorted(parts, key=lambda k: k.shard)
    rejected, losses = Reasons(), cures.Losses()
    for part in found:
        rejected.add(part.tally.rejects)
        losses.add(sources[part.tally.source].name, len(part.rows), part.tally.reasons())
    none, nothing = np.empty(0, np.int64), np.empty((0, sides), np.uint64)
    return Rows(
        np.concatenate([none, *(np.full(len(k.rows), k.shard) for k in found)]),
        np.concatenate([none, *(np.full(len(k.rows), k.tally.source) for k in found)]),
        np.concatenate([none, *(k.rows for k in found)]),
        np.concatenate([nothing, *(k.keys for k in found)]),
        np.concatenate([nothing, *(k.written for k in found)]),
        rejected,
        losses,
    )
