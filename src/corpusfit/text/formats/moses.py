"""Aligned pairs in two files: line n of one translates line n of the other (the Moses format).

What: `pair:TEXTS,TRANSLATIONS` names both files. The text is a line of the first file; its
translation is in the same row. A shard holds lines of both files in turn.
Why: whoever selects or splits one side needs the other side with it.
Trade-off: one process reads both files in step and feeds the workers, because a byte offset in one
file says nothing about the other. Both files are read once before any work, to check that they have
the same number of lines.
Reference: Koehn et al. (2007), Moses: Open Source Toolkit for Statistical Machine Translation.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import replace

from corpusfit.core.errors import InputError
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Reject, Shard, Source
from corpusfit.text import rejects
from corpusfit.text.cutting import Block, Lines, Text, cut, lines_of
from corpusfit.text.fields import Row
from corpusfit.text.files import Stream, unpacked_name
from corpusfit.text.pairs import LineReader, Pairs, pair_of, side_names


class Moses(Pairs):
    """Two line-aligned files; a side is named by its file's last suffix (`de`, `en`)."""

    name = "moses"

    def blocks(self, source: Source, plan: ReadPlan) -> Iterator[Block]:
        """Blocks of whole rows; a row is a line of the first file, then its line of the second."""
        # blocks end where blocks of the first file alone would end, or earlier
        first, second = _two(source, plan)
        others, row = LineReader(second, plan), 0
        for block in cut(first, Lines(), plan):
            lines, at, byte = lines_of(block.data), 0, block.first_byte
            while at < len(lines):
                beside, reason = others.take(len(lines) - at)
                if not beside and not reason:
                    if not second.problem:
                        raise _uneven(self.files(source), row, first_is_longer=True)
                    return
                some = lines[at : at + len(beside)]
                after = byte + sum(map(len, some)) + len(some)
                rejected = [Reject(row + len(some), after, rejects.in_translation(reason))]
                position = block.position + second.position
                parts = [b"\n"] * (4 * len(some))  # the lines of both files in turn
                parts[::4], parts[2::4] = some, beside
                data = b"".join(parts)
                yield Block(row, byte, data, tuple(rejected) if reason else (), position)
                at += len(some)
                row += len(some)
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
        """The rows of one shard of line-aligned files."""
        lines, byte = lines_of(shard.data), shard.first_byte
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
        """Both files."""
        return [source.url, source.translation]

    def sides(self, source: Source) -> tuple[str, str]:
        """The last suffixes of both files."""
        stems = [unpacked_name(posixpath.basename(url))[0] for url in self.files(source)]
        return side_names(*(stem.rpartition(".")[2] for stem in stems))


def _counted(text: Text) -> int | None:
    """Number of lines of a file; None if it cannot be unpacked to its end."""
    lines, last = 0, b"\n"
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
