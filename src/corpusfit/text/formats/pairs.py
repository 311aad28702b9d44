"""Aligned pairs: two columns of a TSV, or two files with a translation in the same line.

What: `pair:FILE.tsv` names the first two columns of a file without a header, `pair:FILE.tsv:de,en`
two columns by their names in the header, `pair:TEXTS,TRANSLATIONS` two files (the Moses format).
The first holds the text, the second its translation, which the row carries as a field.
Why: many parallel corpora are published in these forms, and whoever selects or splits by the texts
needs their translations with them.
Trade-off: lines are split at tabs only; quotes are text, as in published parallel corpora. Of two
files a worker reads both in step from their beginning, because a byte offset in one says nothing
about the other; both are read once before any work, to check that they have the same number
of lines. The first line of a block of columns holds the numbers of the two, so that it can be
parsed alone; a block of two files holds their lines in turn.
Reference: Koehn et al. (2007), Moses: Open Source Toolkit for Statistical Machine Translation.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from corpusfit.core.artifacts import user_path
from corpusfit.core.credentials import registered
from corpusfit.core.errors import InputError, bad_setting
from corpusfit.core.plan import PAIR, ReadPlan
from corpusfit.core.types import Document, Reason, Reject, Shard, Source
from corpusfit.text import rejects
from corpusfit.text.contract import Named
from corpusfit.text.cutting import BOM, Block, Chunks, Lines, Text, cut, lines_of
from corpusfit.text.fields import Row, from_value
from corpusfit.text.files import COMPRESSIONS, Stream, is_url, unpacked_name

_ARCHIVE = "|".join(COMPRESSIONS)
_TSV = re.compile(rf"(.+\.tsv(?:\.(?:{_ARCHIVE}))?)(?::([^,:]+),([^,:]+))?", re.IGNORECASE)
_FORMS = (
    "pair:TEXTS,TRANSLATIONS (two files, aligned by lines), pair:FILE.tsv (its first two columns) "
    "or pair:FILE.tsv:NAME,NAME (two columns of its header)"
)
_NAME = re.compile(r"[\w-]+")


class _Pairs(Named):
    """A format of aligned pairs; the form of an input decides which."""

    prefix = "pair:"
    parallel = True
    named_fields = False

    def find(self, input_name: str, setting: str) -> list[Source]:
        """Parse an input into a source without name, size and fingerprint."""
        return [self._parsed(input_name, setting, Path())[0]]

    def located(self, input_name: str, home: Path) -> str:
        """The same input with absolute paths; raises as `find` does."""
        source, mark = self._parsed(input_name, "The input", home)
        return self.prefix + mark.join(filter(None, (source.url, source.translation)))

    def fingerprint(self, source: Source, digests: Sequence[str]) -> str:
        """The fingerprints of the files, and the names of the columns, combined."""
        columns = "" if source.translation in self.files(source) else source.translation
        return hashlib.blake2b("\n".join([columns, *digests]).encode(), digest_size=16).hexdigest()

    def _parsed(self, input_name: str, setting: str, home: Path) -> tuple[Source, str]:
        """The source, and the mark between its two halves in an input."""
        rest = _entrusted(input_name.removeprefix(self.prefix))
        tsv = _TSV.fullmatch(rest)
        if tsv:
            columns = f"{tsv[2]},{tsv[3]}" if tsv[2] else ""
            url = _absolute(tsv[1], home)
            return Source(
                "", url, "columns", unpacked_name(url)[1], 0, "", translation=columns
            ), ":"
        cuts = [(rest[: m.start()], rest[m.end() :]) for m in re.finditer(",", rest)]
        if len(cuts) > 1:  # commas in the names of files
            cuts = [cut for cut in cuts if all(Path(_absolute(f, home)).is_file() for f in cut)]
        if len(cuts) != 1 or not all(cuts[0]):
            raise bad_setting(setting, _FORMS, input_name)
        first, second = (_absolute(file, home) for file in cuts[0])
        return Source("", first, "moses", unpacked_name(first)[1], 0, "", translation=second), ","


def side_names(*names: str) -> tuple[str, str]:
    """The names of the two sides; `text` and `translation` if they do not suit file names."""
    fine = len(set(names)) == 2 and all(map(_NAME.fullmatch, names))
    return (names[0], names[1]) if fine else PAIR


_URLS = re.compile(
    r"""(?P<url>[a-z][a-z0-9+.-]*://.*?)  # up to
        (?=,[a-z][a-z0-9+.-]*://          # the second file,
        |:[^:,/?\#@=&]+,[^:,/?\#@=&]+$    # or the names of two columns
        |$)""",
    re.IGNORECASE | re.VERBOSE,
)


def _entrusted(names: str) -> str:
    """The URLs of an input by their public names; the commas in a query separate nothing."""
    return _URLS.sub(lambda match: registered(match["url"]), names)


def _absolute(file: str, home: Path) -> str:
    """A file's absolute path, or its URL."""
    return file if is_url(file) else str((home / user_path(file)).absolute())


class LineReader:
    """The lines of a stream, a few at a time."""

    def __init__(self, stream: Chunks, plan: ReadPlan) -> None:
        self._blocks = cut(stream, Lines(), plan)
        self._lines: list[bytes] = []
        self._at = 0
        self._reasons: list[Reason] = []

    def take(self, max_lines: int) -> tuple[list[bytes], Reason | None]:
        """The next lines, and the reject reason of the line after them, if it has one."""
        while self._at == len(self._lines) and not self._reasons:
            block = next(self._blocks, None)
            if block is None:
                return [], None
            self._lines = lines_of(block.data)
            self._at = 0
            self._reasons = [reject.reason for reject in block.rejects]
        taken = self._lines[self._at : self._at + max_lines]
        self._at += len(taken)
        reason = None
        if self._reasons and self._at == len(self._lines) and len(taken) < max_lines:
            reason = self._reasons.pop(0)
        return taken, reason


def pair_of(row: int, byte: int, text: bytes, translation: bytes, plan: ReadPlan) -> Row:
    """Make a row of two raw lines, which must both be usable.

    Its text is the first of them, or the second if the plan's text field is `translation`; the row
    carries the other one.
    """
    text = text.removeprefix(BOM)
    translation = translation.removeprefix(BOM)
    if not text.strip() and not translation.strip():
        return Reject(row, byte, rejects.EMPTY_LINE)
    first = _text(row, byte, text)
    second = _text(row, byte, translation)
    if isinstance(first, Reject):
        return first
    if isinstance(second, Reject):
        return replace(second, reason=rejects.in_translation(second.reason))
    if plan.text_field == PAIR[1]:
        return replace(second, fields={PAIR[0]: first.text})
    return replace(first, fields={PAIR[1]: second.text})


def _text(row: int, byte: int, line: bytes) -> Document | Reject:
    try:
        return from_value(row, byte, line.removesuffix(b"\r").decode())
    except UnicodeDecodeError:
        return Reject(row, byte, rejects.INVALID_UTF8)


class Columns(_Pairs):
    """Two columns of a TSV; a side is named like its column."""

    name = "columns"
    written = "tsv"

    def blocks(self, source: Source, plan: ReadPlan) -> Iterator[Block]:
        """Blocks of whole lines; the first line of each has the two columns' numbers and names."""
        numbers = self._numbers(source, plan, "The input")
        names = source.translation.replace(",", "\t").encode()
        first = b"%d %d\t%s\n" % (*numbers, names)
        headers = int(bool(source.translation))
        for block in cut(Text(Stream(source, plan), plan), Lines(), plan):
            data = block.data
            row = block.first_row
            byte = block.first_byte
            if headers and row == 0:
                header = data.partition(b"\n")[0]
                data = data[len(header) + 1 :]
                byte = byte + len(header) + 1
                if not data and not block.rejects:  # a header that fills a block
                    continue
            else:
                row -= headers
            rejected = tuple(replace(r, row=r.row - headers) for r in block.rejects)
            yield Block(row, byte, first + data, rejected, block.position)

    def parse(self, shard: Shard, plan: ReadPlan) -> Iterator[Row]:
        """Rows of one shard of a TSV; a row with too few columns lacks a text or a translation."""
        first, *lines = lines_of(shard.data)
        numbers, *names = first.split(b"\t")
        text_at, translation_at = map(int, numbers.split())
        byte = shard.first_byte
        for row, line in enumerate(lines, shard.first_row):
            values = line.removesuffix(b"\r").removeprefix(BOM).split(b"\t")
            text, translation = (
                values[at] if at < len(values) else b"" for at in (text_at, translation_at)
            )
            if [text, translation] == names:
                yield Reject(row, byte, rejects.REPEATED_HEADER)
            else:
                yield pair_of(row, byte, text, translation, plan)
            byte += len(line) + 1

    def head(self, data: bytes, plan: ReadPlan) -> int:
        del plan
        return data.find(b"\n") + 1

    def header(self, source: Source, plan: ReadPlan) -> bytes:
        """The first line of a TSV with named columns, without its line end; else empty."""
        if not source.translation:
            return b""
        lines, _ = LineReader(Text(Stream(source, plan), plan), plan).take(1)
        return lines[0].removeprefix(BOM).removesuffix(b"\r") if lines else b""

    def check(self, source: Source, plan: ReadPlan, setting: str) -> None:
        self._numbers(source, plan, setting)

    def sides(self, source: Source) -> tuple[str, str]:
        return side_names(*source.translation.split(","))

    def _numbers(self, source: Source, plan: ReadPlan, setting: str) -> tuple[int, int]:
        """Numbers of the TSV columns that hold the text and the translation."""
        if not source.translation:
            return 0, 1
        names = self.header(source, plan).decode(errors="replace").split("\t")
        wanted = source.translation.split(",")
        missing = [name for name in wanted if name not in names]
        if missing:
            raise InputError(
                f"{setting} must name two columns of {source.url}; its header has no column "
                f"{missing[0]!r}, only {', '.join(names[:8])}. Omit the names for a file without a "
                "header."
            )
        first, second = (names.index(name) for name in wanted)
        return first, second


class Moses(_Pairs):
    """Two line-aligned files; a side is named by its file's last suffix (`de`, `en`)."""

    name = "moses"

    def blocks(self, source: Source, plan: ReadPlan) -> Iterator[Block]:
        """Blocks of whole rows; a row is a line of the first file, then its line of the second."""
        # blocks end where blocks of the first file alone would end, or earlier
        first, second = _two(source, plan)
        others = LineReader(second, plan)
        row = 0
        for block in cut(first, Lines(), plan):
            lines = lines_of(block.data)
            at = 0
            byte = block.first_byte
            while at < len(lines):
                translations, reason = others.take(len(lines) - at)
                if not translations and not reason:
                    if not second.problem:
                        raise _uneven(self.files(source), row, first_is_longer=True)
                    return
                texts = lines[at : at + len(translations)]
                after = byte + sum(map(len, texts)) + len(texts)
                rejected = []
                if reason:
                    why = rejects.in_translation(reason)
                    rejected = [Reject(row + len(texts), after, why)]
                position = block.position + second.position
                parts = [b"\n"] * (4 * len(texts))  # the lines of both files in turn
                parts[::4] = texts
                parts[2::4] = translations
                data = b"".join(parts)
                yield Block(row, byte, data, tuple(rejected), position)
                at += len(texts)
                row += len(texts)
                byte = after
                if reason:
                    byte += len(lines[at]) + 1
                    at += 1
                    row += 1
            for reject in block.rejects:
                if not any(others.take(1)) and not (first.problem or second.problem):
                    raise _uneven(self.files(source), row, first_is_longer=True)
                rejected = [Reject(row, reject.byte, reject.reason)]
                position = block.position + second.position
                yield Block(row, reject.byte, b"", tuple(rejected), position)
                row += 1
        if any(others.take(1)) and not (first.problem or second.problem):
            raise _uneven(self.files(source), row, first_is_longer=False)

    def parse(self, shard: Shard, plan: ReadPlan) -> Iterator[Row]:
        lines = lines_of(shard.data)
        byte = shard.first_byte
        for at in range(0, len(lines), 2):
            yield pair_of(shard.first_row + at // 2, byte, lines[at], lines[at + 1], plan)
            byte += len(lines[at]) + 1

    def check(self, source: Source, plan: ReadPlan, setting: str) -> None:
        """Raise `InputError` if the files differ in their number of lines; it names the line."""
        del setting
        counted = [_counted(side) for side in _two(source, plan)]
        if None not in counted and counted[0] != counted[1]:
            lines = [n for n in counted if n is not None]
            raise _uneven(self.files(source), min(lines), first_is_longer=lines[0] > lines[1])

    def files(self, source: Source) -> list[str]:
        return [source.url, source.translation]

    def sides(self, source: Source) -> tuple[str, str]:
        """The last suffixes of both files."""
        stems = [unpacked_name(posixpath.basename(url))[0] for url in self.files(source)]
        return side_names(*(stem.rpartition(".")[2] for stem in stems))


def _counted(text: Text) -> int | None:
    """Number of lines of a file; None if it cannot be unpacked to its end."""
    lines = 0
    last = b"\n"
    for chunk in text:
        lines += chunk.count(b"\n")
        last = chunk[-1:] or last
    return None if text.problem else lines + (last != b"\n")


def _two(source: Source, plan: ReadPlan) -> tuple[Text, Text]:
    """Both line-aligned files."""
    other = replace(
        source, url=source.translation, compression=unpacked_name(source.translation)[1]
    )
    return Text(Stream(source, plan), plan), Text(Stream(other, plan), plan)


def _uneven(files: list[str], lines: int, *, first_is_longer: bool) -> InputError:
    long, short = files if first_is_longer else files[::-1]
    return InputError(
        f"Line-aligned files must have the same number of lines; {short} ends after line "
        f"{lines:,}, and {long} has a line {lines + 1:,}. Look for a missing or split line before "
        "it and repair the file."
    )
