"""CSV and TSV: records under a header; quoted fields may hold line ends.

What: each block is its dialect, the header and whole records, so that it can be parsed alone; `row`
counts records from 0 without the header. `read.separator`, `read.quote` and `read.escape` replace
what the suffix and the file say, and `read.columns` names the columns of a file without a header.
Without `read.separator`, a header that is one name by the suffix's separator, and several by one
other, says that the file has this other. Lines end as in `cutting.Text`, line ends in quotes aside.
Why: quotes decide where a record ends, so borders are found while reading (`dialects`).
Trade-off: a record with more fields than the header is rejected; fewer fields are fine as long as
the text is among them. A quote that is never closed turns the rest of the file into one rejected
row.
Reference: RFC 4180.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Reject, Shard, Source
from corpusfit.text import rejects
from corpusfit.text.contract import Format
from corpusfit.text.cutting import BOM, MIB, Block, cut
from corpusfit.text.dialects import BACKSLASH, TAB, Dialect, Records
from corpusfit.text.fields import Row, fields_in, from_mapping, from_value
from corpusfit.text.unpack import Stream

SEPARATORS = ",;|\t"
"""What a header may be divided at, if `read.separator` says nothing."""
_SEEN = 1 << 16
"""Bytes of a header that decide on the separator."""


class Csv(Format):
    """Values separated by commas."""

    name = written = "csv"
    suffixes = (".csv",)
    delimiter: ClassVar[str] = ","

    def blocks(self, source: Source, plan: ReadPlan) -> Iterator[Block]:
        """Blocks of the dialect, the header and whole records."""
        stream = Stream(source, plan)
        chunks = iter(stream)
        start = next(chunks, b"")
        begin = len(BOM) * start.startswith(BOM)
        start = start[begin:]
        names = columns_in(plan)
        records = Records(*self._dialects(plan, start), width=len(names))
        parts = records.looked(itertools.chain([start], chunks))
        if names:
            header = records.dialect.record(names) + records.dialect.end.encode()
        else:
            header, rest = _header(parts, records, int(plan.max_row_mb * MIB))
            if rest is None:
                reason = stream.problem or (rejects.too_long(plan) if header else "")
                if reason:
                    yield Block(0, 0, b"", (Reject(0, 0, reason),), stream.position)
                return
            begin += len(header)
            parts = filter(None, itertools.chain([rest], parts))
        for block in cut(stream, records, plan, first_byte=begin, parts=parts):
            data = records.dialect.line + header + block.data
            yield replace(block, data=data) if block.data else block

    def parse(self, shard: Shard, plan: ReadPlan) -> Iterator[Row]:
        """The records of one shard."""
        if not shard.data:
            return
        csv.field_size_limit(max(csv.field_size_limit(), len(shard.data)))
        dialect, data = Dialect.before(shard.data)
        records = Records(dialect)
        ends = records(data)[0].tolist()
        names = dialect.names(data[: ends[0]])  # without any, every record has too many fields
        text_index, id_index = (
            (names.index(name) if name in names else -1)
            for name in (plan.text_field, plan.id_field)
        )
        if ends[-1] < len(data):
            ends.append(len(data))
        for row, (begin, end) in enumerate(itertools.pairwise(ends), shard.first_row):
            byte = shard.first_byte + begin - ends[0]
            values = _values(row, byte, data[begin:end], dialect, len(names))
            if isinstance(values, Reject):
                yield values
            elif records.unclosed and end == len(data):
                yield Reject(row, byte, rejects.UNCLOSED_QUOTE)
            elif not 0 <= text_index < len(values):
                record = dict(zip(names, values, strict=False))
                yield from_mapping(row, byte, record, plan)
            else:
                id = values[id_index] if 0 <= id_index < len(values) else None
                yield from_value(row, byte, values[text_index], id)

    def head(self, data: bytes, plan: ReadPlan) -> int:
        """Bytes of the dialect and the header, with its line end."""
        del plan
        dialect, rest = Dialect.before(data)
        ends = Records(dialect)(rest)[0]
        return len(data) - len(rest) + int(ends[0]) if len(ends) else len(data)

    def header(self, source: Source, plan: ReadPlan) -> bytes:
        """The names of the columns; nothing for a file without them."""
        first = next((block for block in self.blocks(source, plan) if block.data), None)
        if first is None or columns_in(plan):
            return b""
        dialect, rest = Dialect.before(first.data)
        return self.written_row(first.data, rest[: int(Records(dialect)(rest)[0][0])])

    def written_row(self, data: bytes, raw: bytes) -> bytes:
        """A row with doubled quotes; unchanged where the suffix says how it is quoted."""
        dialect, _ = Dialect.before(data)
        raw = raw.strip(b"\r\n")
        if not dialect.escape and not (dialect.quote and dialect.separator == TAB):
            return raw
        try:
            values, fault = dialect.values(raw.decode())
        except UnicodeDecodeError:
            return raw
        return raw if fault else dialect.record(values)

    def dialect(self, plan: ReadPlan, data: bytes) -> Dialect:
        """The dialect of a file by its first bytes, as far as its header shows it."""
        return self._dialects(plan, data.removeprefix(BOM))[0]

    def _dialects(self, plan: ReadPlan, data: bytes) -> list[Dialect]:
        """The dialects that a file may have by its first bytes, the usual one first."""
        escape = plan.escape if plan.escape != plan.quote else ""
        first = Dialect(plan.separator or self.delimiter, plan.quote, escape)
        header = re.split(rb"[\r\n]", data[:_SEEN], maxsplit=1)[0]
        names = first.names(header)
        own = {plan.text_field, *fields_in(plan.text_field)}
        if not plan.separator and not plan.columns and len(names) < 2 and not own & {*names}:
            others = [replace(first, separator=mark) for mark in SEPARATORS]
            fitting = [other for other in others if len(other.names(header)) > 1]
            first = fitting[0] if len(fitting) == 1 else first
        dialects = [first]
        if plan.quote and not plan.escape:
            dialects.append(replace(first, escape=BACKSLASH))
        # lines end in CR if no LF is outside quotes
        by_cr = [replace(dialect, end="\r") for dialect in dialects]
        if b"\r" in data and {b"\r"} in [
            _ends_of(dialect, data[:_SEEN]) or _ends_of(dialect, data) for dialect in by_cr
        ]:
            dialects = by_cr
        if first.separator == TAB and plan.quote == ReadPlan().quote:
            dialects.insert(0, replace(dialects[0], quote="", escape=""))
        return dialects


class Tsv(Csv):
    """Values separated by tabs."""

    name = written = "tsv"
    suffixes = (".tsv",)
    delimiter = "\t"


def _values(row: int, byte: int, raw: bytes, dialect: Dialect, most: int) -> list[str] | Reject:
    """The fields of one record, or the reason why it cannot be parsed."""
    if not raw.strip(b"\r\n"):
        return Reject(row, byte, rejects.EMPTY_LINE)
    try:
        values, fault = dialect.values(raw.decode())
    except UnicodeDecodeError:
        return Reject(row, byte, rejects.INVALID_UTF8)
    if fault == rejects.UNCLOSED_QUOTE:
        return Reject(row, byte, fault)
    if not fault and len(values) > most:
        fault = f"{len(values)} fields under a header of {most}"
    return Reject(row, byte, rejects.malformed_csv(fault)) if fault else values


def _ends_of(dialect: Dialect, data: bytes) -> set[bytes]:
    """The characters that end the records of a file's beginning."""
    return {data[end - 1 : end] for end in Records(dialect)(data)[0].tolist()}


def columns_in(plan: ReadPlan) -> list[str]:
    """The names of the columns that the plan gives; none if they stand in the file."""
    return [name.strip() for name in plan.columns.split(",") if name.strip()]


def _header(chunks: Iterator[bytes], records: Records, longest: int) -> tuple[bytes, bytes | None]:
    """The first record and the bytes read after it (None if no whole record was found)."""
    held = b""
    for chunk in chunks:
        ends, _ = records(chunk)
        held += chunk
        if len(ends):
            end = len(held) - len(chunk) + int(ends[0])
            records.begin(held[:end])
            return (held[:end], held[end:]) if end <= longest else (held[:end], None)
        if len(held) > longest:
            return held, None
    return b"", None
