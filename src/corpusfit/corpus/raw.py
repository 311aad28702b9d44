"""Rows with their raw bytes, so that rows written to other files keep all their fields."""

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

_HEADER_SIZES = {"csv": csv.header_size, "tsv": csv.header_size, "columns": pairs.columns_mark_size}


def header(source: Source, plan: ReadPlan) -> bytes:
    """The header of a CSV, a TSV or pairs in named columns, without its line end; else empty."""
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
    """Every row of a shard with its raw bytes, without the line end.

    Rows of Parquet files and of two line-aligned files have no bytes of their own: theirs are
    empty.

    Args:
        shard: one of `shards(sources, plan)`.
        plan: the same plan.

    Raises:
        InputError: the file that holds the shard's bytes cannot be read.
    """
    shard = in_hand(shard)
    found = rows(shard, plan)
    if shard.format in ("parquet", "moses"):
        yield from ((row, b"") for row in found)
        return
    size_of_head = _HEADER_SIZES.get(shard.format)
    head = size_of_head(shard.data, shard.format) if size_of_head else 0
    data = memoryview(shard.data)[head:]
    end = Reject(-1, shard.first_byte + len(data), "")
    for row, following in pairwise([*found, end]):
        raw = bytes(data[row.byte - shard.first_byte : following.byte - shard.first_byte])
        raw = raw.removeprefix(BOM) if row.byte == 0 else raw
        yield row, raw.rstrip(b"\r\n")
