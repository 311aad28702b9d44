"""Plain text: documents between blank lines, one document per line, or one per file.

What: `by_lines` decides on a file for which the plan does not; it is then of the format `lines`.
`row` is the line on which a document begins, in every mode; a line of ASCII white
space, no-break and ideographic spaces is blank.
Why: an editor shows line numbers, so a document can be found by its row.
Trade-off: in the mode `blocks` row numbers have gaps, and blank lines are borders, not rows; in the
mode `lines` a blank line is a rejected row.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Documents, Reject, Shard, Source, texts_between
from corpusfit.kernels.cut import CLOSERS, FULLS, STOPS
from corpusfit.kernels.lines import document_texts, line_ends
from corpusfit.text import rejects
from corpusfit.text.contract import Format, completed, is_utf8, picked
from corpusfit.text.cutting import (
    BOM,
    Block,
    Lines,
    Scan,
    Scanner,
    Text,
    cut,
    line_feeds,
    lines_of,
)
from corpusfit.text.fields import Pick, Row, from_value
from corpusfit.text.files import Stream

_BLANK = rb"(?:[ \t\r\f\v]|\xc2\xa0|\xe3\x80\x80)*+"  # U+00A0 and U+3000
_BORDER = re.compile(rb"\n(?:%s(?:\n|\Z))++" % _BLANK)
_LEADING = re.compile(rb"(?:%s(?:\n|\Z))*+" % _BLANK)
_BLANK_LINE = re.compile(rb"%s\n" % _BLANK)
_BLANK_SO_FAR = re.compile(rb"%s(\xc2|\xe3\x80?)?" % _BLANK)
_MARK = re.compile(rb"^\xef\xbb\xbf", re.MULTILINE)  # files that were joined have several
# bytes that decide on it
_SEEN = 1 << 16
MANY = 20
"""Plain text files of which each may be a document."""
# fewest lines of a file of lines for each file there is, up to these
_FEWEST = 10
# most characters of the median line that is a text by itself, such as a sentence
_SHORT = 300
# lines for each blank one that is among them by chance
_STRAY = 100
# in text that is broken to a width: fraction of full lines, of lines that go on with a sentence in
# lower case, and of sentence ends for each line
_FULL = 0.7
_GOES_ON = 0.25
_SENTENCES = 0.1
_CLOSED = f"[{re.escape(STOPS + FULLS)}][{re.escape(CLOSERS)}]*"
_STOP = re.compile(rf"{_CLOSED}(?=\s|$)|[{FULLS}]")
_END = re.compile(rf"{_CLOSED}$")
_CURE = "use read.txt=lines to read one document per line"
_SPACES = np.zeros(256, np.bool_)
_SPACES[list(b" \t\r\n\f\v\xc2\xe3")] = True


class Txt(Format):
    """Plain text."""

    name = "txt"
    suffixes: ClassVar[tuple[str, ...]] = (".txt",)
    plain = joins = True
    named_fields = False

    def mode(self, plan: ReadPlan) -> str:
        """What is a document: `blocks`, `lines` or `file`."""
        return "blocks" if plan.txt == "auto" else plan.txt

    def blocks(self, source: Source, plan: ReadPlan) -> Iterator[Block]:
        text = Text(Stream(source, plan), plan)
        mode = self.mode(plan)
        if mode == "lines":
            yield from cut(text, Lines(), plan)
            return
        # no row ends before the file does
        no_ends = np.empty(0, np.int64), np.empty(0, np.int64)
        scanner: Scanner = (lambda _: no_ends) if mode == "file" else _BlankLines()
        for block in cut(text, scanner, plan, cure=_CURE):
            if block.rejects or not block.data.isspace():
                yield block

    def parse(self, shard: Shard, plan: ReadPlan) -> Iterator[Row]:
        data = shard.data
        row = shard.first_row
        byte = shard.first_byte
        mode = self.mode(plan)
        if mode == "file":
            document = _document(row, byte, data)
            yield from (document,) if document else ()
        elif mode == "lines":
            for number, line in enumerate(lines_of(data), row):
                yield _document(number, byte, line) or Reject(number, byte, rejects.EMPTY_LINE)
                byte += len(line) + 1
        else:
            leading = _LEADING.match(data)
            begin = leading.end() if leading else 0
            row += data.count(b"\n", 0, begin)
            while begin < len(data):
                border = _BORDER.search(data, begin)
                end, following = border.span() if border else (len(data), len(data))
                document = _document(row, byte + begin, data[begin:end])
                if document:
                    yield document
                row += data.count(b"\n", begin, following)
                begin = following

    def columns(
        self, shard: Shard, plan: ReadPlan, pick: Pick | None = None
    ) -> tuple[Documents, list[Reject]]:
        mode = self.mode(plan)
        if mode == "file":
            return super().columns(shard, plan, pick)
        data = np.frombuffer(shard.data, np.uint8)
        by_line = mode == "lines"
        out = np.empty(len(data) + 8, np.uint8)
        row, begins, stops, through, plain = document_texts(data, line_ends(data), by_line, out)
        numbers = shard.first_row + row

        def raw(i: int) -> bytes:
            return shard.data[begins[i] : stops[i]]

        def parse(i: int) -> Row | None:
            number = int(numbers[i])
            byte = shard.first_byte + int(begins[i])
            whole = _document(number, byte, raw(i))
            return whole or (Reject(number, byte, rejects.EMPTY_LINE) if by_line else None)

        if BOM in shard.data:
            marks = [match.start() for match in _MARK.finditer(shard.data)]
            plain[np.searchsorted(begins, marks, side="right") - 1] = False
        if not is_utf8(shard.data):
            plain &= np.array([is_utf8(raw(i)) for i in range(len(begins))], np.bool_)
        texts = texts_between(through, out)
        usable, rejected = completed(Documents(numbers, texts), plain, parse)
        return picked(usable, pick), rejected

    def joined(self, data: bytes, plan: ReadPlan) -> bytes | None:
        """The text with a last line end or line; None for one that has to stand alone."""
        mode = self.mode(plan)
        if mode == "file" or data.startswith(BOM):
            return None
        if mode == "lines":
            return data if not data or data.endswith(b"\n") else data + b"\n"
        return data + b"\n\n"


class TxtLines(Txt):
    """Plain text in which each line is a document, whatever the plan says of others."""

    name = "lines"
    suffixes = ()

    def mode(self, plan: ReadPlan) -> str:
        del plan
        return "lines"


def by_lines(start: bytes, files: int) -> bool | None:
    """Whether each line of a file is a text, by its first bytes; None if that is not clear.

    It is if the lines are short and hardly one is blank, unless they are those of paragraphs that a
    program has broken to a width. The more files there are, the more may each be a document, so
    the more lines it must have.
    """
    fewest = _FEWEST * min(files, MANY)
    start = line_feeds(start[:_SEEN].removeprefix(BOM))
    if start.count(b"\n") < fewest - 1:  # most of many small files
        return False
    raw = start.decode(errors="replace").strip()
    lines = [line.strip() for line in raw.split("\n")]
    texts = list(filter(None, lines))
    begins = zip(["", *lines], lines, strict=False)
    blocks = sum(not before and bool(line) for before, line in begins)
    if len(texts) < fewest or blocks == len(texts) or "\0" in raw or _are_broken(texts):
        return False
    short = sorted(map(len, texts))[len(texts) // 2] <= _SHORT
    return True if short and (blocks == 1 or len(texts) >= _STRAY * blocks) else None


def _are_broken(lines: list[str]) -> bool:
    """Whether sentences go on in the next line, or lines end where the next word is too long."""
    width = sorted(map(len, lines))[len(lines) * 9 // 10]
    full = goes_on = 0
    for line, following in itertools.pairwise(lines):
        # without spaces a line may begin with any character
        word = min(len(following.split(None, 1)[0]), width // 4)
        full += len(line) + word >= width
        goes_on += following[0].islower() and not _END.search(line)
    stops = sum(len(_STOP.findall(line)) for line in lines)
    at_end = sum(_END.search(line) is not None for line in lines)
    if 2 * at_end < stops and full >= _FULL * (len(lines) - 1):
        return True
    return stops >= _SENTENCES * len(lines) and goes_on >= _GOES_ON * len(lines)


def _document(row: int, byte: int, raw: bytes) -> Row | None:
    """The text without surrounding line ends and byte order marks; None if it is blank."""
    raw = _MARK.sub(b"", raw) if BOM in raw else raw
    raw = raw.rstrip(b" \t\r\n\f\v")
    if not raw:
        return None
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return Reject(row, byte, rejects.INVALID_UTF8)
    return from_value(row, byte, text.replace("\r\n", "\n"))


class _BlankLines:
    """Scanner of the mode `blocks`: a row ends with a blank line; row numbers are line numbers."""

    def __init__(self) -> None:
        self._row = 0
        # the open line's last character, if the chunk ended within it; None if it has text
        self._open: bytes | None = b""

    def __call__(self, chunk: bytes) -> Scan:
        codes = np.frombuffer(chunk, np.uint8)
        ends = np.flatnonzero(codes == 10).astype(np.int64) + 1
        starts = np.concatenate(([0], ends))
        candidates = np.flatnonzero(_SPACES[codes[starts[:-1]]])
        blank = np.zeros(len(ends), np.bool_)
        for i in candidates.tolist():
            blank[i] = _BLANK_LINE.fullmatch(chunk, starts[i], ends[i]) is not None
        opened = self._open
        rest = chunk[starts[-1] :]
        if len(ends):
            first = None if opened is None else opened + chunk[: ends[0]]
            blank[0] = first is not None and _BLANK_LINE.fullmatch(first) is not None
            opened = b""
        so_far = None if opened is None else _BLANK_SO_FAR.fullmatch(opened + rest)
        self._open = so_far and (so_far[1] or b"")
        numbers = self._row + np.arange(1, len(ends) + 1, dtype=np.int64)
        self._row += len(ends)
        return ends[blank], numbers[blank]
