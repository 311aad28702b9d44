"""From sources to numbered shards: all reading of a corpus happens here.

What: the blocks of every source in turn, numbered through.
Why: one process reads and cuts, many parse and score; a shard never crosses a source, and its
number follows from the inputs and `plan.shard_mb` alone.
Trade-off: unpacking is done by the one reader; libraries unpack faster than scoring reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from corpusfit.corpus.formats import FORMATS
from corpusfit.plan import ReadPlan
from corpusfit.types import Shard, Source

__all__ = ["shards"]


def shards(sources: Sequence[Source], plan: ReadPlan) -> Iterator[Shard]:
    """The whole corpus in reading order, a few MiB at a time.

    Args:
        sources: what `find` returned.
        plan: `shard_mb`, `max_row_mb` (MiB) and `max_ratio` say where to cut.

    Yields:
        Shards with raw rows; those already known to be unusable are in `rejects`.

    Raises:
        InputError: stored bytes cannot be read (a disk, a network). Bad content never raises.
    """
    index = 0
    for number, source in enumerate(sources):
        for block in FORMATS[source.format].blocks(source, plan):
            yield Shard(
                index=index,
                source=number,
                format=source.format,
                first_row=block.first_row,
                first_byte=block.first_byte,
                data=block.data,
                rejects=block.rejects,
                position=block.position,
            )
            index += 1
