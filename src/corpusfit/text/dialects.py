"""How CSV and TSV files quote, escape and end their records, and which way a file does.

What: `Dialect` parses one record, `Records` finds where records end, and `Records.looked` decides
on the dialect of a file at the first quote that can be read in several ways.
Why: programs differ. Spark and R escape a quote by a backslash, others double it; and in most files
with tabs, quotes are text that nobody closes, so that a reader of quotes joins lines.
Trade-off: one to two MiB from that quote on decide; what does not fit later is rejected.
Reference: RFC 4180; Python's `csv`, dialects `excel` and `excel-tab`; pandas, Spark and R write
the others.
"""

from __future__ import annotations

import copy
import csv
import functools
import io
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpusfit.kernels.jsonlines import line_ends
from corpusfit.text import rejects
from corpusfit.text.cutting import Scan

TAB = "\t"
BACKSLASH = "\\"
_HELD = 1 << 20
"""Bytes of an open record above which it no longer decides on a dialect."""


@dataclass(frozen=True)
class Dialect:
    """The characters of a file.

    Attributes:
        separator: between values.
        quote: around a value; empty if quotes are text.
        escape: before a quote within a value; empty if quotes are doubled.
        end: the end of a line, LF (also of CRLF), or CR, in which case any ends one.
    """

    separator: str
    quote: str
    escape: str = ""
    end: str = "\n"

    @property
    def line(self) -> bytes:
        """The characters as a line, with which a block can begin."""
        marks = (self.separator, self.quote, self.escape, self.end)
        return "".join(mark or "\0" for mark in marks).encode() + b"\n"

    @staticmethod
    def before(block: bytes) -> tuple[Dialect, bytes]:
        """The dialect with which a block begins, and what follows it."""
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
        return [] if fault else names

    def values(self, record: str) -> tuple[list[str], str]:
        """The values of a record, and why its quotes are wrong (empty: they are right)."""
        record = record.removesuffix("\n").removesuffix("\r")
        if not self.quote or self.quote not in record:
            return record.split(self.separator), ""
        strict = self.escape or self.separator == TAB or BACKSLASH + self.quote in record
        if not strict and "\r" not in record:
            try:
                reader = csv.reader((record,), delimiter=self.separator, quotechar=self.quote)
                return next(reader, []), ""
            except csv.Error as e:
                return [], str(e)
        field, escaped = _quoted(self.quote, self.escape)
        values: list[str] = []
        at, fault = 0, ""
        while True:
            quoted, value = field.match(record, at), ""
            if quoted:
                value, at = escaped.sub(lambda found: found[1], quoted[1]), quoted.end()
            elif record.startswith(self.quote, at):
                return [*values, record[at + 1 :]], rejects.UNCLOSED_QUOTE
            stop = record.find(self.separator, at)
            rest = record[at:] if stop < 0 else record[at:stop]
            if quoted and rest:
                fault = "text after a closing quote"
            elif self.escape:
                rest = rest.replace(self.escape + self.quote, self.quote)
            elif self.separator != TAB and BACKSLASH + self.quote in rest:
                fault = "a backslash before a quote"
            values.append(value + rest)
            if stop < 0:
                return values, fault
            at = stop + 1


@functools.cache
def _quoted(quote: str, escape: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """What matches a quoted value, and an escaped character in it."""
    mark, by = re.escape(quote), re.escape(escape)
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
        self._width, self._headed = width, not width
        self._use(dialects[0])
        self._row = 0
        self._open = b""  # the open record, while the dialect is not decided
        self._restart()

    def _use(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self._mark, ends = dialect.quote.encode(), b"\n\r" if dialect.end == "\r" else b"\n"
        mark, escape = re.escape(self._mark), re.escape(dialect.escape.encode())
        before = rb"(?<=[%s%s])" % (ends, re.escape(dialect.separator.encode()))
        self._stop = re.compile(b"[%s]" % ends + (rb"|" + before + mark if mark else b""))
        self._inside = re.compile(b"[%s%s]" % (mark, escape)) if mark else self._stop
        # a quote that several dialects read differently: after a backslash, or between tabs any
        self._doubt = re.compile(rb"\\" + mark if mark else rb'(?:^|(?<=[\t\r\n]))"')

    def _restart(self) -> None:
        """Be at the beginning of a record."""
        self._before = b"\n"  # the byte before the chunk
        self._quoted = False  # inside a quoted value
        self._quote = False  # the last byte was a quote in a quoted value; the next one decides
        self._escape = False  # the last byte was an escape in a quoted value

    def begin(self, header: bytes = b"") -> None:
        """Be at the first record, after a header."""
        self._restart()
        self._row, self._open = 0, b""
        self._width = len(self.dialect.names(header)) if header else self._width

    @property
    def unclosed(self) -> bool:
        """Whether the input ended inside a quoted value."""
        return self._quoted and not self._quote

    def __call__(self, chunk: bytes) -> Scan:
        """The ends of records in the next chunk."""
        if not self._mark and self.dialect.end == "\n":
            found = line_ends(np.frombuffer(chunk, np.uint8)) + 1
            return self._counted(chunk, found)
        data, at = self._before + chunk, 1
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
        """The chunks of a file, each after the dialect is decided if that matters in it.

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
        # from the record of this quote on, before which all dialects agree
        scanned = copy.copy(self)
        starts = [0, *(scanned(chunk)[0] + len(self._open)).tolist()]
        begin = max(start for start in starts if start <= doubt.start())
        width = self._width or len(self.dialect.names(data[: (*starts, len(data))[1]]))
        sample, whole = data[begin:] + following, not following
        header = self._headed and not self._width and not begin
        possible = [self.dialect, *self._others]
        gains = [_gain(d, sample, width, whole=whole, header=header) for d in possible]
        self._others = ()
        self._use(possible[gains.index(max(gains))])
        if self._open:  # an escape may be its last byte
            row = self._row
            self._restart()
            self(self._open)
            self._row = row


def _gain(dialect: Dialect, sample: bytes, width: int, *, whole: bool, header: bool) -> int:
    """How many records speak for a dialect, less those that speak against it.

    Against it are quotes that are not closed or not escaped, and other numbers of values than the
    table's. For quotes between tabs is a quoted value that holds a quote, a tab, or a line end in
    lines that have not the table's columns; and any quoted value if all names of the header
    are quoted, or without a header all values.
    """
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
    gain, some, fully = 0, 0, list[bool]()
    for begin, end in itertools.pairwise(ends):
        record = sample[begin:end].decode(errors="replace").strip("\r\n")
        values, fault = dialect.values(record)
        if fault or (record and len(values) != width):
            gain -= 1
        elif record and between_tabs:
            found = between_tabs.findall(record)
            lines = re.split("\r\n|\r|\n", record)
            broken = any(line.count(TAB) + 1 != width for line in lines)
            gain += any(
                dialect.quote in value or (broken and re.search("[\t\r\n]", value))
                for value in found
            )
            some += bool(found)
            fully.append(len(found) == len(values))
    every = all(fully[:1]) if header else width > 1 and all(fully)
    return gain + some * every
