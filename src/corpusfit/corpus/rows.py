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

import numpy as np

from corpusfit.corpus import jsonl
from corpusfit.corpus.fields import Row
from corpusfit.corpus.formats import FORMATS
from corpusfit.plan import ReadPlan
from corpusfit.types import Document, Documents, Reject, Shard, text_array

__all__ = ["documents", "rows"]


def rows(shard: Shard, plan: ReadPlan) -> Iterator[Row]:
    """Every row of the shard once, as a `Document` or a `Reject`.

    Args:
        shard: one of `shards(sources, plan)`.
        plan: the same plan; names the fields and the mode of `.txt` files.
    """
    parsed = FORMATS[shard.format].parse(shard, plan)
    if not shard.rejects:
        return parsed
    return heapq.merge(parsed, shard.rejects, key=lambda row: row.row)


def documents(shard: Shard, plan: ReadPlan) -> tuple[Documents, list[Reject]]:
    """The same rows as columns: what is usable, and what is not and why."""
    if FORMATS[shard.format].parse is jsonl.parse:
        found, rejected = jsonl.columns(shard, plan)
        return found, sorted([*rejected, *shard.rejects], key=lambda r: r.row)
    used: list[Document] = []
    rejected = []
    for row in rows(shard, plan):
        if isinstance(row, Document):
            used.append(row)
        else:
            rejected.append(row)
    numbers = np.array([d.row for d in used], np.int64)
    return Documents(numbers, text_array([d.text for d in used])), rejected
