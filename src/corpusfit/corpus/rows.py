"""From a shard to documents and rejects, in row order.

What: `rows` gives each row as an object, `documents` the usable ones as columns.
Why: it is all a worker needs: it never raises for a row.
Trade-off: two doors to the same rows: columns are many times faster, and objects know a row's own
id and where it begins, which only the selected few are asked for. `plan.strict` is left to the
caller, who knows the source's name for the message.
"""

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
    """The shard with its raw rows, read now if they still lie in a file."""
    return replace(shard, data=read_span(shard.span), span=None) if shard.span else shard


def rows(shard: Shard, plan: ReadPlan) -> Iterator[Row]:
    """Every row of the shard once, as a `Document` or a `Reject`.

    Args:
        shard: one of `shards(sources, plan)`.
        plan: the same plan; names the fields and the mode of `.txt` files.

    Raises:
        InputError: its bytes lie in a file and cannot be read.
    """
    parsed = FORMATS[shard.format].parse(in_hand(shard), plan)
    if not shard.rejects:
        return parsed
    return heapq.merge(parsed, shard.rejects, key=lambda row: row.row)


def documents(
    shard: Shard, plan: ReadPlan, pick: Pick | None = None, *, translations: bool = False
) -> tuple[Documents, list[Reject]]:
    """The same rows as columns: what is usable, and what is not and why.

    Args:
        shard: as in `rows`.
        plan: as in `rows`.
        pick: which rows are wanted; the others of a format with a row a line are not parsed.
        translations: the texts are the other sides of aligned pairs.

    Raises:
        InputError: its bytes lie in a file and cannot be read.
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
