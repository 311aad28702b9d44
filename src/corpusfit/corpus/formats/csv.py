"""CSV and TSV: records under a header; quoted fields may hold line ends.

What: each block is the header and whole records, so that it can be parsed alone; `row` counts
records from 0 without the header. `read.separator` and `read.quote` replace the suffix's, and
`read.columns` names the columns of a file without a header. Without `read.separator`, a header that
is one name by the suffix's separator, and several by one other, says that the file has this other.
Why: quotes decide where a record ends, so borders are found while reading, by the rule of the
standard library's parser: a quote opens a field only at the field's beginning.
Trade-off: a record with more fields than the header is rejected; fewer fields are fine as long as
the text is among them. A quote that is never closed turns the rest of the file into one rejected
row.
Reference: RFC 4180; Python's `csv`, dialects `excel` and `excel-tab`.
"""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from corpusfit.corpus import rejects
from corpusfit.corpus.contract import Format
from corpusfit.corpus.cutting import BOM, MIB, Block, Scan, cut
from corpusfit.corpus.fields import Row, fields_in, from_mapping, from_value
from corpusfit.corpus.unpack import Stream
from corpusfit.plan import ReadPlan
from corpusfit.types import Reject, Shard, Source

SEPARATORS = ",;|\t"
"""What a header may be divided at, if `read.separator` says nothing."""
_SEEN = 1 << 16
"""Bytes of a header that decide on the separator: less than a chunk, so that all readers agree."""


@dataclass(frozen=True)
class Dialect:
    """The characters of a file: what separates its values, and what quotes them (empty: none)."""

    separator: str
    quote: str

    @property
    def words(self) -> dict[str, Any]:
        """The same for the library `csv`."""
        quoting = csv.QUOTE_MINIMAL if self.quote else csv.QUOTE_NONE
        return {"delimiter": self.separator, "quotechar": self.quote or None, "quoting": quoting}

    def names(self, header: str) -> list[str]:
        """The names in a header; none if it cannot be parsed."""
        try:
            return next(csv.reader((header,), **self.words), [])
        except csv.Error:
            return []

    def line(self, values: list[str]) -> bytes:
        """A record of values, with its line end."""
        out = io.StringIO()
        csv.writer(out, **self.words, lineterminator="\n").writerow(values)
        return out.getvalue().encode()


class Csv(Format):
    """Values separated by commas."""

    name = written = "csv"
    suffixes = (".csv",)
    delimiter: ClassVar[str] = ","

    def blocks(self, source: Source, plan: ReadPlan) -> Iterator[Block]:
        """Blocks of the header and whole records."""
        stream = Stream(source, plan)
        chunks = iter(stream)
        start = next(chunks, b"")
        dialect, chunks = self.dialect(plan, start), itertools.chain([start], chunks)
        parts: Iterator[bytes] = chunks
        names, begin = columns_in(plan), 0
        if names:
            header = dialect.line(names)
        else:
            header, rest = _header(chunks, dialect, int(plan.max_row_mb * MIB))
            begin = len(header)
            if rest is None:
                reason = stream.problem or (rejects.too_long(plan) if header else "")
                if reason:
                    yield Block(0, 0, b"", (Reject(0, 0, reason),), stream.position)
                return
            parts = filter(None, itertools.chain([rest], chunks))
        for block in cut(stream, _Records(dialect), plan, first_byte=begin, parts=parts):
            yield replace(block, data=header + block.data) if block.data else block

    def parse(self, shard: Shard, plan: ReadPlan) -> Iterator[Row]:
        """The records of one shard."""
        if not shard.data:
            return
        csv.field_size_limit(max(csv.field_size_limit(), len(shard.data)))
        dialect = self.dialect(plan, shard.data)
        scanner = _Records(dialect)
        ends = scanner(shard.data)[0].tolist()
        header = shard.data[: ends[0]].removeprefix(BOM).decode(errors="replace")
        names = dialect.names(header)  # without any, every record has too many fields
        text_index, id_index = (
            (names.index(name) if name in names else -1)
            for name in (plan.text_field, plan.id_field)
        )
        if ends[-1] < len(shard.data):
            ends.append(len(shard.data))
        for row, (begin, end) in enumerate(itertools.pairwise(ends), shard.first_row):
            byte = shard.first_byte + begin - ends[0]
            raw = shard.data[begin:end]
            values = _values(row, byte, raw if byte else raw.removeprefix(BOM), dialect, len(names))
            if isinstance(values, Reject):
                yield values
            elif scanner.unclosed and end == len(shard.data):
                yield Reject(row, byte, rejects.UNCLOSED_QUOTE)
            elif not 0 <= text_index < len(values):
                record = dict(zip(names, values, strict=False))
                yield from_mapping(row, byte, record, plan)
            else:
                id = values[id_index] if 0 <= id_index < len(values) else None
                yield from_value(row, byte, values[text_index], id)

    def head(self, data: bytes, plan: ReadPlan) -> int:
        """Bytes of the header, with its line end."""
        ends = _Records(self.dialect(plan, data))(data)[0]
        return int(ends[0]) if len(ends) else len(data)

    def header(self, source: Source, plan: ReadPlan) -> bytes:
        """The names of the columns; nothing for a file without them."""
        first = next(self.blocks(source, plan), None)
        if first is None or columns_in(plan):
            return b""
        return first.data[: self.head(first.data, plan)].removeprefix(BOM).rstrip(b"\r\n")

    def dialect(self, plan: ReadPlan, data: bytes) -> Dialect:
        """The characters of a file that begins with some bytes, or of its block."""
        dialect = Dialect(plan.separator or self.delimiter, plan.quote)
        if plan.separator or plan.columns:
            return dialect
        header = data[:_SEEN].removeprefix(BOM).partition(b"\n")[0].decode(errors="replace")
        names = dialect.names(header)
        if len(names) != 1 or names[0] in (plan.text_field, *fields_in(plan.text_field)):
            return dialect
        others = [Dialect(mark, plan.quote) for mark in SEPARATORS]
        fitting = [other for other in others if len(other.names(header)) > 1]
        return fitting[0] if len(fitting) == 1 else dialect


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
        values = next(csv.reader((raw.decode(),), **dialect.words))
    except UnicodeDecodeError:
        return Reject(row, byte, rejects.INVALID_UTF8)
    except (csv.Error, StopIteration) as e:
        return Reject(row, byte, rejects.malformed_csv(e))
    if len(values) > most:
        detail = f"{len(values)} fields under a header of {most}"
        return Reject(row, byte, rejects.malformed_csv(detail))
    return values


def columns_in(plan: ReadPlan) -> list[str]:
    """The names of the columns that the plan gives; none if they stand in the file."""
    return [name.strip() for name in plan.columns.split(",") if name.strip()]


def _header(chunks: Iterator[bytes], dialect: Dialect, longest: int) -> tuple[bytes, bytes | None]:
    """The first record and the bytes read after it (None if no whole record was found)."""
    scanner, held = _Records(dialect), b""
    for chunk in chunks:
        ends, _ = scanner(chunk)
        held += chunk
        if len(ends):
            end = len(held) - len(chunk) + int(ends[0])
            return (held[:end], held[end:]) if end <= longest else (held[:end], None)
        if len(held) > longest:
            return held, None
    return b"", None


class _Records:
    def __init__(self, dialect: Dialect) -> None:
        self._mark = dialect.quote.encode()
        stop = rb"\n" + (
            rb"|(?<=[\n%s])%s" % (re.escape(dialect.separator.encode()), re.escape(self._mark))
            if self._mark
            else b""
        )
        self._stop = re.compile(stop)
        self._row = 0
        self._before = b"\n"  # the byte before the chunk
        self._quoted = False  # inside a quoted field
        self._quote = False  # the last byte was a quote in a quoted field; the next one decides

    @property
    def unclosed(self) -> bool:
        """Whether the input ended inside a quoted field."""
        return self._quoted and not self._quote

    def __call__(self, chunk: bytes) -> Scan:
        data, at = self._before + chunk, 1
        ends: list[int] = []
        while at < len(data):
            if self._quote:
                self._quote = False
                self._quoted = data[at : at + 1] == self._mark
                at += self._quoted
            elif self._quoted:
                at = data.find(self._mark, at) + 1
                if not at:
                    break
                self._quote = True
            else:
                stop = self._stop.search(data, at)
                if not stop:
                    break
                at = stop.end()
                self._quoted = data[at - 1 : at] == self._mark
                if not self._quoted:
                    ends.append(at - 1)
        self._before = data[-1:]
        numbers = self._row + np.arange(1, len(ends) + 1, dtype=np.int64)
        self._row += len(ends)
        return np.array(ends, np.int64), numbers
