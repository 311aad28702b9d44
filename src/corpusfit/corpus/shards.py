"""Cut sources into numbered shards; all reading of a corpus happens here."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from corpusfit.corpus.cutting import Block
from corpusfit.corpus.registry import load
from corpusfit.plan import ReadPlan
from corpusfit.types import Shard, Source, Span


def shards(sources: Sequence[Source], plan: ReadPlan) -> Iterator[Shard]:
    """Yield the whole corpus in reading order, as shards of a few MiB.

    A shard never crosses a source, and its number depends only on the inputs and `plan.shard_mb`.
    Of plain JSON lines a shard holds only its byte range, which a worker reads. Compressed files
    and files without line ends are read and unpacked by this process, which feeds the workers.

    Args:
        sources: what `find` returned.
        plan: `shard_mb`, `max_row_mb` (MiB) and `max_ratio` decide the borders.

    Yields:
        Shards with raw rows; rows already known to be unusable are in `rejects`.

    Raises:
        InputError: stored bytes cannot be read (a disk, a network). Bad content never raises.
    """
    index = 0
    for number, source in enumerate(sources):
        for block in _stored(source) if source.cells else load(source.format).blocks(source, plan):
            yield Shard(
                index=index,
                source=number,
                format=source.format,
                first_row=block.first_row,
                first_byte=block.first_byte,
                data=block.data,
                rejects=block.rejects,
                position=block.position,
                span=block.span,
            )
            index += 1


def _stored(source: Source) -> Iterator[Block]:
    assert source.cells is not None  # noqa: S101
    begins = source.cells.begins.tolist()
    for row, (begin, end) in zip(
        source.cells.rows.tolist(), itertools.pairwise(begins), strict=True
    ):
        yield Block(row, begin, b"", (), end, Span(source.url, begin, end))
