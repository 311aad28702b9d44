"""One look at every stored byte: fingerprints, and where the rows of plain JSON lines begin.

What: a file is looked at in pieces that can be read anywhere, in any order; what was seen adds up
to its fingerprint and, for plain `.jsonl`, to the byte and the number of the first row of every
shard.
Why: the content has to be hashed anyway, so that a changed input is noticed; counting line ends on
the way lets workers read a single big file in parallel, each its own byte range.
Trade-off: a plain file's bytes are read twice, once to look and once to parse. A file that its
store states a digest of (S3, the Hugging Face hub) is read here only if it is plain `.jsonl`. A
file with a row over the row limit is left to the one reader that can drop such a row in passing.
Reference: xxHash (XXH3, 128 bits) for the pieces, BLAKE2b over their digests.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import xxhash
from numpy.typing import NDArray

from corpusfit.corpus.cutting import MIB
from corpusfit.corpus.files import read_span, stated_digest, stored_size
from corpusfit.kernels.jsonlines import line_ends
from corpusfit.plan import ReadPlan
from corpusfit.types import Cells, Span

_PIECE = 32 * MIB  # the planning process remembers a little of each


@dataclass(frozen=True, slots=True)
class Look:
    """A piece of a file to look at.

    Attributes:
        span: where it is.
        cell: bytes of a shard's cell, to find the rows of each; 0 for the digest alone.
    """

    span: Span
    cell: int


@dataclass(frozen=True, slots=True)
class Glimpse:
    """What was seen in a piece.

    Attributes:
        digest: XXH3 of its bytes.
        begins: int64 [m], the first row beginning after a line end of the piece, by cell.
        rows: int64 [m], how many rows begin there.
        ends: the first and the last byte behind a line end; (-1, -1) without one.
        longest: bytes of the longest row that lies between two line ends of the piece.
    """

    digest: bytes
    begins: NDArray[np.int64]
    rows: NDArray[np.int64]
    ends: tuple[int, int]
    longest: int


Looking = Callable[[Sequence[Look]], Sequence[Glimpse]]
"""Looks at pieces, in this process or elsewhere; the answers in the order of the pieces."""


def glimpse(look: Look) -> Glimpse:
    """Look at one piece.

    Raises:
        InputError: it cannot be read.
    """
    data = read_span(look.span)
    digest = xxhash.xxh3_128_digest(data)
    none = np.empty(0, np.int64)
    if not look.cell:
        return Glimpse(digest, none, none, (-1, -1), 0)
    starts = line_ends(np.frombuffer(data, np.uint8)) + (look.span.begin + 1)
    if not len(starts):
        return Glimpse(digest, none, none, (-1, -1), 0)
    cells = starts // look.cell
    firsts = np.flatnonzero(np.diff(cells, prepend=-1))
    longest = int(np.diff(starts).max(initial=0))
    rows = np.diff(np.append(firsts, len(starts)))
    return Glimpse(digest, starts[firsts], rows, (int(starts[0]), int(starts[-1])), longest)


def look_here(looks: Sequence[Look]) -> Sequence[Glimpse]:
    """Look at the pieces in this process, one after the other."""
    return [glimpse(look) for look in looks]


def survey(
    files: Sequence[tuple[str, bool]], plan: ReadPlan, looking: Looking = look_here
) -> list[tuple[str, int, Cells | None]]:
    """Fingerprint files and find their rows.

    Args:
        files: (path or URL, whether it is plain JSON lines).
        plan: `shard_mb` and `max_row_mb` (MiB).
        looking: where the pieces are looked at.

    Returns:
        For each file the fingerprint in hex, its size, and where its rows are; None if it has no
        plain lines or one over the row limit.

    Raises:
        InputError: a file cannot be read.
    """
    cell = max(1, int(plan.shard_mb * MIB))
    stated = [stated_digest(url) for url, _ in files]
    sizes = [s[1] if s else stored_size(url) for s, (url, _) in zip(stated, files, strict=True)]
    plans = [
        list(_pieces(url, size, cell if lines else 0)) if lines or not said else []
        for (url, lines), size, said in zip(files, sizes, stated, strict=True)
    ]
    seen = iter(looking([look for looks in plans for look in looks]))
    found = []
    for (_, lines), size, said, looks in zip(files, sizes, stated, plans, strict=True):
        seen_here = [next(seen) for _ in looks]
        digest = said[0] if said else _combined(seen_here, size)
        cells = _cells(seen_here, size, cell, int(plan.max_row_mb * MIB)) if lines else None
        found.append((digest, size, cells))
    return found


def fingerprint(url: str) -> tuple[str, int]:
    """The fingerprint of one file in hex, and its size; raises as `survey` does."""
    digest, size, _ = survey([(url, False)], ReadPlan())[0]
    return digest, size


def _pieces(url: str, size: int, cell: int) -> Iterator[Look]:
    for begin in range(0, size, _PIECE):
        yield Look(Span(url, begin, min(size, begin + _PIECE)), cell)


def _combined(seen: Sequence[Glimpse], size: int) -> str:
    digest = hashlib.blake2b(size.to_bytes(8, "little"), digest_size=16)
    for piece in seen:
        digest.update(piece.digest)
    return digest.hexdigest()


def _cells(seen: Sequence[Glimpse], size: int, cell: int, longest: int) -> Cells | None:
    """The first rows of all cells; None if a row is over the limit."""
    if not size or _longest(seen, size) > max(1, longest):
        return None
    begins = np.concatenate([np.zeros(1, np.int64), *(s.begins for s in seen)])
    rows = np.concatenate([np.ones(1, np.int64), *(s.rows for s in seen)])
    if begins[-1] == size:  # a line end at the very end begins no row
        begins, rows = begins[:-1], rows[:-1]
    elif seen[-1].ends[1] == size:
        rows[-1] -= 1
    first = np.flatnonzero(np.diff(begins // cell, prepend=-1))  # a cell seen in two pieces
    counts = np.add.reduceat(rows, first)
    return Cells(np.append(begins[first], size), np.cumsum(counts) - counts)


def _longest(seen: Sequence[Glimpse], size: int) -> int:
    longest, before = 0, 0
    for piece in seen:
        if piece.ends[0] >= 0:
            longest = max(longest, piece.longest, piece.ends[0] - before)
            before = piece.ends[1]
    return max(longest, size - before)
