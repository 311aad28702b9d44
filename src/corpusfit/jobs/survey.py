"""The job that surveys stored bytes: digests and line ends, many pieces at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from corpusfit.corpus import Chunk, ChunkScan, scan_chunk
from corpusfit.engine import Engine, PlainJob

_BYTES = 16 << 20
_CHUNKS = 256

_Batch = tuple[int, list[Chunk]]


@dataclass(frozen=True)
class _Scan(PlainJob[_Batch, tuple[int, list[ChunkScan]]]):
    """Scan a batch of chunks; returns its number too."""

    def _work(self, batch: _Batch) -> tuple[int, list[ChunkScan]]:
        return batch[0], [scan_chunk(chunk) for chunk in batch[1]]


def scan_with(engine: Engine, chunks: Sequence[Chunk]) -> list[ChunkScan]:
    """Scan chunks on an engine's workers; the results are in the order of the chunks.

    Chunks travel in batches, because a scan of a small file takes less time than its transfer.
    """
    batches: list[list[Chunk]] = []
    size = _BYTES
    for chunk in chunks:
        if size >= _BYTES or len(batches[-1]) == _CHUNKS:
            batches.append([])
            size = 0
        batches[-1].append(chunk)
        size += chunk.span.end - chunk.span.begin
    if len(batches) < 2:
        return [scan_chunk(chunk) for chunk in chunks]
    found = dict(engine.map(_Scan(), enumerate(batches)))
    return [seen for number in range(len(batches)) for seen in found[number]]
