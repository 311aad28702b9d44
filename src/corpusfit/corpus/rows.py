"""From a shard to documents and rejects, in row order.

What: the format's parser, merged with what was rejected while cutting.
Why: it is all a worker needs: it takes one shard, reads no file and never raises for a row.
Trade-off: `plan.strict` is left to the caller, who knows the source's name for the message.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from corpusfit.corpus.fields import Row
from corpusfit.corpus.formats import FORMATS
from corpusfit.plan import ReadPlan
from corpusfit.types import Shard

__all__ = ["rows"]


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
