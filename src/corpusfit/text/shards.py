"""Fingerprint stored files, cut sources into numbered shards, and read a shard."""

from __future__ import annotations

import hashlib
import heapq
import itertools
from collections import deque
from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from corpusfit.core.engine import Engine
from corpusfit.core.manifest import SMALL_FILES
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import (
    FILE_BITS,
    Beside,
    Cells,
    Documents,
    Nth,
    Parts,
    Reason,
    Reject,
    Shard,
    Source,
    Span,
)
from corpusfit.kernels.lines import line_ends
from corpusfit.text.blocks import are_small_files, cutting, in_batches, nth_block
from corpusfit.text.contract import Format, columns_of, load
from corpusfit.text.cutting import BOM, MIB, Block, line_feeds, most_in_one
from corpusfit.text.fields import Pick, Row
from corpusfit.text.files import Infos, States, infos, read_bytes, stated_digest, stored_size
from corpusfit.text.scores import joining, to_end

# sources in a shard: its row numbers, which contain that of the source, must fit into int64
_MAX_SOURCES = 1 << 20

CHUNK_BYTES = 32 * MIB  # the planning process keeps a small record of each chunk


class Chunk(NamedTuple):
    """Bytes [begin, end) of a file to scan; a `cell` of 0 asks for the digest alone."""

    url: str
    begin: int
    end: int
    cell: int


_NO_CELLS = np.empty(0, np.int64)


class ChunkScan(NamedTuple):
    """The digest and the row offsets of a chunk."""

    digest: bytes  # XXH3, 128 bits
    # int64 [m], offset of the first row in each cell of the file; a row of this chunk is one that
    # begins after one of its line ends
    begins: NDArray[np.int64] = _NO_CELLS
    # int64 [m], number of rows that begin in each of these cells
    rows: NDArray[np.int64] = _NO_CELLS
    # offsets after the first and the last line end; -1 without one
    ends: tuple[int, int] = (-1, -1)
    longest: int = 0  # bytes of the longest row between two line ends


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


_Batch = tuple[int, list[tuple[str, int, int, int]]]


def _scan_batch(batch: _Batch) -> tuple[int, list[ChunkScan | bytes]]:
    """Scan a batch of chunks; returns its number and scans, or digests of chunks without rows."""
    scans = [scan_chunk(Chunk._make(chunk)) for chunk in batch[1]]
    return batch[0], [scan if len(scan.begins) else scan.digest for scan in scans]


def _scanned(chunks: Sequence[Chunk], engine: Engine | None) -> list[ChunkScan]:
    """Scan chunks on an engine's workers; the results are in the order of the chunks."""
    # batches of plain values, because a scan of a small file takes less time than its transfer
    batches = in_batches(
        ((chunk.url, chunk.begin, chunk.end, chunk.cell) for chunk in chunks),
        lambda chunk: chunk[2] - chunk[1],
    )
    if engine is None or len(batches) < 2:
        return [scan_chunk(chunk) for chunk in chunks]
    scans = dict(engine.map(_scan_batch, enumerate(batches)))
    return [
        ChunkScan(scan) if isinstance(scan, bytes) else scan
        for number in range(len(batches))
        for scan in scans[number]
    ]


def survey(
    files: Sequence[tuple[str, bool]],
    plan: ReadPlan,
    engine: Engine | None = None,
    known: Infos | None = None,
    states: States = (),
) -> list[tuple[str, int, Cells | None]]:
    """Fingerprint and size of each file, and row offsets of those whose rows are lines.

    Chunks can be scanned in any order; their results add up to the fingerprint (BLAKE2b over the
    chunks' XXH3 digests) and to the first row of every shard, so that workers can read one large
    file in parallel. A plain file is therefore read twice, once here and once for parsing. A file
    whose store reports a digest is scanned only if its rows are lines. Without an engine, this
    process scans. What is `known` of a file is not asked again, nor are its `states`.
    """
    cell = max(1, int(plan.shard_mb * MIB))
    small_file = most_in_one(plan)
    reported_files = []
    chunks = list[Chunk]()
    stated = dict(known or {})
    stated |= infos(url for url, _ in files if url not in stated)
    for (url, lines), state in zip(files, states or [None] * len(files), strict=True):
        reported = stated_digest(stated[url]) if url in stated else None
        size = reported[1] if reported else stored_size(url, state)
        # other files are one shard, or only a sequential reader can cut them
        has_cells = lines and size > small_file
        before = len(chunks)
        if has_cells or not reported:
            for begin in range(0, size, CHUNK_BYTES):
                end = min(size, begin + CHUNK_BYTES)
                chunks.append(Chunk(url, begin, end, cell if has_cells else 0))
        reported_files.append((reported, size, has_cells, len(chunks) - before))
    # scan the chunks of all files together, so that workers are busy with many small files too
    scans = iter(_scanned(chunks, engine))
    surveyed = []
    for reported, size, has_cells, n in reported_files:
        of_file = list(itertools.islice(scans, n))
        if reported:
            digest = reported[0]
        else:
            combined = hashlib.blake2b(size.to_bytes(8, "little"), digest_size=16)
            for chunk in of_file:
                combined.update(chunk.digest)
            digest = combined.hexdigest()
        cells = _cells(of_file, size, cell, int(plan.max_row_mb * MIB)) if has_cells else None
        surveyed.append((digest, size, cells))
    return surveyed


def fingerprint(url: str) -> tuple[str, int]:
    """The fingerprint of one file in hex, and its size in bytes."""
    digest, size, _ = survey([(url, False)], ReadPlan())[0]
    return digest, size


def _cells(scans: Sequence[ChunkScan], size: int, cell: int, max_row_bytes: int) -> Cells | None:
    """The first rows of all cells; None if only a sequential reader can cut the file."""
    longest = 0
    before = 0
    for chunk in scans:
        if chunk.ends[0] >= 0:
            longest = max(longest, chunk.longest, chunk.ends[0] - before)
            before = chunk.ends[1]
    if not size or max(longest, size - before) > max(1, max_row_bytes):
        return None
    # without a line feed, lines may end in CR, which only reading all of it shows
    if all(scan.ends[0] < 0 for scan in scans):
        return None
    begins = np.concatenate([np.zeros(1, np.int64), *(s.begins for s in scans)])
    rows = np.concatenate([np.ones(1, np.int64), *(s.rows for s in scans)])
    if begins[-1] == size:  # a final line end begins no row
        begins = begins[:-1]
        rows = rows[:-1]
    elif scans[-1].ends[1] == size:
        rows[-1] -= 1
    # merge cells that span two chunks
    first = np.flatnonzero(np.diff(begins // cell, prepend=-1))
    counts = np.add.reduceat(rows, first)
    return Cells(np.append(begins[first], size), np.cumsum(counts) - counts)


def numbering(sources: Sequence[Source]) -> tuple[list[int], tuple[str, ...]]:
    """The number of each source's first name among those of all, and these names.

    Files of one run, which are of the same sources, share their names.
    """
    if not any(load(name).gathers for name in {source.format for source in sources}):
        return list(range(len(sources))), tuple(source.name for source in sources)
    numbers = list[int]()
    names = list[str]()
    before = tuple[str, ...]()
    first = 0
    for source in sources:
        of_rows = load(source.format).names(source)
        if of_rows is not before:
            first = len(names)
            names += of_rows
        numbers.append(first)
        before = of_rows
    return numbers, tuple(names)


def shards(sources: Sequence[Source], plan: ReadPlan) -> Iterator[Shard]:
    """Yield the whole corpus in reading order, as shards of a few MiB.

    A shard never crosses a source, and its number depends only on the inputs and `plan.shard_mb`.
    A shard of stored files holds only the place of its rows, which a worker reads: a byte range of
    plain JSON lines or of a small plain file, else a number (`text/blocks.py`). Rows of data sets
    of the hub, and of a source that was found with another plan, are read by this process.
    """
    index = 0
    small_files = are_small_files(sources, plan)
    numbers = numbering(sources)[0]
    for number, source, small in zip(numbers, sources, small_files, strict=True):
        if small:
            yield _whole_file(number, source.url, source.size, source.format, index=index)
            index += 1
            continue
        for shard in _of_source(number, source, plan):
            yield replace(shard, index=index)
            index += 1


def packed(sources: Sequence[Source], plan: ReadPlan) -> Iterator[Shard]:
    """Like `shards`, but consecutive small sources of one format share a shard.

    A source is small if it is one shard by itself; a shard holds as many as fit into
    `plan.shard_mb`. Larger sources have the shards of `shards`. All steps of a run on a scored
    corpus number shards in this way.
    """
    for index, shard in enumerate(_packed(sources, plan)):
        yield replace(shard, index=index)


def _packed(sources: Sequence[Source], plan: ReadPlan) -> Iterator[Shard]:
    limit = int(plan.shard_mb * MIB)
    packed_bytes = 0
    # The sources of a shard are kept as columns: an object for each costs more than its parsing.
    pack = Parts([], [], [], [])
    first = 0
    form = ""
    small_files = are_small_files(sources, plan)
    numbers = numbering(sources)[0]
    for number, source, small in zip(numbers, sources, small_files, strict=True):
        begin: list[Shard] = []
        size = source.size
        url = source.url
        together = True
        if not small:
            rest = _of_source(number, source, plan)
            begin = list(itertools.islice(rest, 2))
            if not begin:
                continue
            together = len(begin) == 1 and not isinstance(begin[0].span, Span)
            together = together and not load(source.format).gathers
            size = len(begin[0].data)
            url = ""
            if source.blocks and begin[0].span:
                size = int(source.blocks.sizes[0])
        if pack.sources and (
            not together
            or packed_bytes + size > limit
            or source.format != form
            or number - first >= _MAX_SOURCES
        ):
            yield _together(pack, form)
            pack = Parts([], [], [], [])
            packed_bytes = 0
        if together:
            if not pack.sources:
                first = number
                form = source.format
            pack.sources.append(number)
            pack.sizes.append(size)
            pack.urls.append(url)
            pack.shards.append(begin[0] if begin else None)
            packed_bytes += size
        else:
            yield from begin
            yield from rest
    if pack.sources:
        yield _together(pack, form)


def _together(parts: Parts, form: str) -> Shard:
    """One shard of small sources."""
    first = parts.sources[0]
    if len(parts.sources) == 1:
        return parts.shards[0] or _whole_file(first, parts.urls[0], parts.sizes[0], form)
    stored = zip(parts.shards, parts.sizes, strict=True)
    position = sum(shard.position if shard else size for shard, size in stored)
    files = parts.sources[-1] - first + 1
    return Shard(0, first, form, 0, 0, b"", (), position, None, parts, files)


def _whole_file(
    source: int, url: str, size: int, form: str, first_row: int = 0, index: int = 0
) -> Shard:
    return Shard(index, source, form, first_row, 0, b"", (), size, Span(url, 0, size))


def layout(sources: Sequence[Source], plan: ReadPlan) -> dict[str, str]:
    """What a run's identity says of shards of several sources; empty if no two sources share one.

    It is decided by the stored sizes.
    """
    limit = int(plan.shard_mb * MIB)
    used = (source for source in sources if source.size)
    shared = any(
        first.format == second.format and first.size + second.size <= limit
        for first, second in itertools.pairwise(used)
    )
    return {SMALL_FILES: "together in shards"} if shared else {}


def _of_source(number: int, source: Source, plan: ReadPlan) -> Iterator[Shard]:
    """The shards of a source that is no small file, without their numbers."""
    files = len(load(source.format).names(source))
    blocks: Iterator[Block]
    if source.cells:
        borders = itertools.pairwise(source.cells.begins.tolist())
        cells = zip(source.cells.rows.tolist(), borders, strict=True)
        blocks = (
            Block(row, begin, b"", (), end, Span(source.url, begin, end))
            for row, (begin, end) in cells
        )
    elif source.blocks and source.blocks.plan == cutting(plan, source):
        stored = source.blocks
        plain = replace(source, blocks=None)
        last = len(stored.rows) - 1
        columns = (stored.rows, stored.begins, stored.sizes, stored.positions)
        numbered = enumerate(zip(*(column.tolist() for column in columns), strict=True))
        blocks = (
            Block(row, byte, b"", (), position, Nth(plain, nth, row, byte, size, nth == last))
            for nth, (row, byte, size, position) in numbered
        )
    else:
        keys = (key for *_, key in source.scores if key)
        reading = plan.keeping((*plan.kept_fields(), *keys))
        blocks = load(source.format).blocks(source, reading)
    beside = Beside(source.name, source.fingerprint, source.scores) if source.scores else None
    for block, last in _with_last(blocks) if beside else ((block, False) for block in blocks):
        yield Shard(
            index=0,
            source=number,
            format=source.format,
            first_row=block.first_row,
            first_byte=block.first_byte,
            data=block.data,
            rejects=block.rejects,
            position=block.position,
            span=block.span,
            files=files,
            beside=beside and beside._replace(last=last),
        )


def _with_last(blocks: Iterator[Block]) -> Iterator[tuple[Block, bool]]:
    """Each block, and whether it is the last one."""
    before = next(blocks, None)
    while before is not None:
        after = next(blocks, None)
        yield before, after is None
        before = after


def _with_data(shard: Shard, plan: ReadPlan) -> Shard:
    """The shard with its raw bytes, read now if they are still in a file."""
    if shard.span is None:
        return shard
    if isinstance(shard.span, Nth):
        block = nth_block(shard.span, plan)
        return replace(shard, data=block.data, rejects=block.rejects, span=None)
    data = read_bytes(shard.span.url, shard.span.begin, shard.span.end)
    if not shard.span.begin:  # a part of a file with line ends has one
        data = line_feeds(data)
    return Shard(  # several times as fast as `replace`, which shows with many small files
        shard.index,
        shard.source,
        shard.format,
        shard.first_row,
        shard.first_byte,
        data,
        shard.rejects,
        shard.position,
        beside=shard.beside,
    )


def rows(shard: Shard, plan: ReadPlan, files: Container[int] | None = None) -> Iterator[Row]:
    """Yield every row of the shard once, as a `Document` or a `Reject`.

    A malformed row never raises; the caller applies `plan.strict`, because it knows the source's
    name. Unlike the columns of `documents`, rows have ids and offsets, but they are many times
    slower.
    """
    if shard.parts:
        return _rows_of_parts(shard, shard.parts, plan, files)
    plan = joining(shard, plan)
    shard = _with_data(shard, plan)
    parsed = load(shard.format).parse(shard, plan)
    if shard.rejects:
        parsed = heapq.merge(parsed, shard.rejects, key=lambda row: row.row)
    return to_end(parsed, plan) if shard.beside and shard.beside.last else parsed


def _rows_of_parts(
    shard: Shard, parts: Parts, plan: ReadPlan, files: Container[int] | None
) -> Iterator[Row]:
    for source, size, url, single in zip(*parts, strict=True):
        if files is not None and source - shard.source not in files:
            continue
        before = (source - shard.source) << FILE_BITS
        if single is None:
            yield from rows(_whole_file(source, url, size, shard.format, before), plan)
        else:
            whole = _with_data(single, plan)
            rejected = tuple(replace(r, row=before + r.row) for r in whole.rejects)
            first_row = before + whole.first_row
            yield from rows(replace(whole, first_row=first_row, rejects=rejected), plan)


def documents(
    shard: Shard, plan: ReadPlan, pick: Pick | None = None
) -> tuple[Documents, list[Reject]]:
    """The usable rows of the shard as columns, and the rejects.

    Formats with one row per line skip the parsing of rows that `pick` does not choose.
    """
    form = load(shard.format)
    if shard.parts:
        together = form.joins and not plan.scores  # else a row's number is not that in its file
        joined = _joined(shard.parts, shard, form, plan, pick) if together else None
        return joined or columns_of(rows(shard, plan), pick)
    plan = joining(shard, plan)
    shard = _with_data(shard, plan)
    usable, rejected = form.columns(shard, plan, pick)
    rejected = sorted([*rejected, *shard.rejects], key=lambda r: r.row)
    if shard.beside and shard.beside.last and pick is None:
        last = [Reject(row, 0, Reason("")) for row in usable.row[-1:].tolist()]
        deque(to_end(heapq.merge(last, rejected, key=lambda r: r.row), plan), 0)
    return usable, rejected


def _joined(
    parts: Parts, shard: Shard, form: Format, plan: ReadPlan, pick: Pick | None
) -> tuple[Documents, list[Reject]] | None:
    """`documents` of several sources, parsed as one; None if they must be parsed one by one."""
    begins = []
    first_rows = []
    first_bytes = []
    rejected = []
    joined = bytearray()
    for source, size, url, single in zip(*parts, strict=True):
        before = (source - shard.source) << FILE_BITS
        whole = _with_data(single, plan) if single else None
        data = form.joined(whole.data if whole else line_feeds(read_bytes(url, 0, size)), plan)
        if data is None:
            return None
        if whole:
            rejected += [replace(r, row=before + r.row) for r in whole.rejects]
        begins.append(len(joined))
        first_rows.append(before + whole.first_row if whole else before)
        first_bytes.append(whole.first_byte if whole else 0)
        joined += data
    together = replace(shard, data=bytes(joined), parts=None)
    # for each source: where its bytes begin, its first row in the shard, and that row's byte
    at, first, byte = np.array([begins, first_rows, first_bytes], np.int64)
    ends = line_ends(np.frombuffer(together.data, np.uint8)) + 1
    lines = np.searchsorted(ends, at, side="right")  # the first line of each source

    def numbered(line: NDArray[np.int64]) -> NDArray[np.int64]:
        source = np.searchsorted(lines, line, side="right") - 1
        return np.asarray(first[source] + line - lines[source])

    def picked(line: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.bool_]:
        assert pick is not None  # noqa: S101
        return pick(numbered(line), sizes)

    usable, unusable = form.columns(together, plan, picked if pick else None)
    for row in unusable:
        k = int(np.searchsorted(at, row.byte, side="right")) - 1
        number = int(numbered(np.array([row.row]))[0])
        rejected.append(Reject(number, row.byte - int(at[k] - byte[k]), row.reason))
    rejected.sort(key=lambda r: r.row)
    return replace(usable, row=numbered(usable.row)), rejected


def raw_rows(shard: Shard, plan: ReadPlan) -> Iterator[tuple[Row, bytes]]:
    """Each row of a shard of one source, with its raw bytes without the line end.

    The bytes are empty for formats whose rows are never written unchanged.
    """
    shard, form = _with_data(shard, plan), load(shard.format)
    every = rows(shard, plan)
    if not form.written:
        yield from ((row, b"") for row in every)
        return
    data = memoryview(shard.data)[form.head(shard.data, plan) :]
    end = Reject(-1, shard.first_byte + len(data), Reason(""))
    for row, following in itertools.pairwise([*every, end]):
        raw = bytes(data[row.byte - shard.first_byte : following.byte - shard.first_byte])
        yield row, form.written_row(shard.data, raw.removeprefix(BOM))
