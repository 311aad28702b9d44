"""Aligned pairs in two columns of a TSV.

What: `pair:FILE.tsv` names the first two columns of a file without a header, `pair:FILE.tsv:de,en`
two columns by their names in the header. The first holds the text, the second its translation.
Why: many parallel corpora are published in this form.
Trade-off: lines are split at tabs only; quotes are text, as in published parallel corpora. The
first line of each block holds the numbers of the two columns, so that it can be parsed alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from corpusfit.core.errors import InputError
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Shard, Source
from corpusfit.text.cutting import BOM, Block, Lines, Text, cut, lines_of
from corpusfit.text.fields import Row
from corpusfit.text.files import Stream
from corpusfit.text.pairs import LineReader, Pairs, pair_of, side_names


class Columns(Pairs):
    """Two columns of a TSV; a side is named like its column."""

    name = "columns"
    written = "tsv"

    def blocks(self, source: Source, plan: ReadPlan) -> Iterator[Block]:
        """Blocks of whole lines; the first line of each holds the numbers of the two columns."""
        first = b"%d %d\n" % self._numbers(source, plan, "The input")
        headers = int(bool(source.translation))
        for block in cut(Text(Stream(source, plan), plan), Lines(), plan):
            data, row, byte = block.data, block.first_row, block.first_byte
            if headers and row == 0:
                header = data.partition(b"\n")[0]
                data, byte = data[len(header) + 1 :], byte + len(header) + 1
            else:
                row -= headers
            rejected = tuple(replace(r, row=r.row - headers) for r in block.rejects)
            yield Block(row, byte, first + data, rejected, block.position)

    def parse(self, shard: Shard, plan: ReadPlan) -> Iterator[Row]:
        """Rows of one shard of a TSV; a row with too few columns lacks a text or a translation."""
        first, *lines = lines_of(shard.data)
        text_at, translation_at = map(int, first.split())
        byte = shard.first_byte
        for row, line in enumerate(lines, shard.first_row):
            values = line.removesuffix(b"\r").split(b"\t")
            text, translation = (
                values[at] if at < len(values) else b"" for at in (text_at, translation_at)
            )
            yield pair_of(row, byte, text, translation, plan)
            byte += len(line) + 1

    def head(self, data: bytes, plan: ReadPlan) -> int:
        """Bytes of the column numbers before a block's lines."""
        del plan
        return data.find(b"\n") + 1

    def header(self, source: Source, plan: ReadPlan) -> bytes:
        """The first line of a TSV with named columns, without its line end; else empty."""
        if not source.translation:
            return b""
        lines, _ = LineReader(Text(Stream(source, plan), plan), plan).take(1)
        return lines[0].removeprefix(BOM).removesuffix(b"\r") if lines else b""

    def check(self, source: Source, plan: ReadPlan, setting: str) -> None:
        """Raise `InputError` for a named column that is not in the header."""
        self._numbers(source, plan, setting)

    def sides(self, source: Source) -> tuple[str, str]:
        """The names of both columns."""
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
