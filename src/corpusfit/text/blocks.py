"""Sources that only a reader from their beginning can cut, such as archives, CSV and Parquet.

A worker reads each from its beginning once and notes where its blocks begin (`with_blocks`). From
then on a shard of such a source is the number of a block, and the worker that gets it reads up to
there (`nth_block`). A worker keeps its reader open, so consecutive blocks are read once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, fields, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from corpusfit.core.artifacts import read_arrays, write_arrays
from corpusfit.core.engine import Engine
from corpusfit.core.errors import CorpusfitError, changed_input
from corpusfit.core.manifest import digest
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Blocks, Nth, Source
from corpusfit.text.contract import formats, load
from corpusfit.text.cutting import Block, most_in_one

_VERSION = 6  # of the blocks of the same content; those of Parquet depend on pyarrow, too
_LEAST = 1 << 20
"""Stored bytes below which blocks are found faster than a file of the cache is worth."""
_MOST = 1 << 18
"""Sources from which on only blocks of those of the last command are kept."""
_BATCH_BYTES = 16 << 20
_BATCH_FILES = 1024
T = TypeVar("T")


def in_batches(pieces: Iterable[T], size_of: Callable[[T], int]) -> list[list[T]]:
    """Consecutive pieces together, as a message takes longer than the work on a small file."""
    batches: list[list[T]] = []
    size = _BATCH_BYTES
    for piece in pieces:
        if size >= _BATCH_BYTES or len(batches[-1]) == _BATCH_FILES:
            batches.append([])
            size = 0
        batches[-1].append(piece)
        size += size_of(piece)
    return batches


def are_small_files(sources: Sequence[Source], plan: ReadPlan) -> list[bool]:
    """Whether the stored bytes of each source are one block as they are."""
    most = most_in_one(plan)
    plain = {name for name, form in formats().items() if form.plain}
    return [
        0 < s.size <= most and not (s.compression or s.scores) and s.format in plain
        for s in sources
    ]


def cutting(plan: ReadPlan, source: Source) -> ReadPlan:
    """The plan without what is decided by row: plans that cut a source alike are equal."""
    by_row = ["strict"]
    if load(source.format).parallel:  # a row has both texts, whichever is read
        by_row.append("text_field")
    plain = ReadPlan()
    decides = [field.name for field in fields(plain) if field.name not in by_row]
    return replace(plain, **{name: getattr(plan, name) for name in decides})


def _reading(plan: ReadPlan, source: Source) -> ReadPlan:
    """The plan without what is decided by row, but with the fields to keep or to join by."""
    return cutting(plan, source).keeping((*plan.kept_fields(), *plan.compared))


def with_blocks(
    sources: list[Source], plan: ReadPlan, engine: Engine | None, kept: Path | None
) -> list[Source]:
    """The sources, with the blocks of those whose shards are not byte ranges of stored files.

    Raises:
        InputError: stored bytes cannot be read. Bad content becomes a reject when it is read.
    """
    small_files = are_small_files(sources, plan)
    keys: dict[int, str] = {}
    for number, (source, small) in enumerate(zip(sources, small_files, strict=True)):
        cut_from_begin = not small and source.size and source.cells is None
        if cut_from_begin and load(source.format).files(source):
            # the fingerprint is that of the content; name and place do not matter
            kind = (source.format, source.compression, source.translation)
            keys[number] = digest([source.fingerprint, source.size, *kind])
    if not keys:
        return sources
    # the sources are all of pairs, or none is
    how = cutting(plan, sources[0])
    described = list(sources)
    reading = {k: v for k, v in asdict(how).items() if v or k not in ("where", "numbers", "scores")}
    path = None
    if kept and sum(sources[number].size for number in keys) >= _LEAST:
        path = kept / f"{digest([_VERSION, pa.__version__, reading])}.safetensors"
    known = _read(path) if path else {}
    unknown = {key: sources[number] for number, key in keys.items() if key not in known}
    found = dict(zip(unknown, _found(list(unknown.values()), how, engine), strict=True))
    if len(known) >= _MOST:
        known = {key: known[key] for key in keys.values() if key in known}
    known |= found
    if path and unknown:
        with contextlib.suppress(CorpusfitError, OSError):
            _write(path, known)
    for number, key in keys.items():
        rows, begins, sizes, positions = known[key]
        blocks = Blocks(rows, begins, sizes, positions, how)
        described[number] = replace(sources[number], blocks=blocks)
    return described


def _write(path: Path, known: dict[str, NDArray[np.int64]]) -> None:
    counts = np.array([blocks.shape[1] for blocks in known.values()], np.int64)
    arrays = {"blocks": np.concatenate([*known.values()], axis=1), "counts": counts}
    write_arrays(path, arrays, {"keys": list(known)})


def _read(path: Path) -> dict[str, NDArray[np.int64]]:
    """The blocks of sources by content; none if there is no such file, or a damaged one."""
    with contextlib.suppress(CorpusfitError, OSError, KeyError, ValueError):
        if path.exists():
            arrays, header = read_arrays(path)
            parts = np.split(arrays["blocks"], np.cumsum(arrays["counts"])[:-1], axis=1)
            return dict(zip(header["keys"], parts, strict=True))
    return {}


_Batch = tuple[int, list[Source]]


def _find_blocks(plan: ReadPlan, batch: _Batch) -> tuple[int, list[NDArray[np.int64]]]:
    """Read a batch of sources; returns its number and int64 [4, m], as in `Blocks`, of each."""
    found = []
    for source in batch[1]:
        columns = [
            (block.first_row, block.first_byte, block.size, block.position)
            for block in load(source.format).blocks(source, plan)
        ]
        found.append(np.array(columns, np.int64).reshape(-1, 4).T)
    return batch[0], found


def _found(
    sources: Sequence[Source], plan: ReadPlan, engine: Engine | None
) -> list[NDArray[np.int64]]:
    """The blocks of each source, read by the engine's workers if there is more than a batch."""
    batches = in_batches(sources, lambda source: source.size)
    job = partial(_find_blocks, plan)
    if engine is None or sum(source.size for source in sources) < _BATCH_BYTES:
        found = dict(map(job, enumerate(batches)))
    else:
        found = dict(engine.map(job, enumerate(batches)))
    return [blocks for number in range(len(batches)) for blocks in found[number]]


class _Reader:
    """A source that is read on from one of its blocks, and the last block that was read."""

    def __init__(self, begin: Nth, plan: ReadPlan) -> None:
        self.source = begin.source
        self.plan = _reading(plan, begin.source)
        self.number = begin.number - 1
        self._block: Block | None = None
        form = load(begin.source.format)
        self._blocks = form.blocks_from(begin.source, self.plan, begin.row, begin.byte)

    def ahead(self, place: Nth, plan: ReadPlan) -> int:
        """How many blocks it has to read for a place; -1 if it cannot get there."""
        here = self.source == place.source and self.plan == _reading(plan, place.source)
        return max(-1, place.number - self.number) if here else -1

    def read(self, place: Nth) -> Block:
        """The block at a place, which is not before the last one."""
        if place.number > self.number:
            wanted = place.row, place.byte
            reached = (b for b in self._blocks if (b.first_row, b.first_byte) >= wanted)
            self._block = next(reached, None)
            self.number = place.number
            # reading on at the end closes the file
            if place.last and next(self._blocks, None) is not None:
                self._block = None
        block = self._block
        if block is None or (block.first_row, block.size) != (place.row, place.size):
            raise changed_input(place.source.name)
        return block


_reader: _Reader | None = None


def nth_block(place: Nth, plan: ReadPlan) -> Block:
    """Read a block of a source; the source stays open for the blocks after it."""
    global _reader  # noqa: PLW0603
    reader = _reader  # none is kept after an error
    _reader = None
    ahead = -1 if reader is None else reader.ahead(place, plan)
    if reader is None or ahead < 0 or (ahead > 1 and load(place.source.format).seeks):
        reader = _Reader(place, plan)
    block = reader.read(place)
    _reader = reader
    return block
