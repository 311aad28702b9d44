"""Read one shard: as rows (documents and rejects, in order) or as columns."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from corpusfit.corpus.fields import Pick, Row
from corpusfit.corpus.files import read_span
from corpusfit.corpus.formats import FORMATS
from corpusfit.plan import ReadPlan
from corpusfit.types import Document, Documents, Reject, Shard, buffers, taken, text_array


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
    parsed = FORMATS[shard.format].parse(in_hand(shard), plan)
    if not shard.rejects:
        return parsed
    return heapq.merge(parsed, shard.rejects, key=lambda row: row.row)


def documents(
    shard: Shard, plan: ReadPlan, pick: Pick | None = None, *, translations: bool = False
) -> tuple[Documents, list[Reject]]:
    """The usable rows of the shard as columns, and the rejects.

    Args:
        shard: as in `rows`.
        plan: as in `rows`.
        pick: chooses rows; formats with one row per line skip the parsing of the others.
        translations: return the translations of aligned pairs instead of their texts.

    Raises:
        InputError: the file that holds the shard's bytes cannot be read.
    """
    columns = FORMATS[shard.format].columns
    if columns:
        found, rejected = columns(in_hand(shard), plan, pick)
        return found, sorted([*rejected, *shard.rejects], key=lambda r: r.row)
    used: list[Document] = []
    rejected = []
    for row in rows(shard, plan):
        if isinstance(row, Document):
            used.append(row)
        else:
            rejected.append(row)
    numbers = np.array([d.row for d in used], np.int64)
    texts = text_array([d.translation or "" if translations else d.text for d in used])
    if pick:
        picked = pick(numbers, np.diff(buffers(texts)[1]))
        numbers, texts = numbers[picked], taken(texts, np.flatnonzero(picked))
    return Documents(numbers, texts), rejected
