"""Rows as they stand in their files, so that what was sorted into others keeps all its fields.

What: `raw_rows` gives every row of a shard with its raw bytes, `header` what stands before the rows
of a source.
Why: labels and whatever else a row has beside its text belong to it; reading keeps only the text.
Trade-off: rows of `.parquet` have no bytes of their own, so of these only text and id are known.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from corpusfit.corpus import csv, pairs
from corpusfit.corpus.cutting import BOM
from corpusfit.corpus.fields import Row
from corpusfit.corpus.rows import in_hand, rows
from corpusfit.corpus.shards import shards
from corpusfit.plan import ReadPlan
from corpusfit.types import Reject, Shard, Source

_HEADS = {"csv": csv.header_size, "tsv": csv.header_size, "columns": pairs.columns_mark_size}


def header(source: Source, plan: ReadPlan) -> bytes:
    """The header of a `csv`, a `tsv` or of pairs in columns, without its line end; else nothing."""
    if source.format == "columns":
        return pairs.columns_header(source, plan)
    if source.format not in ("csv", "tsv"):
        return b""
    first = next(iter(shards([source], plan)), None)
    if first is None:
        return b""
    size = csv.header_size(first.data, source.format)
    return first.data[:size].removeprefix(BOM).rstrip(b"\r\n")


def raw_rows(shard: Shard, plan: ReadPlan) -> Iterator[tuple[Row, bytes]]:
    """Every row of a shard with its bytes, without the line end; none for what has no lines.

    Args:
        shard: one of `shards(sources, plan)`.
        plan: the same plan.

    Raises:
        InputError: its bytes lie in a file and cannot be read.
    """
    shard = in_hand(shard)
    found = rows(shard, plan)
    if shard.format in ("parquet", "moses"):
        yield from ((row, b"") for row in found)
        return
    size_of_head = _HEADS.get(shard.format)
    head = size_of_head(shard.data, shard.format) if size_of_head else 0
    data = memoryview(shard.data)[head:]
    end = Reject(-1, shard.first_byte + len(data), "")
    for row, following in pairwise([*found, end]):
        raw = bytes(data[row.byte - shard.first_byte : following.byte - shard.first_byte])
        raw = raw.removeprefix(BOM) if row.byte == 0 else raw
        yield row, raw.rstrip(b"\r\n")
