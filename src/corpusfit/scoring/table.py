"""The stored scores: one Parquet file per shard in `scores/`, one row per segment."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from corpusfit.core.artifacts import is_local, read_bytes, write_bytes
from corpusfit.core.manifest import undamaged
from corpusfit.core.types import FILE_BITS, Segments, file_of, in_file, text_array

SCHEMA = pa.schema(
    [
        ("source", pa.dictionary(pa.int32(), pa.string())),
        ("row", pa.int64()),
        ("segment", pa.int32()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("units", pa.int32()),
        ("tokens", pa.int64()),
        ("score", pa.float32()),
        ("stage", pa.int8()),
        ("weight", pa.float32()),
        ("selected", pa.bool_()),
        ("copy", pa.bool_()),
    ]
)

_NAME = re.compile(r"part-(\d+)\.parquet$")
_ROWS = 1 << 16


def part_path(folder: Path, shard: int) -> Path:
    """Path of a shard's scores."""
    return folder / f"part-{shard:05d}.parquet"


def parts(folder: Path) -> Iterator[tuple[int, Path]]:
    """(shard, path) of every part, by shard."""
    numbered = [(int(m[1]), p) for p in folder.iterdir() if (m := _NAME.match(p.name))]
    return iter(sorted(numbered))


def write(
    folder: Path,
    shard: int,
    sources: Sequence[str],
    segments: Segments,
    scores: NDArray[np.float32],
) -> None:
    """Write a shard's m segments with their scores [m]; no segment is selected yet."""
    # All segments have stage 1, as in older runs, whose cascades had more.
    m = len(segments)
    values: tuple[NDArray[Any], ...] = (
        in_file(segments.row),
        segments.segment,
        segments.start,
        segments.end,
        segments.units,
        segments.tokens,
        scores,
        np.ones(m, np.int8),
        np.zeros(m, np.float32),
        np.zeros(m, bool),
        np.zeros(m, bool),
    )
    columns = [column(v, f.type) for v, f in zip(values, list(SCHEMA)[1:], strict=True)]
    names = source_column(sources, segments.row)
    write_parquet(part_path(folder, shard), pa.table([names, *columns], schema=SCHEMA))


def source_column(sources: Sequence[str], rows: NDArray[np.int64]) -> pa.Array:
    """The names of the sources of a shard's rows, int64 [m], by their numbers in the shard."""
    files = file_of(rows)
    used = np.union1d(files, [0])
    indices = column(np.searchsorted(used, files).astype(np.int32), pa.int32())
    names = text_array([sources[i] for i in used.tolist()]).cast(pa.string())
    return pa.DictionaryArray.from_arrays(indices, names)


def column(values: NDArray[Any], kind: pa.DataType) -> pa.Array:
    """Convert to an Arrow array of the same type, without `pa.array`, which imports pandas."""
    bits = np.packbits(values, bitorder="little") if kind == pa.bool_() else values
    data = pa.py_buffer(np.ascontiguousarray(bits))
    return pa.Array.from_buffers(kind, len(values), [None, data])


def rewrite(path: Path, **columns: NDArray[Any]) -> pa.Table:
    """Give some columns of a part new values, [m] each, unless it has them; returns the part."""
    before = table = read(path)
    for name, values in columns.items():
        index = SCHEMA.get_field_index(name)
        table = table.set_column(index, SCHEMA.field(name), column(values, SCHEMA.field(name).type))
    # the bytes of a large part depend on the batches in which it was read
    if len(table) > _ROWS or not table.equals(before):
        write_parquet(path, table)
    return table


def read(path: Path) -> pa.Table:
    """A part as an Arrow table."""
    with undamaged(path):
        stored = columns_of(pq.ParquetFile(_opened(path)), SCHEMA.names)
        return pa.concat_tables([SCHEMA.empty_table(), stored], promote_options="default")


def read_columns(path: Path, *names: str) -> list[NDArray[np.generic]]:
    """Read columns of a part as numpy arrays, each [m].

    Raises:
        InputError: the part is damaged, or lacks a column.
    """
    with undamaged(path):
        part = pq.ParquetFile(_opened(path))
        if lost := sorted(set(names) - set(part.schema_arrow.names)):
            raise ValueError(f"the column {lost[0]} is missing")
        stored = columns_of(part, names)
        return [_numbers(stored, name) for name in names]


def _numbers(table: pa.Table, name: str) -> NDArray[np.generic]:
    """A column of a part as an array of its stored type."""
    column = table.column(name).cast(SCHEMA.field(name).type)
    if column.null_count:
        raise ValueError(f"{name} is empty in a row")
    return cast("NDArray[np.generic]", column.to_numpy())


def read_sources(path: Path) -> tuple[list[str], NDArray[np.int64]]:
    """The source names of a part, and each segment's index among them [m]."""
    with undamaged(path):
        return sources_of(columns_of(pq.ParquetFile(_opened(path)), ["source"]))


def sources_of(part: pa.Table) -> tuple[list[str], NDArray[np.int64]]:
    """As `read_sources`, but of a part in memory."""
    joined = part.column("source").unify_dictionaries()
    names = joined.chunk(0).dictionary.to_pylist() if joined.num_chunks else []
    places = [np.asarray(c.indices.to_numpy(), np.int64) for c in joined.chunks]
    return names, np.concatenate([np.empty(0, np.int64), *places])


def read_rows(path: Path, sources: Sequence[str]) -> NDArray[np.int64]:
    """The rows of a part's m segments by their numbers in the shard, int64 [m]."""
    return rows_in_shard(path, sources, np.asarray(read_columns(path, "row")[0], np.int64))


def rows_in_shard(path: Path, sources: Sequence[str], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """As `read_rows`, but given the column `row` [m]."""
    if len(sources) == 1 or not len(rows):
        return rows
    number = {name: i for i, name in enumerate(sources)}
    names, name_of = read_sources(path)
    with undamaged(path):
        return (np.array([number[name] for name in names], np.int64)[name_of] << FILE_BITS) + rows


def columns_of(part: pq.ParquetFile, columns: Sequence[str]) -> pa.Table:
    """Read the columns that a file has, out of some, in batches."""
    # Reading all at once would allocate whatever number of rows a damaged file states.
    schema = pa.schema([field for field in part.schema_arrow if field.name in columns])
    if not schema.names:
        raise KeyError(", ".join(columns))
    return pa.Table.from_batches(part.iter_batches(_ROWS, columns=schema.names), schema)


def _opened(path: Path) -> Any:
    """The input from which Arrow reads a part."""
    return path if is_local(path) else pa.BufferReader(read_bytes(path))


def write_parquet(path: Path, table: pa.Table) -> None:
    """Write a table as one Parquet file, atomically."""
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    write_bytes(path, buffer.getvalue())


MAX_SOURCES = 1000
"""Largest number of sources that tables list one by one; of more, they list folders."""


def source_groups(sources: Sequence[str]) -> Callable[[str], str]:
    """The group of each source in tables: its name, or its folder if there are many."""
    # The deepest level at which there are at most `MAX_SOURCES` folders; `./` stands for no folder.
    if len(sources) <= MAX_SOURCES:
        return str
    folders = {source.rpartition("/")[0] for source in sources}
    deepest = max(folder.count("/") for folder in folders) + 1
    depth = next(
        (d for d in range(deepest, 0, -1) if len({_first(f, d) for f in folders}) <= MAX_SOURCES), 0
    )
    called = {folder: f"{_first(folder, depth) or '.'}/" for folder in folders}
    return lambda source: called[source.rpartition("/")[0]]


def grouped(
    sources: Sequence[str], places: NDArray[np.int64], group_of: Callable[[str], str]
) -> tuple[list[str], NDArray[np.int64]]:
    """The groups of k sources, and each segment's index among them [m]."""
    number: dict[str, int] = {}
    numbers = [number.setdefault(group_of(source), len(number)) for source in sources]
    return list(number), np.array(numbers, np.int64)[places]


def _first(folder: str, depth: int) -> str:
    """The first names of a folder's path."""
    return "/".join(folder.split("/")[:depth])
