"""Aligned pairs: texts with one translation each, in two line-aligned files or in one TSV.

What: `pair:TEXTS,TRANSLATIONS` names two files where line n of one translates line n of the other
(the Moses format), `pair:FILE.tsv` the first two columns of a file without a header, and
`pair:FILE.tsv:de,en` two columns by their names in the header. The text is a line of the first
side; its translation is in the same row.
Why: whoever selects or splits one side needs the other side with it.
Trade-off: one process reads both files in step and feeds the workers, because a byte offset in one
file says nothing about the other. TSV lines are split at tabs only; quotes are text, as in
published parallel corpora. Both files are read once before any work, to check that they have the
same number of lines.
Reference: Koehn et al. (2007), Moses: Open Source Toolkit for Statistical Machine Translation.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from corpusfit.corpus import rejects
from corpusfit.corpus.cutting import BOM, Block, Lines, cut
from corpusfit.corpus.fields import Row, from_value
from corpusfit.corpus.files import is_url
from corpusfit.corpus.jsonl import lines_of
from corpusfit.corpus.survey import ScanChunks, survey
from corpusfit.corpus.unpack import COMPRESSIONS, Stream
from corpusfit.errors import InputError, bad_setting
from corpusfit.plan import ReadPlan
from corpusfit.types import Document, Reject, Shard, Source

PREFIX = "pair:"
_HERE = Path()
_ARCHIVE = "|".join(COMPRESSIONS)
_TSV = re.compile(rf"(.+\.tsv(?:\.(?:{_ARCHIVE}))?)(?::([^,:]+),([^,:]+))?", re.IGNORECASE)
_FORMS = (
    f"{PREFIX}TEXTS,TRANSLATIONS (two files, aligned by lines), {PREFIX}FILE.tsv (its first two "
    f"columns) or {PREFIX}FILE.tsv:NAME,NAME (two columns of its header)"
)
_NAME = re.compile(r"[\w-]+")
_SIDES = ("text", "translation")


def is_pair(input_name: str) -> bool:
    """Whether an input names aligned pairs."""
    return input_name.startswith(PREFIX)


def whole(input_name: str, home: Path = _HERE) -> str:
    """The same input with absolute paths, resolved from the folder `home`.

    Raises:
        UsageError: the input has none of the allowed forms.
    """
    source = _parsed(input_name, "The input", home)
    if source.format == "moses":
        return f"{PREFIX}{source.url},{source.translation}"
    return PREFIX + source.url + (f":{source.translation}" if source.translation else "")


def files_of(source: Source) -> list[str]:
    """The stored files of a source: two for line-aligned files, else one."""
    return [source.url, source.translation] if source.format == "moses" else [source.url]


def sides(sources: Sequence[Source]) -> tuple[str, str]:
    """Names of the two sides, from the files' last suffixes or the columns' names (`de`, `en`).

    `text` and `translation` if the sources disagree, or if the names do not suit file names.
    """
    named = {_sides_of(source) for source in sources}
    return named.pop() if len(named) == 1 else _SIDES


def _sides_of(source: Source) -> tuple[str, str]:
    if source.format == "moses":
        stems = [_unpacked_name(url) for url in files_of(source)]
        first, second = (stem.rpartition(".")[2] for stem in stems)
    else:
        first, _, second = source.translation.partition(",")
    fine = first != second and all(_NAME.fullmatch(name) for name in (first, second))
    return (first, second) if fine else _SIDES


def find(inputs: Sequence[str], plan: ReadPlan, scan: ScanChunks, setting: str) -> list[Source]:
    """Describe the aligned pairs that the inputs name, by the path of their first file.

    Args:
        inputs: inputs for which `is_pair` is true.
        plan: how rows will be read.
        scan: scans the stored bytes.
        setting: name of the setting, for messages.

    Raises:
        UsageError: an input has none of the allowed forms.
        InputError: a file cannot be read, lacks a named column, or two files differ in their number
            of lines; the message names the line.
    """
    found = list(dict.fromkeys(_parsed(one, setting) for one in inputs))
    files = [url for source in found for url in files_of(source)]
    seen = iter(survey([(url, False) for url in files], plan, scan))
    common = posixpath.commonpath([posixpath.dirname(s.url) or "." for s in found]) if found else ""
    sources = []
    for source in found:
        looks = [next(seen) for _ in files_of(source)]
        _check(source, plan, setting)
        sources.append(
            replace(
                source,
                name=posixpath.relpath(source.url, common),
                size=sum(size for _, size, _ in looks),
                fingerprint=combined(source, [digest for digest, _, _ in looks]),
            )
        )
    return sources


def combined(source: Source, digests: Sequence[str]) -> str:
    """Combine the fingerprints of a source's files, and the names of its columns, into one."""
    if source.format not in ("moses", "columns"):
        return digests[0]
    named = source.translation if source.format == "columns" else ""
    return hashlib.blake2b("\n".join([named, *digests]).encode(), digest_size=16).hexdigest()


def _parsed(input_name: str, setting: str, home: Path = _HERE) -> Source:
    """Parse an input into a source without size and fingerprint."""
    rest = input_name.removeprefix(PREFIX)
    tsv = _TSV.fullmatch(rest)
    if tsv:
        named = f"{tsv[2]},{tsv[3]}" if tsv[2] else ""
        url = _absolute(tsv[1], home)
        return Source("", url, "columns", _archive(url), 0, "", translation=named)
    files = _two_files(rest, home)
    if files is None:
        raise bad_setting(setting, _FORMS, input_name)
    first, second = (_absolute(file, home) for file in files)
    return Source("", first, "moses", _archive(first), 0, "", translation=second)


def _two_files(rest: str, home: Path) -> tuple[str, str] | None:
    """The two file names around the comma; among several commas, the one between two files."""
    cuts = [(rest[: m.start()], rest[m.end() :]) for m in re.finditer(",", rest)]
    if len(cuts) > 1:
        cuts = [cut for cut in cuts if all(Path(_absolute(file, home)).is_file() for file in cut)]
    return cuts[0] if len(cuts) == 1 and all(cuts[0]) else None


def _absolute(file: str, home: Path) -> str:
    """A file's absolute path, or its URL."""
    return file if is_url(file) else str((home / Path(file).expanduser()).absolute())


def _archive(url: str) -> str:
    last = url.lower().rpartition(".")[2]
    return last if last in COMPRESSIONS else ""


def _unpacked_name(url: str) -> str:
    """A file's name without its compression suffix."""
    name = posixpath.basename(url)
    return name.rpartition(".")[0] if _archive(url) else name


def _check(source: Source, plan: ReadPlan, setting: str) -> None:
    """Check for errors that would otherwise stop the run later."""
    if source.format == "columns":
        _column_numbers(source, plan, setting)
        return
    counted = [_counted(side) for side in _two(source, plan)]
    if None not in counted and counted[0] != counted[1]:
        lines = [n for n in counted if n is not None]
        raise _uneven(source, min(lines), first_is_longer=lines[0] > lines[1])


def _counted(stream: Stream) -> int | None:
    """Number of lines of a stream; None if it cannot be unpacked to its end."""
    lines, last = 0, b"\n"
    for chunk in stream:
        lines += chunk.count(b"\n")
        last = chunk[-1:] or last
    return None if stream.problem else lines + (last != b"\n")


def _two(source: Source, plan: ReadPlan) -> tuple[Stream, Stream]:
    """Streams of both line-aligned files."""
    other = replace(source, url=source.translation, compression=_archive(source.translation))
    return Stream(source, plan), Stream(other, plan)


def _uneven(source: Source, lines: int, *, first_is_longer: bool) -> InputError:
    long, short = files_of(source) if first_is_longer else files_of(source)[::-1]
    return InputError(
        f"Line-aligned files must have the same number of lines; {short} ends after line "
        f"{lines:,}, and {long} has a line {lines + 1:,}. Look for a missing or split line before "
        "it and repair the file."
    )


def moses_blocks(source: Source, plan: ReadPlan) -> Iterator[Block]:
    """Blocks of whole rows; a row is a line of the first file, then its line of the second.

    Blocks end where blocks of the first file alone would end, or earlier.

    Raises:
        InputError: one file ends before the other.
    """
    first, second = _two(source, plan)
    others, row = _Lines(second, plan), 0
    for block in cut(first, Lines(), plan):
        lines, at, byte = lines_of(block.data), 0, block.first_byte
        while at < len(lines):
            beside, reason = others.take(len(lines) - at)
            if not beside and not reason:
                if not second.problem:
                    raise _uneven(source, row, first_is_longer=True)
                return
            here = lines[at : at + len(beside)]
            after = byte + sum(map(len, here)) + len(here)
            rejected = [Reject(row + len(here), after, rejects.in_translation(reason))]
            position = block.position + second.position
            data = _interleaved(here, beside)
            yield Block(row, byte, data, tuple(rejected) if reason else (), position)
            at, row, byte = at + len(here), row + len(here), after
            if reason:
                byte += len(lines[at]) + 1
                at, row = at + 1, row + 1
        for reject in block.rejects:
            if not any(others.take(1)) and not (first.problem or second.problem):
                raise _uneven(source, row, first_is_longer=True)
            rejected = [Reject(row, reject.byte, reject.reason)]
            position = block.position + second.position
            yield Block(row, reject.byte, b"", tuple(rejected), position)
            row += 1
    if any(others.take(1)) and not (first.problem or second.problem):
        raise _uneven(source, row, first_is_longer=False)


def _interleaved(lines: list[bytes], others: list[bytes]) -> bytes:
    """The lines of both files in turn, each with its line end."""
    parts = [b"\n"] * (4 * len(lines))
    parts[::4], parts[2::4] = lines, others
    return b"".join(parts)


class _Lines:
    """The lines of a stream, a few at a time.

    Args:
        stream: the unpacked file.
        plan: the row limit.
    """

    def __init__(self, stream: Stream, plan: ReadPlan) -> None:
        self._blocks = cut(stream, Lines(), plan)
        self._lines: list[bytes] = []
        self._at = 0
        self._reasons: list[str] = []

    def take(self, most: int) -> tuple[list[bytes], str]:
        """The next lines, and the reject reason of the line after them, if it has one.

        Returns:
            At most `most` lines and a reason or an empty string; both empty at the end.
        """
        while self._at == len(self._lines) and not self._reasons:
            block = next(self._blocks, None)
            if block is None:
                return [], ""
            self._lines, self._at = lines_of(block.data), 0
            self._reasons = [reject.reason for reject in block.rejects]
        taken = self._lines[self._at : self._at + most]
        self._at += len(taken)
        reason = ""
        if self._reasons and self._at == len(self._lines) and len(taken) < most:
            reason = self._reasons.pop(0)
        return taken, reason


def moses_parse(shard: Shard, plan: ReadPlan) -> Iterator[Row]:
    """The rows of one shard of line-aligned files."""
    del plan
    lines, byte = lines_of(shard.data), shard.first_byte
    for at in range(0, len(lines), 2):
        yield _pair(shard.first_row + at // 2, byte, lines[at], lines[at + 1])
        byte += len(lines[at]) + 1


def columns_blocks(source: Source, plan: ReadPlan) -> Iterator[Block]:
    """Blocks of whole lines; the first line of each holds the numbers of the two columns.

    Raises:
        InputError: a named column is not in the header.
    """
    places = _column_numbers(source, plan, "The input")
    first = b"%d %d\n" % places
    headers = int(bool(source.translation))
    for block in cut(Stream(source, plan), Lines(), plan):
        data, row, byte = block.data, block.first_row, block.first_byte
        if headers and row == 0:
            header = data.partition(b"\n")[0]
            data, byte = data[len(header) + 1 :], byte + len(header) + 1
        else:
            row -= headers
        rejected = tuple(replace(r, row=r.row - headers) for r in block.rejects)
        yield Block(row, byte, first + data, rejected, block.position)


def columns_parse(shard: Shard, plan: ReadPlan) -> Iterator[Row]:
    """Rows of one shard of a TSV; a row with too few columns lacks a text or a translation."""
    del plan
    first, *lines = lines_of(shard.data)
    text_at, translation_at = map(int, first.split())
    byte = shard.first_byte
    for row, line in enumerate(lines, shard.first_row):
        values = line.removesuffix(b"\r").split(b"\t")
        text, translation = (
            values[at] if at < len(values) else b"" for at in (text_at, translation_at)
        )
        yield _pair(row, byte, text, translation)
        byte += len(line) + 1


def columns_mark_size(data: bytes, form: str) -> int:
    """Size in bytes of what `columns_blocks` puts before a block's lines."""
    del form
    return data.find(b"\n") + 1


def columns_header(source: Source, plan: ReadPlan) -> bytes:
    """The first line of a TSV with named columns, without its line end; else empty."""
    if not source.translation:
        return b""
    lines, _ = _Lines(Stream(source, plan), plan).take(1)
    return lines[0].removeprefix(BOM).removesuffix(b"\r") if lines else b""


def _column_numbers(source: Source, plan: ReadPlan, setting: str) -> tuple[int, int]:
    """Numbers of the TSV columns that hold the text and the translation."""
    if not source.translation:
        return 0, 1
    names = columns_header(source, plan).decode(errors="replace").split("\t")
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


def _pair(row: int, byte: int, text: bytes, translation: bytes) -> Row:
    """Make a row of two raw lines; both sides must be usable."""
    if byte == 0:
        text, translation = text.removeprefix(BOM), translation.removeprefix(BOM)
    if not text.strip() and not translation.strip():
        return Reject(row, byte, rejects.EMPTY_LINE)
    found, other = _side(row, byte, text), _side(row, byte, translation)
    if isinstance(found, Reject):
        return found
    if isinstance(other, Reject):
        return replace(other, reason=rejects.in_translation(other.reason))
    return Document(row, byte, found.text, None, other.text)


def _side(row: int, byte: int, line: bytes) -> Document | Reject:
    try:
        return from_value(row, byte, line.removesuffix(b"\r").decode())
    except UnicodeDecodeError:
        return Reject(row, byte, rejects.INVALID_UTF8)
