"""Cut sources into numbered shards; all reading of a corpus happens here."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Parts, Shard, Source, Span
from corpusfit.text.cutting import MIB, Block, most_in_one
from corpusfit.text.registry import load


def shards(sources: Sequence[Source], plan: ReadPlan) -> Iterator[Shard]:
    """Yield the whole corpus in reading order, as shards of a few MiB.

    A shard never crosses a source, and its number depends only on the inputs and `plan.shard_mb`.
    Of plain JSON lines and of small plain files a shard holds only its byte range, which a worker
    reads. Other files are read and unpacked by this process, which feeds the workers.
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
    limit, most, held = int(plan.shard_mb * MIB), most_in_one(plan), 0
    pack = Parts([], [], [], [])  # columns: a container for each file costs more than its parsing
    for number, source in enumerate(sources):
        begin: list[Shard] = []
        size, url, together = source.size, source.url, True
        if not _is_small_file(source, most):
            found = _of_source(number, source, plan)
            begin = list(itertools.islice(found, 2))
            if not begin:
                continue
            together = len(begin) == 1 and begin[0].span is None
            size, url = len(begin[0].data), ""
        if pack.sources and (
            not together
            or held + size > limit
            or source.format != sources[pack.sources[0]].format
            or number - pack.sources[0] >= _MOST
        ):
            yield _together(pack, sources[pack.sources[0]].format)
            pack, held = Parts([], [], [], []), 0
        if together:
            pack.sources.append(number)
            pack.sizes.append(size)
            pack.urls.append(url)
            pack.shards.append(begin[0] if begin else None)
            held += size
        else:
            yield from begin
            yield from found
    if pack.sources:
        yield _together(pack, sources[pack.sources[0]].format)


_MOST = 1 << 20
"""Sources in a shard, so that the numbers of its rows fit into int64."""


def _together(parts: Parts, form: str) -> Shard:
    """One shard of small sources."""
    first = parts.sources[0]
    if len(parts.sources) == 1:
        return parts.shards[0] or whole_file(first, parts.urls[0], parts.sizes[0], form)
    stored = zip(parts.shards, parts.sizes, strict=True)
    position = sum(shard.position if shard else size for shard, size in stored)
    return Shard(0, first, form, 0, 0, b"", (), position, None, parts)


def whole_file(source: int, url: str, size: int, form: str, first_row: int = 0) -> Shard:
    """The shard of a whole file."""
    return Shard(0, source, form, first_row, 0, b"", (), size, Span(url, 0, size))


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
        yield whole_file(number, source.url, source.size, source.format)
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
    return 0 < source.size <= most and not source.compression and load(source.format).plain


def _stored(source: Source) -> Iterator[Block]:
    assert source.cells is not None  # noqa: S101
    begins = source.cells.begins.tolist()
    for row, (begin, end) in zip(
        source.cells.rows.tolist(), itertools.pairwise(begins), strict=True
    ):
        yield Block(row, begin, b"", (), end, Span(source.url, begin, end))
