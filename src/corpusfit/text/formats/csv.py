"""CSV and TSV: records under a header; quoted fields may hold line ends.

What: each block is its dialect, the header and whole records, so that it can be parsed alone; `row`
counts records from 0 without the header. `read.separator`, `read.quote` and `read.escape` replace
what the suffix and the file say, and `read.columns` names the columns of a file without a header.
Without `read.separator`, a header that is one name by the suffix's separator, and several by one
other, says that the file has this other. Lines end as in `cutting.Text`, line ends in quotes aside.
`Dialect` parses one record, `Records` finds where records end, and `Records.looked` decides on the
dialect of a file at the first quote that can be read in several ways.
Why: quotes decide where a record ends, so borders are found while reading. Programs differ: Spark
and R escape a quote by a backslash, others double it; and in most files with tabs, quotes are text
that nobody closes, so that a reader of quotes joins lines.
Trade-off: a record with more fields than the header is rejected, unless the further ones are
empty; fewer fields are fine as long as the text is among them. A header that is repeated, as in
files that were joined, is a reject. A quote that is never closed turns the rest of the file into
one rejected row. One to two MiB from the first doubtful quote on decide on the dialect; what does
not fit later is rejected.
Reference: RFC 4180; Python's `csv`, dialects `excel` and `excel-tab`; pandas, Spark and R write the
others.
"""

from __future__ import annotations

import copy
import csv
import functools
import io
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Reason, Reject, Shard, Source
from corpusfit.kernels.lines import line_ends
from corpusfit.text import rejects
from corpusfit.text.contract import Format, is_utf8
from corpusfit.text.cutting import BOM, MIB, Block, Scan, cut
from corpusfit.text.fields import Row, fields_in, from_broken, from_mapping, from_value
from corpusfit.text.files import Stream

SEPARATORS = ",;|\t"
"""Separators to try on a header without `read.separator`."""
TAB = "\t"
_BACKSLASH = "\\"
# bytes of a header that decide on the separator
_SEEN = 1 << 16
# most rows whose first values decide on an index
_NUMBERED = 20
# Excel's line that states the separator, and lines that are blank or comments
_STATED = re.compile(rb'"?sep=([\t -~])"?(?:\r\n|\r|\n)', re.IGNORECASE)
_COMMENTS = re.compile(rb"[\r\n]*(?:#[^\r\n]*[\r\n]+)*")
# bytes of an unfinished record beyond which no other dialect is considered
_HELD = 1 << 20


class Csv(Format):
    """Values separated by commas."""

    name = written = "csv"
    suffixes = (".csv",)
    delimiter: ClassVar[str] = ","

    def blocks(self, source: Source, plan: ReadPlan) -> Iterator[Block]:
        stream = Stream(source, plan)
        chunks = iter(stream)
        start = next(chunks, b"")
        begin, dialects = self._opening(plan, start)
        start = start[begin:]
        names = columns_in(plan)
        records = Records(*dialects, width=len(names))
        parts = records.looked(itertools.chain([start], chunks))
        if names:
            header = records.dialect.record(names) + records.dialect.end.encode()
        else:
            header, rest = _header(parts, records, int(plan.max_row_mb * MIB))
            if rest is None:
                reason = stream.problem or (rejects.too_long(plan) if header else None)
                if reason:
                    yield Block(0, 0, b"", (Reject(0, 0, reason),), stream.position)
                return
            begin += len(header)
            if _has_unnamed_index(records.dialect, header, rest):
                header = records.dialect.separator.encode() + header
                records.begin(header)
            parts = filter(None, itertools.chain([rest], parts))
        for block in cut(stream, records, plan, first_byte=begin, parts=parts):
            data = records.dialect.line + header + block.data
            yield replace(block, data=data) if block.data else block

    def parse(self, shard: Shard, plan: ReadPlan) -> Iterator[Row]:
        if not shard.data:
            return
        csv.field_size_limit(max(csv.field_size_limit(), len(shard.data)))
        dialect, data = Dialect.before(shard.data)
        records = Records(dialect)
        ends = records(data)[0].tolist()
        # without a header, every record has too many fields
        header = data[: ends[0]].rstrip(b"\r\n")
        names = dialect.names(header)
        text_index, id_index = (
            (names.index(name) if name in names else -1)
            for name in (plan.text_field, plan.id_field)
        )
        by_name = plan.where or plan.numbers or plan.kept_fields() or plan.joined
        valid = is_utf8(data)
        if ends[-1] < len(data):
            ends.append(len(data))
        for row, (begin, end) in enumerate(itertools.pairwise(ends), shard.first_row):
            byte = shard.first_byte + begin - ends[0]
            raw = data[begin:end].removeprefix(BOM)  # as files are joined
            if raw.startswith(header) and raw.rstrip(b"\r\n") == header:
                yield Reject(row, byte, rejects.REPEATED_HEADER)
                continue
            values = _values(row, byte, raw, dialect, len(names))
            if isinstance(values, Reject):
                yield values
            elif records.unclosed and end == len(data):
                yield Reject(row, byte, rejects.UNCLOSED_QUOTE)
            elif by_name or not (valid and 0 <= text_index < len(values)):
                record: dict[str, str] = {}
                for name, value in zip(names, values, strict=False):
                    record.setdefault(name, value)  # of columns with one name the first
                yield (from_mapping if valid else from_broken)(row, byte, record, plan)
            else:
                id = values[id_index] if 0 <= id_index < len(values) else None
                yield from_value(row, byte, values[text_index], id)

    def head(self, data: bytes, plan: ReadPlan) -> int:
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
        """A row with doubled quotes; unchanged where the suffix implies the quoting."""
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
        return self._opening(plan, data)[1][0]

    def _opening(self, plan: ReadPlan, data: bytes) -> tuple[int, list[Dialect]]:
        """Where the header begins, and the dialects that a file may have by its first bytes.

        Before the header, Excel reads a line that states the separator, and others write comments.
        """
        begin = len(BOM) * data.startswith(BOM)
        stated = _STATED.match(data, begin)
        if stated:
            begin = stated.end()
        separator = stated[1].decode() if stated and not plan.separator else plan.separator
        dialects = self._dialects(plan, data[begin:], separator)
        comments = _COMMENTS.match(data, begin)
        if not comments or not comments[0] or plan.columns:
            return begin, dialects
        first = dialects[0].names(_first_line(data[begin:]))
        behind = self._dialects(plan, data[comments.end() :], separator)
        names = behind[0].names(_first_line(data[comments.end() :]))
        if first == [""] or len(names) > len(first) or _fields_of(plan) & {*names} - {*first}:
            return comments.end(), behind
        return begin, dialects

    def _dialects(self, plan: ReadPlan, data: bytes, separator: str) -> list[Dialect]:
        """The dialects that a file may have by the bytes from its header on, the usual one first.

        Without a `separator` that is known, the header shows it.
        """
        escape = plan.escape if plan.escape != plan.quote else ""
        first = Dialect(separator or self.delimiter, plan.quote, escape)
        names = first.names(_first_line(data))
        if (
            not separator
            and not plan.columns
            and len(names) < 2
            and not _fields_of(plan) & {*names}
        ):
            others = [replace(first, separator=mark) for mark in SEPARATORS]
            fitting = [other for other in others if len(other.names(_first_line(data))) > 1]
            first = fitting[0] if len(fitting) == 1 else first
        dialects = [first]
        if plan.quote and not plan.escape:
            dialects.append(replace(first, escape=_BACKSLASH))
        # lines end in CR if no LF is outside quotes
        by_cr = [replace(dialect, end="\r") for dialect in dialects]
        if b"\r" in data and {b"\r"} in [
            _line_ends_of(dialect, data[:_SEEN]) or _line_ends_of(dialect, data)
            for dialect in by_cr
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


def _first_line(data: bytes) -> bytes:
    return re.split(rb"[\r\n]", data[:_SEEN], maxsplit=1)[0]


def _fields_of(plan: ReadPlan) -> set[str]:
    """The names that may show which line is the header."""
    return {plan.text_field, *fields_in(plan.text_field)}


def _has_unnamed_index(dialect: Dialect, header: bytes, rest: bytes) -> bool:
    """Whether the first value of each row is its number, without a name, as R writes it."""
    sample = rest[:_SEEN]
    width = len(dialect.names(header)) + 1
    ends = Records(dialect)(sample)[0].tolist()
    if len(sample) < _SEEN and (not ends or ends[-1] < len(sample)):
        ends.append(len(sample))
    rows = [
        dialect.values(sample[begin:end].decode(errors="replace"))[0]
        for begin, end in itertools.pairwise([0, *ends[:_NUMBERED]])
    ]
    longer = [row for row in rows if len(row) == width]
    if not any(row[-1].strip() for row in longer):  # a separator ends each row
        return False
    numbers = [[str(number) for number in range(at, at + len(rows))] for at in (0, 1)]
    return len(rows) > 1 and [row[0] for row in longer] in numbers


def _values(
    row: int, byte: int, raw: bytes, dialect: Dialect, max_fields: int
) -> list[str] | Reject:
    """The fields of one record, or the reason why it cannot be parsed."""
    if not raw.strip(b"\r\n"):
        return Reject(row, byte, rejects.EMPTY_LINE)
    values, fault = dialect.values(raw.decode(errors="surrogateescape"))
    if fault == rejects.UNCLOSED_QUOTE:
        return Reject(row, byte, fault)
    values = _without_end(values, max_fields)
    if not fault and len(values) > max_fields:
        fault = rejects.malformed_csv(f"{len(values)} fields under a header of {max_fields}")
    if fault and not is_utf8(raw):
        return Reject(row, byte, rejects.INVALID_UTF8)
    return Reject(row, byte, fault) if fault else values


def _without_end(values: list[str], width: int) -> list[str]:
    """The values without blank ones behind the last column, as a separator may end each row."""
    while len(values) > width and not values[-1].strip():
        values.pop()
    return values


def _line_ends_of(dialect: Dialect, data: bytes) -> set[bytes]:
    """The characters that end the records of a file's beginning."""
    return {data[end - 1 : end] for end in Records(dialect)(data)[0].tolist()}


def columns_in(plan: ReadPlan) -> list[str]:
    """The names of the columns that the plan gives; none if they stand in the file."""
    return [name.strip() for name in plan.columns.split(",") if name.strip()]


def _header(
    chunks: Iterator[bytes], records: Records, max_bytes: int
) -> tuple[bytes, bytes | None]:
    """The first record and the bytes read after it (None if no whole record was found)."""
    pending = b""
    for chunk in chunks:
        ends, _ = records(chunk)
        pending += chunk
        if len(ends):
            end = len(pending) - len(chunk) + int(ends[0])
            records.begin(pending[:end])
            return (pending[:end], pending[end:]) if end <= max_bytes else (pending[:end], None)
        if len(pending) > max_bytes:
            return pending, None
    return b"", None


@dataclass(frozen=True)
class Dialect:
    """The characters of a file."""

    separator: str
    quote: str  # empty if quotes are text
    escape: str = ""  # before a quote within a value; empty if quotes are doubled
    end: str = "\n"  # of a line: LF (also of CRLF), or CR, in which case any ends one

    @property
    def line(self) -> bytes:
        """The dialect as a line, written before a block's data."""
        marks = (self.separator, self.quote, self.escape, self.end)
        return "".join(mark or "\0" for mark in marks).encode() + b"\n"

    @staticmethod
    def before(block: bytes) -> tuple[Dialect, bytes]:
        """Split a block into its dialect and its data."""
        return Dialect(*(mark.replace("\0", "") for mark in block[:4].decode())), block[5:]

    def record(self, values: list[str]) -> bytes:
        """A record of values, with doubled quotes, without a line end."""
        if not self.quote:
            return self.separator.join(values).encode()
        out = io.StringIO()
        csv.writer(out, delimiter=self.separator, quotechar=self.quote).writerow(values)
        return out.getvalue().removesuffix("\r\n").encode()

    def names(self, header: bytes) -> list[str]:
        """The names in a header; none if it cannot be parsed."""
        names, fault = self.values(header.decode(errors="replace"))
        return [] if fault else [name.strip() for name in names]

    def values(self, record: str) -> tuple[list[str], Reason | None]:
        """The values of a record, and why its quotes are wrong (None: they are right)."""
        record = record.removesuffix("\n").removesuffix("\r")
        if not self.quote or self.quote not in record:
            return record.split(self.separator), None
        strict = self.escape or self.separator == TAB or _BACKSLASH + self.quote in record
        # where lines are joined, a quote may not have been meant to open a value
        if not strict and "\r" not in record and "\n" not in record:
            try:
                reader = csv.reader((record,), delimiter=self.separator, quotechar=self.quote)
                return next(reader, []), None
            except csv.Error as e:
                return [], rejects.malformed_csv(e)
        field, escaped = _quoted(self.quote, self.escape)
        values: list[str] = []
        at = 0
        fault = None
        while True:
            quoted = field.match(record, at)
            value = ""
            if quoted:
                value = escaped.sub(lambda match: match[1], quoted[1])
                at = quoted.end()
            elif record.startswith(self.quote, at):
                return [*values, record[at + 1 :]], rejects.UNCLOSED_QUOTE
            stop = record.find(self.separator, at)
            rest = record[at:] if stop < 0 else record[at:stop]
            if quoted and rest:
                fault = rejects.malformed_csv("text after a closing quote")
            elif self.escape:
                rest = rest.replace(self.escape + self.quote, self.quote)
            elif self.separator != TAB and _BACKSLASH + self.quote in rest:
                fault = rejects.malformed_csv("a backslash before a quote")
            values.append(value + rest)
            if stop < 0:
                return values, fault
            at = stop + 1


@functools.cache
def _quoted(quote: str, escape: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """What matches a quoted value, and an escaped character in it."""
    mark = re.escape(quote)
    by = re.escape(escape)
    within = f"[^{mark}{by}]|{mark}{mark}" + (f"|{by}." if escape else "")
    return (
        re.compile(f"{mark}((?:{within})*+){mark}", re.DOTALL),
        re.compile(f"[{mark}{by}]([{mark}{by}])"),
    )


class Records:
    """Scanner of records; a quote opens a value only at its beginning.

    Args:
        dialects: those that a file may have; the first if nothing in it speaks for another.
        width: number of columns of a file without a header (default: as in the first record).
    """

    def __init__(self, *dialects: Dialect, width: int = 0) -> None:
        self._others = dialects[1:]
        self._width = width
        self._headed = not width
        self._use(dialects[0])
        self._row = 0
        # the open record, as long as the dialect is undecided
        self._open = b""
        self._restart()

    def _use(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self._mark = dialect.quote.encode()
        ends = b"\n\r" if dialect.end == "\r" else b"\n"
        mark = re.escape(self._mark)
        escape = re.escape(dialect.escape.encode())
        before = rb"(?:(?<=[%s%s])|(?<=[%s]%s))" % (
            *(ends, re.escape(dialect.separator.encode())),
            *(ends, BOM),
        )
        self._stop = re.compile(b"[%s]" % ends + (rb"|" + before + mark if mark else b""))
        self._inside = re.compile(b"[%s%s]" % (mark, escape)) if mark else self._stop
        # quotes that dialects read differently: one after a backslash, or any between tabs
        self._doubt = re.compile(rb"\\" + mark if mark else rb'(?:^|(?<=[\t\r\n]))"')

    def _restart(self) -> None:
        """Reset to the beginning of a record."""
        self._before = b"\n"  # the byte before the chunk
        self._quoted = False  # inside a quoted value
        # the last byte was a quote in a quoted value: a closing one, or the first of two
        self._quote = False
        self._escape = False  # the last byte was an escape in a quoted value

    def begin(self, header: bytes = b"") -> None:
        """Reset to the first record, after a header."""
        self._restart()
        self._row = 0
        self._open = b""
        self._width = len(self.dialect.names(header)) if header else self._width

    @property
    def unclosed(self) -> bool:
        """Whether the input ended inside a quoted value."""
        return self._quoted and not self._quote

    def __call__(self, chunk: bytes) -> Scan:
        """The ends of records in the next chunk."""
        if not self._mark and self.dialect.end == "\n":
            return self._counted(chunk, line_ends(np.frombuffer(chunk, np.uint8)) + 1)
        data = self._before + chunk
        at = 1
        ends: list[int] = []
        while at < len(data):
            if self._escape:
                self._escape = False
                at += 1
            elif self._quote:
                self._quote = False
                self._quoted = data[at : at + 1] == self._mark
                at += self._quoted
            elif self._quoted:
                inside = self._inside.search(data, at)
                if not inside:
                    break
                at = inside.end()
                self._quote = inside[0] == self._mark
                self._escape = not self._quote
            else:
                stop = self._stop.search(data, at)
                if not stop:
                    break
                at = stop.end()
                self._quoted = data[at - 1 : at] == self._mark
                if not self._quoted:
                    ends.append(at - 1)
        self._before = data[-1:]
        return self._counted(chunk, np.array(ends, np.int64))

    def _counted(self, chunk: bytes, ends: NDArray[np.int64]) -> Scan:
        """The ends with the numbers of the rows that begin there."""
        if self._others:
            self._open = chunk[int(ends[-1]) :] if len(ends) else self._open + chunk
            self._others = self._others if len(self._open) <= _HELD else ()
        numbers = self._row + np.arange(1, len(ends) + 1, dtype=np.int64)
        self._row += len(ends)
        return ends, numbers

    def looked(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Yield a file's chunks, deciding on the dialect before the first chunk where it matters.

        Every chunk must be scanned before the next is taken.
        """
        chunk = next(chunks, b"")
        for following in itertools.chain(chunks, (b"",)):
            if self._others:
                self._look(chunk, following)
            if chunk:
                yield chunk
            chunk = following

    def _look(self, chunk: bytes, following: bytes) -> None:
        """Decide on the dialect if a quote in the next chunk can be read in several ways."""
        data = self._open + chunk
        doubt = self._doubt.search(data) if (self._mark or b'"') in data else None
        if not doubt:
            return
        # all dialects agree before this record, so compare them from here on
        scanned = copy.copy(self)
        starts = [0, *(scanned(chunk)[0] + len(self._open)).tolist()]
        begin = max(start for start in starts if start <= doubt.start())
        possible = [self.dialect, *self._others]
        width = self._width
        if not width:
            end = (*starts, len(data))[1]
            width = len(self.dialect.names(data[:end]))
            width += any(_has_unnamed_index(d, data[:end], data[end:]) for d in possible)
        sample = data[begin:] + following
        whole = not following
        header = self._headed and not self._width and not begin
        gains = [_gain(d, sample, width, whole=whole, header=header) for d in possible]
        self._others = ()
        self._use(possible[gains.index(max(gains))])
        if self._open:  # an escape may be its last byte
            row = self._row
            self._restart()
            self(self._open)
            self._row = row


def _gain(dialect: Dialect, sample: bytes, width: int, *, whole: bool, header: bool) -> int:
    """Score a dialect on a sample: records in favor minus records against."""
    records = Records(dialect)
    ends = [0, *records(sample)[0].tolist()]
    if whole and ends[-1] < len(sample):
        ends.append(len(sample))
    elif records.unclosed and len(sample) - ends[-1] > _HELD // 2:
        return -len(sample)
    between_tabs = None
    if dialect.quote and dialect.separator == TAB:
        field = _quoted(dialect.quote, dialect.escape)[0].pattern
        between_tabs = re.compile(rf"(?:^|\t){field}(?=\t|\Z)", re.DOTALL)
    gain = 0
    quoted_records = 0
    fully = list[bool]()
    for begin, end in itertools.pairwise(ends):
        record = sample[begin:end].decode(errors="replace").strip("\r\n")
        values, fault = dialect.values(record)
        values = _without_end(values, width)
        # against: malformed quotes, or a wrong number of values
        if fault or (record and len(values) != width):
            gain -= 1
        elif record and between_tabs:
            # in favor of quotes in a TSV: a quoted value with a quote in it, or with a tab or line
            # end where the lines alone would not have the right number of columns
            quoted = between_tabs.findall(record)
            lines = re.split("\r\n|\r|\n", record)
            broken = any(line.count(TAB) + 1 != width for line in lines)
            gain += any(
                dialect.quote in value or (broken and re.search("[\t\r\n]", value))
                for value in quoted
            )
            quoted_records += bool(quoted)
            fully.append(len(quoted) == len(values))
    # if every header name (or, without a header, every value) is quoted, each quoted row counts
    every = all(fully[:1]) if header else width > 1 and all(fully)
    return gain + quoted_records * every
