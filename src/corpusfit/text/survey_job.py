"""The job that surveys stored bytes: digests and line ends, many pieces at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from corpusfit.core.engine import Engine, PlainJob
from corpusfit.text import Chunk, ChunkScan, scan_chunk

_BYTES = 16 << 20
_CHUNKS = 1024

_Batch = tuple[int, list[tuple[str, int, int, int]]]


@dataclass(frozen=True)
class _Scan(PlainJob[_Batch, tuple[int, list[ChunkScan | bytes]]]):
    """Scan a batch of chunks; returns its number too, and of a chunk without rows its digest."""

    def _work(self, batch: _Batch) -> tuple[int, list[ChunkScan | bytes]]:
        scans = [scan_chunk(Chunk._make(chunk)) for chunk in batch[1]]
        return batch[0], [scan if len(scan.begins) else scan.digest for scan in scans]


def scan_with(engine: Engine, chunks: Sequence[Chunk]) -> list[ChunkScan]:
    """Scan chunks on an engine's workers; the results are in the order of the chunks.

    Chunks travel in batches of plain values, because a scan of a small file takes less time than
    its transfer.
    """
    batches: list[list[tuple[str, int, int, int]]] = []
    size = _BYTES
    for chunk in chunks:
        if size >= _BYTES or len(batches[-1]) == _CHUNKS:
            batches.append([])
            size = 0
        batches[-1].append((chunk.url, chunk.begin, chunk.end, chunk.cell))
        size += chunk.end - chunk.begin
    if len(batches) < 2:
        return [scan_chunk(chunk) for chunk in chunks]
    found = dict(engine.map(_Scan(), enumerate(batches)))
    return [
        ChunkScan(seen) if isinstance(seen, bytes) else seen
        for number in range(len(batches))
        for seen in found[number]
    ]
