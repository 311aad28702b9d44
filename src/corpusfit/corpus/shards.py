"""Cut sources into numbered shards; all reading of a corpus happens here."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from corpusfit.corpus.cutting import MIB, Block
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
    found = (_of_source(number, source, plan) for number, source in enumerate(sources))
    for index, shard in enumerate(itertools.chain.from_iterable(found)):
        yield replace(shard, index=index)


def packed(sources: Sequence[Source], plan: ReadPlan) -> Iterator[Shard]:
    """As `shards`, but consecutive small sources of one format share a shard.

    A source is small if it is a shard by itself; a shard holds as many as fit into `plan.shard_mb`.
    Larger sources have the shards of `shards`. All steps of a run number shards in this way.
    """
    for index, shard in enumerate(_packed(sources, plan)):
        yield replace(shard, index=index)


def _packed(sources: Sequence[Source], plan: ReadPlan) -> Iterator[Shard]:
    limit, size = int(plan.shard_mb * MIB), 0
    pack: list[Shard] = []
    for number, source in enumerate(sources):
        found = _of_source(number, source, plan, whole=True)
        begin = list(itertools.islice(found, 2))
        alone = len(begin) != 1
        more = 0 if alone else _bytes(begin[0])
        if pack and begin and (alone or size + more > limit or not _beside(pack[0], begin[0])):
            yield _together(pack)
            pack, size = [], 0
        if alone:
            yield from begin
            yield from found
        else:
            pack += begin
            size += more
    if pack:
        yield _together(pack)


def layout(sources: Sequence[Source], plan: ReadPlan) -> dict[str, str]:
    """What a run's identity says of shards that several sources share; nothing without any.

    Earlier versions gave each source its own shards, and their results must not be mixed in.
    Decided by the stored sizes.
    """
    limit = int(plan.shard_mb * MIB)
    used = (source for source in sources if source.size)
    shared = any(
        one.format == other.format and one.size + other.size <= limit
        for one, other in itertools.pairwise(used)
    )
    return {"small files": "together in shards"} if shared else {}


def _beside(one: Shard, other: Shard) -> bool:
    """Whether two sources can share a shard."""
    return one.format == other.format and other.source - one.source < _MOST


_MOST = 1 << 20
"""Sources in a shard, so that rows' numbers fit into int64."""


def _bytes(shard: Shard) -> int:
    return shard.span.end - shard.span.begin if shard.span else len(shard.data)


def _together(pack: list[Shard]) -> Shard:
    """One shard of small sources; of a single one, its own."""
    if len(pack) == 1:
        return pack[0]
    first, position = pack[0], sum(shard.position for shard in pack)
    return replace(
        first, data=b"", rejects=(), position=position, span=None, parts=tuple(pack), first_byte=0
    )


def _of_source(
    number: int, source: Source, plan: ReadPlan, *, whole: bool = False
) -> Iterator[Shard]:
    """The shards of a source, without their numbers.

    With `whole` a small plain file is a shard that a worker reads, and this process does not.
    """
    form = load(source.format)
    small = 0 < source.size <= min(plan.shard_mb, plan.max_row_mb) * MIB
    if whole and small and form.plain and not source.compression:
        span = Span(source.url, 0, source.size)
        yield Shard(0, number, source.format, 0, 0, b"", (), source.size, span)
        return
    for block in _stored(source) if source.cells else form.blocks(source, plan):
        yield Shard(
            index=0,
            source=number,
            format=source.format,
            first_row=block.first_row,
            first_byte=block.first_byte,
            data=block.data,
            rejects=block.rejects,
            position=block.position,
            span=block.span,
        )


def _stored(source: Source) -> Iterator[Block]:
    assert source.cells is not None  # noqa: S101
    begins = source.cells.begins.tolist()
    for row, (begin, end) in zip(
        source.cells.rows.tolist(), itertools.pairwise(begins), strict=True
    ):
        yield Block(row, begin, b"", (), end, Span(source.url, begin, end))
