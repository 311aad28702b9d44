"""Cut a stream of bytes into blocks of whole rows, in bounded memory.

What: a scanner says where rows end; `cut` closes a block at the first row end at or past the next
multiple of the shard size and drops a row over the row limit as it streams by.
Why: where a block ends must follow from the content alone, so that shards mean the same whatever
the chunk size, the worker count or the storage; multiples can be found without reading what lies
before them (`survey`).
Trade-off: a dropped row closes its block early, because the rows of a block must be contiguous
for their numbers to be counted from its start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from corpusfit.corpus import rejects
from corpusfit.kernels.jsonlines import line_ends
from corpusfit.plan import ReadPlan
from corpusfit.types import Reject, Span

MIB = 1 << 20
BOM = b"\xef\xbb\xbf"

Scan: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Where rows end in a chunk, and the number of the row that begins there."""

Scanner: TypeAlias = Callable[[bytes], Scan]
"""Takes a stream's chunks in order; remembers what it needs from one to the next."""


class Chunks(Protocol):
    """A stream of bytes that knows how far it is and why it stopped (see `unpack.Stream`)."""

    @property
    def position(self) -> int:
        """Stored bytes used so far."""

    @property
    def problem(self) -> str:
        """Why it ended early, a reject reason; empty while all is well."""

    def __iter__(self) -> Iterator[bytes]: ...


@dataclass(frozen=True, slots=True)
class Block:
    """A shard before it is numbered; the attributes are those of `Shard`."""

    first_row: int
    first_byte: int
    data: bytes
    rejects: tuple[Reject, ...]
    position: int
    span: Span | None = None


class Lines:
    """The scanner of formats with one row a line."""

    def __init__(self) -> None:
        self._row = 0

    def __call__(self, chunk: bytes) -> Scan:
        """The line ends of the next chunk."""
        ends = line_ends(np.frombuffer(chunk, np.uint8)) + 1
        numbers = self._row + np.arange(1, len(ends) + 1, dtype=np.int64)
        self._row += len(ends)
        return ends, numbers


def cut(
    chunks: Chunks, scanner: Scanner, plan: ReadPlan, *, first_byte: int = 0, cure: str = ""
) -> Iterator[Block]:
    """Blocks of the rows that begin in each stretch of `plan.shard_mb` MiB; a dropped row ends one.

    Args:
        chunks: the unpacked source.
        scanner: where its rows end.
        plan: the shard size and the row limit, in MiB.
        first_byte: where the stream begins in the unpacked source.
        cure: what may help against a row over the limit; part of its reject reason.
    """
    cutter = _Cutter(chunks, plan, first_byte, rejects.too_long(plan, cure))
    for chunk in chunks:
        yield from cutter.add(chunk, scanner(chunk))
    yield from cutter.finish()


class _Cutter:
    """Bytes not yet given out, and where in the source they stand (all offsets absolute)."""

    def __init__(self, chunks: Chunks, plan: ReadPlan, first_byte: int, too_long: str) -> None:
        self._chunks = chunks
        self._limit = max(1, int(plan.shard_mb * MIB))
        self._longest = max(1, int(plan.max_row_mb * MIB))
        self._too_long = too_long
        self._held = bytearray()
        self._block_row, self._block = 0, first_byte  # where the held block begins
        self._row, self._start = 0, first_byte  # where the row that is still open begins
        self._end = first_byte  # how far was read
        self._skipping = False  # the open row is over the limit; its bytes are dropped

    def add(self, chunk: bytes, scan: Scan) -> Iterator[Block]:
        """Take a chunk; give out the blocks it completes."""
        ends, numbers = scan
        base = self._end
        self._end += len(chunk)
        if self._skipping:
            if not len(ends):
                return
            self._resume(base + int(ends[0]), int(numbers[0]))
            chunk, base = chunk[ends[0] :], self._start
            ends, numbers = ends[1:] - ends[0], numbers[1:]
        self._held += chunk
        yield from self._close(ends + base, numbers)
        if self._end - self._start > self._longest:
            block = self._drop()
            self._held.clear()
            yield block

    def _close(self, ends: NDArray[np.int64], numbers: NDArray[np.int64]) -> Iterator[Block]:
        """Give out what is complete, rows taken one after the other."""
        long = np.flatnonzero(np.diff(ends, prepend=self._start) > self._longest)
        long = np.append(long, len(ends))
        at = 0
        while at < len(ends):
            first_long = int(long[np.searchsorted(long, at)])
            full = int(np.searchsorted(ends, (self._block // self._limit + 1) * self._limit))
            n = min(first_long, full)
            if n > at:
                self._row, self._start = int(numbers[n - 1]), int(ends[n - 1])
            if n == len(ends):
                return
            if n == first_long:
                yield self._drop()
                self._resume(int(ends[n]), int(numbers[n]))
            else:
                self._row, self._start = int(numbers[n]), int(ends[n])
                yield self._give()
            at = n + 1

    def _give(self, *rejected: Reject) -> Block:
        """The complete rows held, as a block; what follows begins the next."""
        size = self._start - self._block
        data = bytes(memoryview(self._held)[:size])
        block = Block(self._block_row, self._block, data, rejected, self._chunks.position)
        del self._held[:size]
        self._block_row, self._block = self._row, self._start
        return block

    def _drop(self) -> Block:
        """The complete rows held, and the open row as a reject; its bytes are let go."""
        self._skipping = True
        return self._give(Reject(self._row, self._start, self._too_long))

    def _resume(self, start: int, row: int) -> None:
        """A row begins after one that was dropped."""
        del self._held[: start - self._block]
        self._skipping = False
        self._block = self._start = start
        self._block_row = self._row = row

    def finish(self) -> Iterator[Block]:
        """What is left when the stream is over: perhaps a row without its end."""
        if self._chunks.problem:
            if self._skipping:
                self._resume(self._end, self._row + 1)
            yield self._give(Reject(self._row, self._start, self._chunks.problem))
        elif not self._skipping and self._end > self._block:
            self._start = self._end
            yield self._give()
