"""Cut sources into numbered shards; all reading of a corpus happens here."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from corpusfit.corpus.cutting import MIB, Block, most_in_one
from corpusfit.corpus.registry import load
from corpusfit.plan import ReadPlan
from corpusfit.types import Part, Shard, Source, Span


def shards(sources: Sequence[Source], plan: ReadPlan) -> Iterator[Shard]:
    """Yield the whole corpus in reading order, as shards of a few MiB.

    A shard never crosses a source, and its number depends only on the inputs and `plan.shard_mb`.
    Of plain JSON lines and of small plain files a shard holds only its byte range, which a worker
    reads. Other files are read and unpacked by this process, which feeds the workers.

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

    A source is small if it is one shard by itself; a shard holds as many as fit into
    `plan.shard_mb`. Larger sources have the shards of `shards`. All steps of a run on a scored
    corpus number shards in this way.
    """
    for index, shard in enumerate(_packed(sources, plan)):
        yield replace(shard, index=index)


def _packed(sources: Sequence[Source], plan: ReadPlan) -> Iterator[Shard]:
    limit, most, size = int(plan.shard_mb * MIB), most_in_one(plan), 0
    pack: list[Part] = []
    for number, source in enumerate(sources):
        begin: list[Shard] = []
        part: Part | None = None
        if _is_small_file(source, most):
            part = Part(number, source.size, source.url)
        else:
            found = _of_source(number, source, plan)
            begin = list(itertools.islice(found, 2))
            if len(begin) == 1 and begin[0].span is None:
                part = Part(number, len(begin[0].data), "", begin[0])
            elif not begin:
                continue
        if pack and (
            part is None
            or size + part.size > limit
            or source.format != sources[pack[0].source].format
            or number - pack[0].source >= _MOST
        ):
            yield _together(pack, sources[pack[0].source].format)
            pack, size = [], 0
        if part is not None:
            pack.append(part)
            size += part.size
        else:
            yield from begin
            yield from found
    if pack:
        yield _together(pack, sources[pack[0].source].format)


_MOST = 1 << 20
"""Sources in a shard, so that the numbers of its rows fit into int64."""


def _together(pack: list[Part], form: str) -> Shard:
    """One shard of small sources."""
    if len(pack) == 1:
        return pack[0].shard or shard_of(pack[0], form)
    position = sum(part.shard.position if part.shard else part.size for part in pack)
    return Shard(0, pack[0].source, form, 0, 0, b"", (), position, None, tuple(pack))


def shard_of(part: Part, form: str, first_row: int = 0) -> Shard:
    """The shard of a whole file."""
    span = Span(part.url, 0, part.size)
    return Shard(0, part.source, form, first_row, 0, b"", (), part.size, span)


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


def _of_source(number: int, source: Source, plan: ReadPlan) -> Iterator[Shard]:
    """The shards of a source, without their numbers."""
    if _is_small_file(source, most_in_one(plan)):
        yield shard_of(Part(number, source.size, source.url), source.format)
        return
    form = load(source.format)
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


def _is_small_file(source: Source, most: int) -> bool:
    """Whether the stored bytes are one block, so that a worker can read them."""
    small = 0 < source.size <= most
    return small and not source.compression and load(source.format).plain


def _stored(source: Source) -> Iterator[Block]:
    assert source.cells is not None  # noqa: S101
    begins = source.cells.begins.tolist()
    for row, (begin, end) in zip(
        source.cells.rows.tolist(), itertools.pairwise(begins), strict=True
    ):
        yield Block(row, begin, b"", (), end, Span(source.url, begin, end))
