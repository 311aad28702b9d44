"""Read one shard: as rows (documents and rejects, in order), as columns, or as raw bytes."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from corpusfit.corpus.cutting import BOM
from corpusfit.corpus.fields import Pick, Row
from corpusfit.corpus.files import read_span
from corpusfit.corpus.registry import load
from corpusfit.plan import ReadPlan
from corpusfit.types import Documents, Reject, Shard


def in_hand(shard: Shard) -> Shard:
    """The shard with its raw bytes, read now if they are still in a file."""
    return replace(shard, data=read_span(shard.span), span=None) if shard.span else shard


def rows(shard: Shard, plan: ReadPlan) -> Iterator[Row]:
    """Yield every row of the shard once, as a `Document` or a `Reject`.

    A malformed row never raises; the caller applies `plan.strict`, because it knows the source's
    name. Rows know their ids and offsets, but are many times slower than the columns of
    `documents`.

    Args:
        shard: one of `shards(sources, plan)`.
        plan: the same plan; names the fields and the mode of `.txt` files.

    Raises:
        InputError: the file that holds the shard's bytes cannot be read.
    """
    parsed = load(shard.format).parse(in_hand(shard), plan)
    if not shard.rejects:
        return parsed
    return heapq.merge(parsed, shard.rejects, key=lambda row: row.row)


def documents(
    shard: Shard, plan: ReadPlan, pick: Pick | None = None, *, translations: bool = False
) -> tuple[Documents, list[Reject]]:
    """The usable rows of the shard as columns, and the rejects.

    Formats with one row per line skip the parsing of rows that `pick` does not choose. With
    `translations`, the texts are the translations of aligned pairs. Raises as `rows` does.
    """
    form = load(shard.format)
    found, rejected = form.columns(in_hand(shard), plan, pick, translations=translations)
    return found, sorted([*rejected, *shard.rejects], key=lambda r: r.row)


def raw_rows(shard: Shard, plan: ReadPlan) -> Iterator[tuple[Row, bytes]]:
    """Every row of a shard with its raw bytes, without the line end; raises as `rows` does.

    They are empty for formats whose rows are never written unchanged.
    """
    shard, form = in_hand(shard), load(shard.format)
    found = rows(shard, plan)
    if not form.written:
        yield from ((row, b"") for row in found)
        return
    data = memoryview(shard.data)[form.head(shard.data) :]
    end = Reject(-1, shard.first_byte + len(data), "")
    for row, following in pairwise([*found, end]):
        raw = bytes(data[row.byte - shard.first_byte : following.byte - shard.first_byte])
        raw = raw.removeprefix(BOM) if row.byte == 0 else raw
        yield row, raw.rstrip(b"\r\n")
