"""JSON lines: one object a line.

What: a block is raw lines; each is parsed alone, so that one bad line costs one row.
Why: orjson parses a line faster than any splitting in Python could prepare it.
Trade-off: `row` counts every line, blank ones too, so that it is the line an editor shows.
Reference: https://jsonlines.org
"""

from __future__ import annotations

from collections.abc import Iterator

import orjson

from corpusfit.corpus import rejects
from corpusfit.corpus.cutting import BOM, Block, Lines, cut
from corpusfit.corpus.fields import Row, from_mapping
from corpusfit.corpus.unpack import Stream
from corpusfit.plan import ReadPlan
from corpusfit.types import Reject, Shard, Source

__all__ = ["blocks", "lines_of", "parse"]


def blocks(source: Source, plan: ReadPlan) -> Iterator[Block]:
    """Runs of whole lines."""
    return cut(Stream(source, plan), Lines(), plan)


def parse(shard: Shard, plan: ReadPlan) -> Iterator[Row]:
    """The rows of one shard."""
    byte = shard.first_byte
    for row, line in enumerate(lines_of(shard.data), shard.first_row):
        try:
            record = orjson.loads(line)
        except orjson.JSONDecodeError:
            yield _failed(row, byte, line, plan)
        else:
            yield from_mapping(row, byte, record, plan)
        byte += len(line) + 1


def lines_of(data: bytes) -> list[bytes]:
    """The lines without their ends; a line end at the very end begins no line."""
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return lines


def _failed(row: int, byte: int, line: bytes, plan: ReadPlan) -> Row:
    """What is wrong with a line that is not JSON; a byte order mark is not."""
    if byte == 0 and line.startswith(BOM):
        line = line.removeprefix(BOM)
        try:
            return from_mapping(row, byte, orjson.loads(line), plan)
        except orjson.JSONDecodeError:
            pass
    if not line.strip():
        return Reject(row, byte, rejects.EMPTY_LINE)
    try:
        line.decode()
    except UnicodeDecodeError:
        return Reject(row, byte, rejects.INVALID_UTF8)
    return Reject(row, byte, rejects.MALFORMED_JSON)
