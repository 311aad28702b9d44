"""Parquet: the columns of the text and the id, in batches.

What: a block is an Arrow IPC stream of these columns. `row` is the row in the file. `byte` is
always 0, because a row of a columnar file has no single offset; for the same reason `position` is
the stored size times the share of rows read.
Why: pyarrow reads only the requested columns and keeps strings as bytes until they are checked.
Trade-off: pyarrow keeps whole pages in memory, so a huge value needs its size in memory, unlike in
the other formats. A compressed `.parquet.gz` is unpacked into a temporary file first, because the
format needs seeking.
Reference: https://parquet.apache.org/docs/file-format
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from corpusfit.corpus import rejects
from corpusfit.corpus.contract import Format
from corpusfit.corpus.cutting import MIB, Block
from corpusfit.corpus.fields import Row, fields_in, from_mapping
from corpusfit.corpus.files import open_stored, unreadable
from corpusfit.corpus.unpack import Stream
from corpusfit.plan import ReadPlan
from corpusfit.types import Reject, Shard, Source

_BATCH = 256
_FIELDS, _TYPE = b"fields", b"type"


class Parquet(Format):
    """Parquet files."""

    name = "parquet"
    suffixes = (".parquet",)
    all_fields = False

    def blocks(self, source: Source, plan: ReadPlan) -> Iterator[Block]:
        """Blocks of rows whose texts fill a shard; a text over the row limit closes its block."""
        batches = _Batches(source, plan)
        limit, longest = int(plan.shard_mb * MIB), int(plan.max_row_mb * MIB)
        held: list[Any] = []
        several = len(fields_in(plan.text_field)) > 1
        size = first = row = 0
        for batch in batches:
            begin = 0
            for at, length in enumerate(_lengths(batch, several=several)):
                long = length > longest
                size += 0 if long else length
                row += 1
                if not long and size < limit:
                    continue
                held.append(batch.slice(begin, at - begin + (not long)))
                rejected = (Reject(row - 1, 0, rejects.too_long(plan)),) if long else ()
                position = min(source.size, source.size * row // max(1, batches.rows))
                yield Block(first, 0, _packed(held), rejected, position)
                held, size, first, begin = [], 0, row, at + 1
            held.append(batch.slice(begin))
        rejected = (Reject(row, 0, batches.problem),) if batches.problem else ()
        if row > first or rejected:
            yield Block(first, 0, _packed(held), rejected, source.size)

    def parse(self, shard: Shard, plan: ReadPlan) -> Iterator[Row]:
        """The rows of one shard."""
        if not shard.data:
            return
        table = pa.ipc.open_stream(shard.data).read_all()
        notes = table.schema.metadata
        if not {plan.text_field, *fields_in(plan.text_field)} & {*table.column_names}:
            if _TYPE in notes:
                reason = f"{rejects.kind(rejects.not_a_string(0))}: {notes[_TYPE].decode()}"
            else:
                reason = rejects.missing_field(plan.text_field, notes[_FIELDS].decode().split("\n"))
            yield from (Reject(shard.first_row + i, 0, reason) for i in range(table.num_rows))
            return
        for row, record in enumerate(table.to_pylist(), shard.first_row):
            try:
                decoded = {name: _decoded(value) for name, value in record.items()}
            except UnicodeDecodeError:
                yield Reject(row, 0, rejects.INVALID_UTF8)
            else:
                yield from_mapping(row, 0, decoded, plan)


def _decoded(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


class _Batches:
    """Record batches of the needed columns; `problem` tells why they ended early."""

    def __init__(self, source: Source, plan: ReadPlan) -> None:
        self.rows = 0
        self.problem = ""
        self._source, self._plan = source, plan

    def __iter__(self) -> Iterator[Any]:
        try:
            with self._file() as file:
                if self.problem or not self._source.size:
                    return
                # read pages one by one, not whole column chunks
                parquet = pq.ParquetFile(file, buffer_size=MIB, pre_buffer=False)
                self.rows = parquet.metadata.num_rows
                names = parquet.schema_arrow.names
                fields = [n for own in parquet.schema_arrow for n in _names(own.name, own.type)]
                field = self._plan.text_field
                asked = (field, *fields_in(field), self._plan.id_field)
                wanted = [n for n in dict.fromkeys(asked) if {n, n.partition(".")[0]} & {*names}]
                read = wanted or _counted(parquet.schema)
                # a batch must not span two groups: an error would lose both
                for group in range(parquet.num_row_groups if read else 0):
                    for batch in parquet.iter_batches(
                        _BATCH, row_groups=[group], columns=read, use_threads=False
                    ):
                        own = _flat(batch, wanted) if wanted else batch.select([])
                        yield _plain(own, self._plan, fields)
        except (pa.ArrowException, OSError, LookupError, ValueError) as e:  # the last: bad schema
            if getattr(e, "errno", None):
                raise unreadable(self._source.url, e) from e
            self.problem = rejects.unreadable("parquet", e)

    def _file(self) -> BinaryIO:
        """The stored file, or its unpacked form."""
        if not self._source.compression:
            return open_stored(self._source.url)
        stream = Stream(self._source, self._plan)
        file = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115 (the caller closes it)
        for chunk in stream:
            file.write(chunk)
        file.seek(0)
        self.problem = stream.problem
        return file


_KEPT = (pa.types.is_integer, pa.types.is_boolean, pa.types.is_floating, pa.types.is_list)


def _names(name: str, kind: Any) -> list[str]:
    """The name of a column, or those of the fields in it, `a.b`."""
    if not pa.types.is_struct(kind):
        return [name]
    return [n for field in kind for n in _names(f"{name}.{field.name}", field.type)]


def _counted(schema: pq.ParquetSchema) -> list[str]:
    """The column to count rows by if none is wanted, rather of numbers; empty if there is none.

    Without a column Arrow believes the stated number of rows, and a wrong one ends the process; so
    does a question for the size of a column that is damaged.
    """
    columns = [schema.column(i) for i in range(len(schema.names))]
    wide = [column.physical_type == "BYTE_ARRAY" for column in columns]
    return [columns[wide.index(min(wide))].path] if columns else []


def _flat(batch: Any, names: list[str]) -> Any:
    """The batch with columns `a.b` in the place of the records `a`."""
    inner = [n for n in names if n not in batch.schema.names]
    outer = {n.partition(".")[0] for n in inner} - {*names}
    columns = {n: batch.column(n) for n in batch.schema.names if n not in outer}
    for name in inner:
        first, *rest = name.split(".")
        with contextlib.suppress(KeyError, pa.ArrowException):  # no such field
            columns[name] = pc.struct_field(batch.column(first), rest)
    if not inner:
        return batch
    return pa.RecordBatch.from_pydict(columns) if columns else batch.select([])


def _plain(batch: Any, plan: ReadPlan, names: list[str]) -> Any:
    """The batch's strings as bytes; numbers, booleans and lists as they are; no other columns."""
    notes, columns = {_FIELDS: "\n".join(names).encode()}, {}
    for name in batch.schema.names:
        column = batch.column(name)
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        kind = column.type
        if pa.types.is_null(kind) or _is_string(kind):
            columns[name] = column.cast(pa.large_binary())
        elif name in fields_in(plan.text_field) and _is_date_or_decimal(kind):
            columns[name] = column.cast(pa.string()).cast(pa.large_binary())
        elif name == plan.text_field and not _is_chat(kind):
            inner = ", ".join(_names(name, kind)) if pa.types.is_struct(kind) else ""
            notes[_TYPE] = f"{kind}{inner and f'; fields are {inner}'}".encode()
        elif any(is_kind(kind) for is_kind in _KEPT) or _is_chat(kind):
            columns[name] = column
    fields = [pa.field(name, column.type) for name, column in columns.items()]
    schema = pa.schema(fields, metadata=notes)
    if not columns:
        return batch.select([]).replace_schema_metadata(notes)
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=schema)


def _is_date_or_decimal(kind: Any) -> bool:
    return bool(pa.types.is_temporal(kind) or pa.types.is_decimal(kind))


def _is_chat(kind: Any) -> bool:
    listed = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    return bool(listed and pa.types.is_struct(kind.value_type))


def _is_string(kind: Any) -> bool:
    types = pa.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _lengths(batch: Any, *, several: bool) -> list[int]:
    """Bytes of each text, of several fields or chats the mean; 8 more, so that all fill shards."""
    if several or any(_is_chat(c.type) for c in batch.columns):
        return [8 + batch.nbytes // max(1, batch.num_rows)] * int(batch.num_rows)
    column = next((c for c in batch.columns if pa.types.is_large_binary(c.type)), None)
    if column is None:
        return [8] * int(batch.num_rows)
    lengths = pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False)
    return cast("list[int]", np.add(lengths, 8).tolist())


def _packed(batches: list[Any]) -> bytes:
    """The batches as one Arrow IPC stream; empty without rows."""
    batches = [b for b in batches if b.num_rows]
    if not batches:
        return b""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return cast("bytes", sink.getvalue().to_pybytes())
