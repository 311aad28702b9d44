"""Cut a stream of bytes into blocks of whole rows, in bounded memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Nth, Reason, Reject, Span
from corpusfit.kernels.lines import line_ends
from corpusfit.text import rejects

MIB = 1 << 20
BOM = b"\xef\xbb\xbf"

Scan: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Ends of rows in a chunk, and the number of the row that begins at each."""

Scanner: TypeAlias = Callable[[bytes], Scan]
"""Scans a stream's chunks in order and keeps its state between them."""


class Chunks(Protocol):
    """A stream of bytes, its position, and why it ended early; see `files.Stream`."""

    @property
    def position(self) -> int: ...  # noqa: D102
    @property
    def problem(self) -> Reason | None: ...  # noqa: D102
    def __iter__(self) -> Iterator[bytes]: ...


@dataclass(frozen=True, slots=True)
class Block:
    """A shard before it is numbered; the attributes are those of `Shard`."""

    first_row: int
    first_byte: int
    data: bytes
    rejects: tuple[Reject, ...]
    position: int
    span: Span | Nth | None = None
    # bytes that it is cut by, where they are not all of `data`
    cut_by: int | None = None

    @property
    def size(self) -> int:
        """Bytes that it is cut by."""
        return len(self.data) if self.cut_by is None else self.cut_by


def most_in_one(plan: ReadPlan) -> int:
    """Size in bytes up to which a source is always a single block."""
    return int(min(plan.shard_mb, plan.max_row_mb) * MIB)


class Text:
    """The chunks of a text file, whose lines end in LF.

    Lines end in LF or CRLF, or in CR if the file has no LF: a CR between LFs is text, as in the
    output of a progress bar, and both files of aligned pairs keep their numbers of lines. CR
    becomes LF here and in `line_feeds` alone, so that all other code knows one line end; offsets
    stay.

    A first line over the row limit is dropped in any case, so that many bytes decide.
    """

    def __init__(self, chunks: Chunks, plan: ReadPlan, skip: int = 0) -> None:
        self._chunks = chunks
        self._most = int(plan.max_row_mb * MIB)
        self._skip = skip  # bytes to leave out

    @property
    def position(self) -> int:
        """Stored bytes consumed so far."""
        return self._chunks.position

    @property
    def problem(self) -> Reason | None:
        """Reject reason if the stream ended early."""
        return self._chunks.problem

    def __iter__(self) -> Iterator[bytes]:
        chunks = iter(self._chunks)
        seen = list[bytes]()
        size = 0
        for chunk in chunks:
            seen.append(chunk)
            size += len(chunk)
            if b"\n" in chunk or size > self._most:
                break
        ended_by_cr = bool(seen) and b"\n" not in seen[-1] and any(b"\r" in c for c in seen)
        for chunk in itertools.chain(seen, chunks):
            kept = chunk[self._skip :]
            self._skip -= len(chunk) - len(kept)
            if kept:
                yield kept.replace(b"\r", b"\n") if ended_by_cr else kept


def line_feeds(data: bytes) -> bytes:
    """The bytes of a whole text file, whose lines end in LF; see `Text`."""
    return data if b"\n" in data else data.replace(b"\r", b"\n")


class Lines:
    """Scanner of formats with one row per line."""

    def __init__(self, first_row: int = 0) -> None:
        self._row = first_row

    def __call__(self, chunk: bytes) -> Scan:
        """The line ends of the next chunk."""
        ends = line_ends(np.frombuffer(chunk, np.uint8)) + 1
        numbers = self._row + np.arange(1, len(ends) + 1, dtype=np.int64)
        self._row += len(ends)
        return ends, numbers


def lines_of(data: bytes) -> list[bytes]:
    """Split into lines without their ends; a final line end begins no line."""
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return lines


def cut(
    chunks: Chunks,
    scanner: Scanner,
    plan: ReadPlan,
    *,
    first_byte: int = 0,
    first_row: int = 0,
    cure: str = "",
    parts: Iterable[bytes] = (),
) -> Iterator[Block]:
    """Yield the rows that begin in each stretch of `plan.shard_mb` MiB as one block.

    A block ends at the first row end at or past the next multiple of the shard size, so borders
    depend on the content alone and are found without reading what precedes them (`survey`). A row
    over the row limit is dropped while it streams by and ends its block early, because row numbers
    are counted from the block's start.
    """
    cutter = _Cutter(chunks, plan, first_row, first_byte, rejects.too_long(plan, cure))
    for chunk in parts or chunks:
        yield from cutter.add(chunk, scanner(chunk))
    yield from cutter.finish()


class _Cutter:
    """Bytes that belong to no block yet, and their offsets in the source (all absolute)."""

    def __init__(
        self, chunks: Chunks, plan: ReadPlan, first_row: int, first_byte: int, too_long: Reason
    ) -> None:
        self._chunks = chunks
        self._limit = max(1, int(plan.shard_mb * MIB))
        self._longest = max(1, int(plan.max_row_mb * MIB))
        self._too_long = too_long
        self._held = bytearray()
        self._block_row = first_row  # where the held block begins
        self._block = first_byte
        self._row = first_row  # where the incomplete row begins
        self._start = first_byte
        self._end = first_byte  # end of the bytes read
        # whether the incomplete row is over the limit, so that its bytes are dropped
        self._skipping = False

    def add(self, chunk: bytes, scan: Scan) -> Iterator[Block]:
        """Take a chunk; yield the blocks that it completes."""
        ends, numbers = scan
        base = self._end
        self._end += len(chunk)
        if self._skipping:  # drop bytes up to the end of the row
            if not len(ends):
                return
            self._resume(base + int(ends[0]), int(numbers[0]))
            chunk = chunk[ends[0] :]
            base = self._start
            ends = ends[1:] - ends[0]
            numbers = numbers[1:]
        self._held += chunk
        yield from self._close(ends + base, numbers)
        # drop a huge row as soon as it is over the limit, so that memory stays bounded
        if self._end - self._start > self._longest:
            block = self._drop()
            self._held.clear()
            yield block

    def _close(self, ends: NDArray[np.int64], numbers: NDArray[np.int64]) -> Iterator[Block]:
        """Yield the complete blocks, row by row."""
        long = np.flatnonzero(np.diff(ends, prepend=self._start) > self._longest)
        long = np.append(long, len(ends))
        at = 0
        while at < len(ends):
            first_long = int(long[np.searchsorted(long, at)])
            # borders are multiples of the shard size in the whole file, wherever reading began
            full = int(np.searchsorted(ends, (self._block // self._limit + 1) * self._limit))
            n = min(first_long, full)
            if n > at:
                self._row = int(numbers[n - 1])
                self._start = int(ends[n - 1])
            if n == len(ends):
                return
            if n == first_long:
                yield self._drop()
                self._resume(int(ends[n]), int(numbers[n]))
            else:
                self._row = int(numbers[n])
                self._start = int(ends[n])
                yield self._block_of_rows()
            at = n + 1

    def _block_of_rows(self, *rejected: Reject) -> Block:
        """Return the complete rows as a block; later bytes begin the next one."""
        size = self._start - self._block
        data = bytes(memoryview(self._held)[:size])
        block = Block(self._block_row, self._block, data, rejected, self._chunks.position)
        del self._held[:size]
        self._block_row = self._row
        self._block = self._start
        return block

    def _drop(self) -> Block:
        """Return the complete rows as a block, with the open row as a reject without bytes."""
        self._skipping = True
        return self._block_of_rows(Reject(self._row, self._start, self._too_long))

    def _resume(self, start: int, row: int) -> None:
        del self._held[: start - self._block]
        self._skipping = False
        self._block = self._start = start
        self._block_row = self._row = row

    def finish(self) -> Iterator[Block]:
        if self._chunks.problem:
            if self._skipping:
                self._resume(self._end, self._row + 1)
            yield self._block_of_rows(Reject(self._row, self._start, self._chunks.problem))
        elif not self._skipping and self._end > self._block:
            self._start = self._end
            yield self._block_of_rows()
