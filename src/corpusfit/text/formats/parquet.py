"""Parquet and Arrow IPC: the columns of the text and the id, in batches.

What: a block is an Arrow IPC stream of these columns. `row` is the row in the file. `byte` is
always 0, because a row of a columnar file has no single offset; for the same reason `position` is
the stored size times the share of rows read.
Why: pyarrow reads only the requested columns and keeps strings as bytes until they are checked.
An Arrow file is an IPC file if it begins with the magic bytes of one. Any other is an IPC stream,
such as the files of a data set saved to disk.
Trade-off: pyarrow keeps whole pages in memory, and an Arrow batch whole, so a huge value or batch
needs its size in memory, unlike in other formats. As with archives, reading ends at a row group
of Parquet that is larger, or by its metadata would be, than `read.max_ratio` times the mean stored
size of the file's row groups. (pyarrow knows the stored size of each, but a damaged one crashes the
process.) Arrow files have the same limit for all that is read. Offsets and UTF-8 of Arrow are
checked, because pyarrow trusts them; a batch that fails ends the file. A `.parquet.gz` is unpacked
into a temporary file first, because the format needs seeking.
Reference: https://parquet.apache.org/docs/file-format,
https://arrow.apache.org/docs/format/Columnar.html
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from typing import Any, BinaryIO, ClassVar, cast

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Reason, Reject, Shard, Source
from corpusfit.text import rejects
from corpusfit.text.contract import Format
from corpusfit.text.cutting import MIB, Block
from corpusfit.text.fields import TOOLS, Row, fields_in, from_mapping, of_first_names, records
from corpusfit.text.files import FREE, Stream, open_stored, raise_unreadable
from corpusfit.text.formats.jsonl import line_of

_BATCH = 256  # rows
_MAGIC = b"ARROW1"
_FIELDS = b"fields"


class Batches:
    """Record batches of the needed columns, each with the bytes of its texts (`_lengths`).

    `problem` says why they ended early.
    """

    form = "parquet"

    def __init__(self, source: Source, plan: ReadPlan, first_row: int = 0) -> None:
        self.rows = 0
        self.problem: Reason | None = None
        self._skip = first_row  # rows to leave out
        self._source = source
        self._plan = plan
        self._text = {plan.text_field, *fields_in(plan.text_field), TOOLS}
        fields = fields_in(plan.text_field)
        self._field = fields[0] if len(fields) == 1 else plan.text_field
        others = (TOOLS, plan.id_field, *plan.other_fields())
        self._deciding = (plan.text_field, *fields, *others)

    def __iter__(self) -> Iterator[Any]:
        longest = int(self._plan.max_row_mb * MIB)
        fields = list[str]()
        try:
            with self._file() as file:
                if self.problem or not self._source.size:
                    return
                for read, schema in self.read(file):
                    batch = of_first_names(read)
                    fields = fields or [n for f in schema for n in _names(f.name, f.type)]
                    wanted = self.wanted(schema.names)
                    flat = _flat(batch, wanted) if wanted else batch.select([])
                    plain = _plain(flat, fields)
                    # computed for the whole batch, as a mean over a part of it differs
                    lengths = _lengths(plain, self._field, self._text)
                    # other fields can make a row too long, too, except those that are only kept
                    kept = {*self._plan.kept_fields()} - {*self._deciding}
                    decides = plain.select([n for n in plain.schema.names if n not in kept])
                    if decides.nbytes > longest:
                        sizes = [decides.slice(row, 1).nbytes for row in range(plain.num_rows)]
                        pairs = zip(lengths, sizes, strict=True)
                        lengths = [size if size > longest else n for n, size in pairs]
                    yield plain.slice(self._skip), lengths[self._skip :]
                    self._skip -= min(self._skip, plain.num_rows)
        # a damaged schema raises ValueError
        except (pa.ArrowException, OSError, LookupError, ValueError) as e:
            if getattr(e, "errno", None):
                raise_unreadable(self._source.url, e)
            self.problem = rejects.unreadable(self.form, e)

    def read(self, file: BinaryIO) -> Iterator[tuple[Any, Any]]:
        """Batches with the wanted columns, each with the schema of the whole file."""
        # read pages one by one, not whole column chunks
        parquet = pq.ParquetFile(file, buffer_size=MIB, pre_buffer=False)
        self.rows = parquet.metadata.num_rows
        maps = {field.name for field in parquet.schema_arrow if pa.types.is_map(field.type)}
        wanted = self.wanted(parquet.schema_arrow.names)
        columns = [outer if (outer := n.partition(".")[0]) in maps else n for n in wanted]
        columns = columns or _column_to_count(parquet.schema)
        metadata = parquet.metadata
        first = 0
        while (
            first < metadata.num_row_groups
            and (rows := metadata.row_group(first).num_rows) <= self._skip
        ):
            self._skip -= rows
            first += 1
        # by row group, as a worker may begin with any of them
        mean = self._source.size / max(1, parquet.num_row_groups)
        most = max(FREE, self._plan.max_ratio * mean)
        # one batch per row group, as an error would lose all groups of a batch
        for group in range(first, parquet.num_row_groups if columns else 0):
            # pages are unpacked whole, so the stated size is checked before
            if metadata.row_group(group).total_byte_size > most:
                self.problem = rejects.bomb(self._plan)
                return
            left = metadata.row_group(group).num_rows
            decoded = 0
            for batch in parquet.iter_batches(
                _BATCH, row_groups=[group], columns=columns, use_threads=False
            ):
                left -= batch.num_rows
                decoded += sum(map(_decoded_size, batch.columns))
                if decoded > most:
                    self.problem = rejects.bomb(self._plan)
                    return
                yield batch, parquet.schema_arrow
            # the rows of later groups would get wrong numbers
            if left:
                raise pa.ArrowInvalid(f"row group {group} lacks {left:,} of its rows")

    def wanted(self, names: list[str]) -> list[str]:
        """The fields to read, such as text and id, that some columns have, or are part of."""
        fields = (*self._deciding, *self._plan.kept_fields())
        return [n for n in dict.fromkeys(fields) if {n, n.partition(".")[0]} & {*names}]

    def position(self, row: int) -> int:
        """The stored bytes read when `row` rows are read, estimated by their share of all rows."""
        return min(self._source.size, self._source.size * row // max(1, self.rows))

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


class _ArrowBatches(Batches):
    form = "arrow"
    _file_position = 0

    def read(self, file: BinaryIO) -> Iterator[tuple[Any, Any]]:
        """Batches with the wanted columns, each with the schema of the whole file."""
        is_file = file.read(len(_MAGIC)) == _MAGIC
        file.seek(0)
        form = pa.ipc.open_file if is_file else pa.ipc.open_stream
        schema = form(file).schema
        outer = {n for name in self.wanted(schema.names) for n in (name, name.split(".")[0])}
        columns = [schema.names.index(n) for n in dict.fromkeys(schema.names) if n in outer]
        file.seek(0)
        # other columns are not unpacked; an empty list would mean all of them
        columns = columns or [*range(len(schema))][:1]
        only_these = pa.ipc.IpcReadOptions(included_fields=columns)
        opened = form(file, options=only_these)
        stored = map(opened.get_batch, range(opened.num_record_batches)) if is_file else opened
        decoded = 0
        most = max(FREE, self._plan.max_ratio * self._source.size)
        try:
            for batch in stored:
                batch.validate(full=True)
                self._file_position = file.tell()
                for begin in range(0, batch.num_rows, _BATCH):
                    part = batch.slice(begin, _BATCH)
                    decoded += sum(map(_decoded_size, part.columns))
                    if decoded > most:
                        self.problem = rejects.bomb(self._plan)
                        return
                    yield part, schema
        except MemoryError as e:  # a damaged length
            raise pa.ArrowInvalid("a batch is larger than memory") from e

    def position(self, row: int) -> int:
        """The bytes that are read."""
        del row
        return min(self._source.size, self._file_position)


class Parquet(Format):
    """Parquet files."""

    name = "parquet"
    suffixes: ClassVar[tuple[str, ...]] = (".parquet",)
    seeks = True
    batches: ClassVar[type[Batches]] = Batches

    def blocks(self, source: Source, plan: ReadPlan) -> Iterator[Block]:
        """Blocks of rows whose texts fill a shard; a text over the row limit closes its block."""
        return self.blocks_from(source, plan, 0, 0)

    def blocks_from(self, source: Source, plan: ReadPlan, row: int, byte: int) -> Iterator[Block]:
        """The blocks that begin with a row or after it; row groups before it are not read."""
        del byte
        batches = self.batches(source, plan, row)
        limit = int(plan.shard_mb * MIB)
        max_row_bytes = int(plan.max_row_mb * MIB)
        pending: list[Any] = []
        size = 0
        first = row
        for batch, lengths in batches:
            begin = 0
            for at, length in enumerate(lengths):
                long = length > max_row_bytes
                size += 0 if long else length
                row += 1
                if not long and size < limit:
                    continue
                pending.append(batch.slice(begin, at - begin + (not long)))
                rejected = (Reject(row - 1, 0, rejects.too_long(plan)),) if long else ()
                at_end = batches.position(row)
                yield Block(first, 0, _packed(pending), rejected, at_end, cut_by=size)
                pending = []
                size = 0
                first = row
                begin = at + 1
            pending.append(batch.slice(begin))
        rejected = (Reject(row, 0, batches.problem),) if batches.problem else ()
        if row > first or rejected:
            yield Block(first, 0, _packed(pending), rejected, source.size, cut_by=size)

    def parse(self, shard: Shard, plan: ReadPlan) -> Iterator[Row]:
        if not shard.data:
            return
        table = pa.ipc.open_stream(shard.data).read_all()
        if not {plan.text_field, *fields_in(plan.text_field)} & {*table.column_names}:
            names = table.schema.metadata[_FIELDS].decode().split("\n")
            reason = rejects.missing_field(plan.text_field, names)
            yield from (Reject(shard.first_row + i, 0, reason) for i in range(table.num_rows))
            return
        plain = all(map(_is_json, table.schema.types))
        for row, record in enumerate(records(table), shard.first_row):
            yield from_mapping(row, 0, record if plain else orjson.loads(line_of(record)), plan)


class Arrow(Parquet):
    """Arrow IPC files and streams: Feather, and what `datasets` saves to disk."""

    name = "arrow"
    suffixes = (".arrow", ".feather")
    seeks = False
    batches = _ArrowBatches


def _names(name: str, kind: Any) -> list[str]:
    """The name of a column, or of a struct's fields, such as `a.b`."""
    if not pa.types.is_struct(kind):
        return [name]
    return [n for field in kind for n in _names(f"{name}.{field.name}", field.type)]


def _column_to_count(schema: pq.ParquetSchema) -> list[str]:
    """The column to count rows by if the plan needs none: the first of numbers if there is one."""
    # Without a column, Arrow trusts the number of rows that the file states. A wrong number crashes
    # the process, and so does asking for the size of a damaged column.
    columns = [schema.column(i) for i in range(len(schema.names))]
    wide = [column.physical_type == "BYTE_ARRAY" for column in columns]
    return [columns[wide.index(min(wide))].path] if columns else []


def _flat(batch: Any, names: list[str]) -> Any:
    """The batch with a column `a.b` for each wanted field `b` of a struct or map `a`."""
    inner = [n for n in names if n not in batch.schema.names]
    outer = {n.partition(".")[0] for n in inner} - {*names}
    columns = {n: batch.column(n) for n in batch.schema.names if n not in outer}
    for name in inner:
        first, *rest = name.split(".")
        with contextlib.suppress(KeyError, pa.ArrowException):  # no such field
            column = batch.column(first)
            if pa.types.is_map(column.type):
                columns[name] = pc.map_lookup(column, ".".join(rest), "first")
            else:
                columns[name] = pc.struct_field(column, rest)
    if not inner:
        return batch
    return pa.RecordBatch.from_pydict(columns) if columns else batch.select([])


def _plain(batch: Any, names: list[str]) -> Any:
    """The batch with its dictionaries decoded, as they differ by batch, and `names` as metadata."""
    decoded = [
        column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        for column in batch.columns
    ]
    notes = {_FIELDS: "\n".join(names).encode()}
    if not decoded:
        return batch.select([]).replace_schema_metadata(notes)
    fields = [pa.field(n, c.type) for n, c in zip(batch.schema.names, decoded, strict=True)]
    return pa.RecordBatch.from_arrays(decoded, schema=pa.schema(fields, metadata=notes))


def _decoded_size(column: Any) -> int:
    """The bytes of a column when its dictionary is decoded, in which a value may be repeated."""
    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    indices = column.indices  # alone, as batches share the dictionary
    if not _is_string(column.type.value_type):
        return int(indices.nbytes)
    lengths = pc.binary_length(column.dictionary.cast(pa.large_binary())).take(indices)
    return int(indices.nbytes) + (pc.sum(lengths).as_py() or 0)


def _is_string(kind: Any) -> bool:
    types = pa.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_json(kind: Any) -> bool:
    """Whether the values of a type are those that JSON has."""
    types = pa.types
    if types.is_struct(kind):
        return all(_is_json(field.type) for field in kind)
    if types.is_list(kind) or types.is_large_list(kind):
        return _is_json(kind.value_type)
    others = types.is_null(kind) or types.is_integer(kind) or types.is_boolean(kind)
    return bool(others or _is_string(kind))


def _lengths(batch: Any, field: str, of_text: set[str]) -> list[int]:
    """Bytes of each text, or of the mean text if it is not one string column."""
    # Shards are the same whatever other field is read. 8 bytes are added to each, so that a shard
    # of empty texts is full at some point, too.
    if field not in batch.schema.names or not _is_string(batch.schema.field(field).type):
        texts = batch.select([name for name in batch.schema.names if name in of_text])
        mean = texts.nbytes // max(1, texts.num_rows) if texts.num_columns else 0
        return [8 + mean] * int(batch.num_rows)
    lengths = pc.fill_null(pc.binary_length(batch.column(field).cast(pa.large_binary())), 0)
    return cast("list[int]", np.add(lengths.to_numpy(zero_copy_only=False), 8).tolist())


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
