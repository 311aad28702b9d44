"""Read one shard: as rows (documents and rejects, in order), as columns, or as raw bytes."""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import FILE_BITS, Documents, Parts, Reject, Shard
from corpusfit.kernels.jsonlines import line_ends
from corpusfit.text.contract import Format, columns_of
from corpusfit.text.cutting import BOM, line_feeds
from corpusfit.text.fields import Pick, Row
from corpusfit.text.files import read_bytes
from corpusfit.text.registry import load
from corpusfit.text.shards import whole_file


def in_hand(shard: Shard) -> Shard:
    """The shard with its raw bytes, read now if they are still in a file."""
    if shard.span is None:
        return shard
    data = read_bytes(shard.span.url, shard.span.begin, shard.span.end)
    if not shard.span.begin:  # a part of a file with line ends has one
        data = line_feeds(data)
    return replace(shard, data=data, span=None)


def rows(shard: Shard, plan: ReadPlan, files: Container[int] | None = None) -> Iterator[Row]:
    """Yield every row of the shard once, as a `Document` or a `Reject`.

    A malformed row never raises; the caller applies `plan.strict`, because it knows the source's
    name. Rows know their ids and offsets, but are many times slower than the columns of
    `documents`.
    """
    if shard.parts:
        return _rows_of_parts(shard, shard.parts, plan, files)
    parsed = load(shard.format).parse(in_hand(shard), plan)
    if not shard.rejects:
        return parsed
    return heapq.merge(parsed, shard.rejects, key=lambda row: row.row)


def documents(
    shard: Shard, plan: ReadPlan, pick: Pick | None = None
) -> tuple[Documents, list[Reject]]:
    """The usable rows of the shard as columns, and the rejects; raises as `rows` does.

    Formats with one row per line skip the parsing of rows that `pick` does not choose.
    """
    form = load(shard.format)
    if shard.parts:
        whole = _joined(shard.parts, shard, form, plan) if form.joins else None
        if whole is not None:
            return whole.documents(form, plan, pick)
        return columns_of(rows(shard, plan), pick)
    found, rejected = form.columns(in_hand(shard), plan, pick)
    return found, sorted([*rejected, *shard.rejects], key=lambda r: r.row)


def _rows_of_parts(
    shard: Shard, parts: Parts, plan: ReadPlan, files: Container[int] | None
) -> Iterator[Row]:
    for source, size, url, own in zip(*parts, strict=True):
        if files is not None and source - shard.source not in files:
            continue
        before = (source - shard.source) << FILE_BITS
        if own is None:
            yield from rows(whole_file(source, url, size, shard.format, before), plan)
        else:
            rejected = tuple(replace(r, row=before + r.row) for r in own.rejects)
            first_row = before + own.first_row
            yield from rows(replace(own, first_row=first_row, rejects=rejected), plan)


@dataclass(frozen=True)
class _Joined:
    """A shard of several sources as one.

    Attributes:
        shard: with the raw rows of all, in rows of its own.
        at: int64 [k], where those of each source begin.
        first: int64 [k], the first row of each in the shard of several.
        byte: int64 [k], where it begins in the source.
        rejected: rows known to be unusable.
    """

    shard: Shard
    at: NDArray[np.int64]
    first: NDArray[np.int64]
    byte: NDArray[np.int64]
    rejected: list[Reject]

    def documents(
        self, form: Format, plan: ReadPlan, pick: Pick | None
    ) -> tuple[Documents, list[Reject]]:
        """As the function `documents`."""
        ends = line_ends(np.frombuffer(self.shard.data, np.uint8)) + 1
        lines = np.searchsorted(ends, self.at, side="right")  # the first line of each source

        def numbered(found: NDArray[np.int64]) -> NDArray[np.int64]:
            own = np.searchsorted(lines, found, side="right") - 1
            return np.asarray(self.first[own] + found - lines[own])

        def picked(found: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.bool_]:
            assert pick is not None  # noqa: S101
            return pick(numbered(found), sizes)

        rejected = list(self.rejected)
        found, unusable = form.columns(self.shard, plan, picked if pick else None)
        for row in unusable:
            k = int(np.searchsorted(self.at, row.byte, side="right")) - 1
            number = int(numbered(np.array([row.row]))[0])
            byte = row.byte - int(self.at[k] - self.byte[k])
            rejected.append(Reject(number, byte, row.reason))
        rejected.sort(key=lambda r: r.row)
        return Documents(numbered(found.row), found.texts), rejected


def _joined(parts: Parts, shard: Shard, form: Format, plan: ReadPlan) -> _Joined | None:
    """The sources of a shard as one; None if they can only be parsed one by one."""
    at, first, byte, rejected, data = [], [], [], [], bytearray()
    for source, size, url, single in zip(*parts, strict=True):
        before = (source - shard.source) << FILE_BITS
        own = form.joined(single.data if single else line_feeds(read_bytes(url, 0, size)), plan)
        if own is None:
            return None
        if single:
            rejected += [replace(r, row=before + r.row) for r in single.rejects]
        at.append(len(data))
        first.append(before + single.first_row if single else before)
        byte.append(single.first_byte if single else 0)
        data += own
    whole = replace(shard, data=bytes(data), parts=None)
    places = np.array([at, first, byte], np.int64)
    return _Joined(whole, places[0], places[1], places[2], rejected)


def raw_rows(shard: Shard, plan: ReadPlan) -> Iterator[tuple[Row, bytes]]:
    """Every row of a shard of one source with its raw bytes, without the line end.

    Raises as `rows` does.

    They are empty for formats whose rows are never written unchanged.
    """
    shard, form = in_hand(shard), load(shard.format)
    found = rows(shard, plan)
    if not form.written:
        yield from ((row, b"") for row in found)
        return
    data = memoryview(shard.data)[form.head(shard.data, plan) :]
    end = Reject(-1, shard.first_byte + len(data), "")
    for row, following in pairwise([*found, end]):
        raw = bytes(data[row.byte - shard.first_byte : following.byte - shard.first_byte])
        raw = raw.removeprefix(BOM) if row.byte == 0 else raw
        yield row, form.written_row(shard.data, raw)
