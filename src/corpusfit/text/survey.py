"""Scan stored bytes once: fingerprints of files, and row offsets where rows are lines."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from corpusfit.core.engine import Engine, PlainJob
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Cells
from corpusfit.kernels.lines import line_ends
from corpusfit.text.cutting import MIB, most_in_one
from corpusfit.text.files import read_bytes, stated_digest, stored_size

CHUNK_BYTES = 32 * MIB  # the planning process keeps a small record of each chunk
_BATCH_BYTES = 16 << 20
_BATCH_CHUNKS = 1024


class Chunk(NamedTuple):
    """Bytes [begin, end) of a file to scan; a `cell` of 0 asks for the digest alone."""

    url: str
    begin: int
    end: int
    cell: int


_NONE = np.empty(0, np.int64)


class ChunkScan(NamedTuple):
    """The digest and the row offsets of a chunk."""

    digest: bytes  # XXH3, 128 bits
    # int64 [m], offset of the first row of each cell that begins after a line end of the chunk
    begins: NDArray[np.int64] = _NONE
    rows: NDArray[np.int64] = _NONE  # int64 [m], number of rows that begin in each of these cells
    ends: tuple[int, int] = (-1, -1)  # offsets behind the first and the last line end
    longest: int = 0  # bytes of the longest row between two line ends


ScanChunks = Callable[[Sequence[Chunk]], Sequence[ChunkScan]]
"""Scans chunks, in this process or on workers; results are in the order of the chunks."""


def scan_chunk(chunk: Chunk) -> ChunkScan:
    """Scan one chunk."""
    data = read_bytes(chunk.url, chunk.begin, chunk.end)
    digest = xxhash.xxh3_128_digest(data)
    if not chunk.cell:
        return ChunkScan(digest)
    starts = line_ends(np.frombuffer(data, np.uint8)) + (chunk.begin + 1)
    if not len(starts):
        return ChunkScan(digest)
    cells = starts // chunk.cell
    firsts = np.flatnonzero(np.diff(cells, prepend=-1))
    longest = int(np.diff(starts).max(initial=0))
    rows = np.diff(np.append(firsts, len(starts)))
    return ChunkScan(digest, starts[firsts], rows, (int(starts[0]), int(starts[-1])), longest)


def scan_here(chunks: Sequence[Chunk]) -> Sequence[ChunkScan]:
    """Scan the chunks in this process, one after the other."""
    return [scan_chunk(chunk) for chunk in chunks]


_Batch = tuple[int, list[tuple[str, int, int, int]]]


@dataclass(frozen=True)
class _Scan(PlainJob[_Batch, tuple[int, list[ChunkScan | bytes]]]):
    """Scan a batch of chunks; returns its number too, and of a chunk without rows its digest."""

    def _work(self, batch: _Batch) -> tuple[int, list[ChunkScan | bytes]]:
        scans = [scan_chunk(Chunk._make(chunk)) for chunk in batch[1]]
        return batch[0], [scan if len(scan.begins) else scan.digest for scan in scans]


def scan_with(engine: Engine, chunks: Sequence[Chunk]) -> list[ChunkScan]:
    """Scan chunks on an engine's workers; the results are in the order of the chunks."""
    # batches of plain values, because a scan of a small file takes less time than its transfer
    batches: list[list[tuple[str, int, int, int]]] = []
    size = _BATCH_BYTES
    for chunk in chunks:
        if size >= _BATCH_BYTES or len(batches[-1]) == _BATCH_CHUNKS:
            batches.append([])
            size = 0
        batches[-1].append((chunk.url, chunk.begin, chunk.end, chunk.cell))
        size += chunk.end - chunk.begin
    if len(batches) < 2:
        return [scan_chunk(chunk) for chunk in chunks]
    scans = dict(engine.map(_Scan(), enumerate(batches)))
    return [
        ChunkScan(scan) if isinstance(scan, bytes) else scan
        for number in range(len(batches))
        for scan in scans[number]
    ]


def survey(
    files: Sequence[tuple[str, bool]], plan: ReadPlan, scan: ScanChunks = scan_here
) -> list[tuple[str, int, Cells | None]]:
    """Fingerprint and size of each file, and row offsets of those whose rows are lines.

    Chunks can be scanned in any order; their results add up to the fingerprint (BLAKE2b over the
    chunks' XXH3 digests) and to the first row of every shard, so that workers can read one large
    file in parallel. A plain file is therefore read twice, once here and once for parsing. A file
    whose store reports a digest is scanned only if its rows are lines.
    """
    cell, one = max(1, int(plan.shard_mb * MIB)), most_in_one(plan)
    asked, chunks = [], list[Chunk]()
    for url, lines in files:
        reported = stated_digest(url)
        size = reported[1] if reported else stored_size(url)
        many = lines and size > one
        before = len(chunks)
        if many or not reported:
            for begin in range(0, size, CHUNK_BYTES):
                end = min(size, begin + CHUNK_BYTES)
                chunks.append(Chunk(url, begin, end, cell if many else 0))
        asked.append((reported, size, many, len(chunks) - before))
    scans = iter(scan(chunks))
    surveyed = []
    for reported, size, many, n in asked:
        of_file = list(itertools.islice(scans, n))
        if reported:
            digest = reported[0]
        else:
            combined = hashlib.blake2b(size.to_bytes(8, "little"), digest_size=16)
            for chunk in of_file:
                combined.update(chunk.digest)
            digest = combined.hexdigest()
        cells = _cells(of_file, size, cell, int(plan.max_row_mb * MIB)) if many else None
        surveyed.append((digest, size, cells))
    return surveyed


def fingerprint(url: str) -> tuple[str, int]:
    """The fingerprint of one file in hex, and its size in bytes."""
    digest, size, _ = survey([(url, False)], ReadPlan())[0]
    return digest, size


def _cells(scans: Sequence[ChunkScan], size: int, cell: int, most: int) -> Cells | None:
    """The first rows of all cells; None if one reader must cut the file."""
    longest, before = 0, 0
    for chunk in scans:
        if chunk.ends[0] >= 0:
            longest = max(longest, chunk.longest, chunk.ends[0] - before)
            before = chunk.ends[1]
    if not size or max(longest, size - before) > max(1, most):
        return None
    if all(scan.ends[0] < 0 for scan in scans):
        return None  # without a line feed, lines may end in CR
    begins = np.concatenate([np.zeros(1, np.int64), *(s.begins for s in scans)])
    rows = np.concatenate([np.ones(1, np.int64), *(s.rows for s in scans)])
    if begins[-1] == size:  # a final line end begins no row
        begins, rows = begins[:-1], rows[:-1]
    elif scans[-1].ends[1] == size:
        rows[-1] -= 1
    first = np.flatnonzero(np.diff(begins // cell, prepend=-1))  # a cell can span two chunks
    counts = np.add.reduceat(rows, first)
    return Cells(np.append(begins[first], size), np.cumsum(counts) - counts)
