"""The job that writes what was taken: the selected segments' text, with their provenance.

Trade-off: the corpus is read a second time instead of keeping every text until the choice is
made; memory stays flat and `choose` can be repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import orjson
import zstandard

from corpusfit.artifacts import write_bytes
from corpusfit.corpus import rows
from corpusfit.engine import Job
from corpusfit.errors import InputError
from corpusfit.plan import ReadPlan
from corpusfit.score import table
from corpusfit.types import Document, Shard

__all__ = ["WriteSelected", "selected_path"]

_COLUMNS = ("row", "segment", "start", "end", "score", "weight", "selected")


def selected_path(folder: Path, shard: int) -> Path:
    """Where a shard's selected text is."""
    return folder / f"part-{shard:05d}.jsonl.zst"


@dataclass(frozen=True)
class WriteSelected(Job[Shard, int]):
    """Read a shard again and write its selected segments; returns how many."""

    read: ReadPlan
    names: tuple[str, ...]
    scores: Path
    selected: Path

    def start(self) -> Callable[[Shard], int]:
        """Nothing to open."""
        return self._work

    def _work(self, shard: Shard) -> int:
        columns = table.read_columns(table.part_path(self.scores, shard.index), *_COLUMNS)
        taken = np.flatnonzero(columns[-1])
        documents = {d.row: d for d in rows(shard, self.read) if isinstance(d, Document)}
        lines = []
        for row, segment, start, end, score, weight, _ in zip(
            *(c[taken] for c in columns), strict=True
        ):
            document = documents.get(int(row))
            if document is None or end > len(document.text):
                raise InputError(
                    f"{self.names[shard.source]} changed while it was read. Run again with "
                    "--overwrite when nobody writes to it."
                )
            line = {
                "text": document.text[int(start) : int(end)],
                "source": self.names[shard.source],
                "row": row,
                "segment": segment,
                "score": score,
                "weight": weight,
                "id": document.id,
            }
            lines.append(orjson.dumps(line, option=orjson.OPT_SERIALIZE_NUMPY))
        data = zstandard.ZstdCompressor(level=3).compress(b"\n".join(lines) + b"\n")
        write_bytes(selected_path(self.selected, shard.index), data)
        return len(lines)
