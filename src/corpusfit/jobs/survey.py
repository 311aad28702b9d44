"""The job that looks at stored bytes: digests and line ends, a few pieces at a time.

Trade-off: pieces travel in batches, because a hundred thousand small files are as many pieces and
each look takes less time than its way to a worker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from corpusfit.corpus import Chunk, ChunkScan, scan_chunk
from corpusfit.engine import Engine, Job

_BYTES = 16 << 20
_PIECES = 256

_Batch = tuple[int, list[Chunk]]


@dataclass(frozen=True)
class _LookAt(Job[_Batch, tuple[int, list[ChunkScan]]]):
    """Look at a batch; returns its number too."""

    def start(self) -> Callable[[_Batch], tuple[int, list[ChunkScan]]]:
        """Nothing to open."""
        return lambda batch: (batch[0], [scan_chunk(chunk) for chunk in batch[1]])


def scan_with(engine: Engine, chunks: Sequence[Chunk]) -> list[ChunkScan]:
    """Look at pieces on an engine's workers; the answers in the order of the pieces."""
    batches: list[list[Chunk]] = []
    size = _BYTES
    for chunk in chunks:
        if size >= _BYTES or len(batches[-1]) == _PIECES:
            batches.append([])
            size = 0
        batches[-1].append(chunk)
        size += chunk.span.end - chunk.span.begin
    if len(batches) < 2:
        return [scan_chunk(chunk) for chunk in chunks]
    found = dict(engine.map(_LookAt(), enumerate(batches)))
    return [seen for number in range(len(batches)) for seen in found[number]]
