"""The nearest neighbours of every row among all rows, and the strongest pairs of them.

What: for every row the k others with the highest cosines above 0; on request only those that can
be among so many strongest pairs of all. Exact up to a number of rows: every pair is looked at.
Above it only pairs of rows from the same or from near cells.
Why: similarity graphs need this, and all products of n rows are n² d / 2 multiplications. Most
pairs are ruled out by the 63 directions that hold most of the rows' lengths: the rest of a product
is at most the product of the lengths that are left (Cauchy and Schwarz). Each pair is looked at
once, for both of its rows; what passes is multiplied out; and what a pair has to pass rises as
neighbours are found.
Trade-off: rows are kept in 16-bit fixed point, which puts a cosine off by about 0.00002; in return
products are whole numbers, the same bits on any machine and in any order. So the bounds may come
from BLAS, whose last bits differ with the number of threads: they have slack, and never decide.
Among equal neighbours the nearer row wins, so that many copies of one text form a band; were it the
lowest place, they would form a star whose centre outranks all. The work still grows with n²; with
cells it grows about as n^1.5, and neighbours in far cells are missed.
Reference: Li, Chan, Yiu and Mamoulis (2017), FEXIPRO (rotation and the bound); Jégou, Douze and
Schmid (2011), Product Quantization for Nearest Neighbor Search, section IV (cells).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

from corpusfit.kernels.vectors import products

__all__ = ["ONE", "fixed_point", "nearest", "strongest_pairs"]

ONE = 32_000
"""The length of a row in fixed point: a cosine of 1 is a product of about ONE², below 2^30."""

Tile: TypeAlias = tuple[int, int, int, int]
"""Rows [a, b) to be compared with rows [c, d), where a = c and b = d, or b <= c."""

_HEAD = 63  # directions that a bound looks at; with what is left, one cache line of four
_SLACK = np.float32(1e-4)  # above what rounding puts a bound below the cosine
_ROWS, _COLUMNS, _RUN = 256, 1024, 64
_SAMPLE = 8192
_BINS, _BIN = 1 << 16, 46  # a bin of scores is 2^-16 wide; how far a key is shifted for it
_FAR = np.int64(0x7FFFFFFF)
_CELL, _PER_CELL, _NEAR, _ROUNDS = 1000, 64, 32, 3
_OFTEN = 64  # tiles between two looks at how high the bar is

Keys: TypeAlias = NDArray[np.int64]
"""A neighbour as one number that orders as neighbours do: its product, then how near its row is."""


@njit(cache=True, nogil=True)
def fixed_point(vectors: NDArray[np.float32]) -> NDArray[np.int16]:
    """Rows scaled to length `ONE` and rounded, int16 [n, d]; a row of zeros stays one.

    Args:
        vectors: float32 [n, d], finite.
    """
    n, d = vectors.shape
    out = np.zeros((n, d), np.int16)
    for i in range(n):
        square = 0.0
        for k in range(d):
            square += np.float64(vectors[i, k]) ** 2
        if square > 0:
            scale = ONE / np.sqrt(square)
            for k in range(d):
                out[i, k] = np.int16(np.rint(vectors[i, k] * scale))
    return out


@njit(cache=True, nogil=True)
def _product(u: NDArray[np.int16], v: NDArray[np.int16]) -> np.int32:
    """The product of two rows; no sum on the way leaves 32 bits, since rows are of length ONE."""
    total = np.int32(0)
    for k in range(len(u)):
        total += np.int32(u[k]) * np.int32(v[k])
    return np.int32(total)


@njit(cache=True, nogil=True, inline="always")
def _key(product: int, i: int, j: int) -> int:
    """Row j as a neighbour of row i."""
    return (np.int64(product) << 32) | (_FAR - 2 * abs(i - j) - (j < i))


@njit(cache=True, nogil=True, inline="always")
def _row_of(key: int, i: int) -> int:
    """The row that is a neighbour of row i under a key."""
    far = _FAR - (key & _FAR)
    return i - (far >> 1) if far & 1 else i + (far >> 1)


@njit(cache=True, nogil=True)
def _keep(heap: Keys, count: int, key: int, bins: NDArray[np.int64]) -> int:
    """Put a key into a heap, its lowest first, of the best; returns how many it holds then."""
    k = len(heap)
    if count == k and key <= heap[0]:
        return count
    bins[key >> _BIN] += 1
    if count < k:
        at = count
        while at > 0 and heap[(at - 1) >> 1] > key:
            heap[at] = heap[(at - 1) >> 1]
            at = (at - 1) >> 1
        heap[at] = key
        return count + 1
    bins[heap[0] >> _BIN] -= 1
    at, child = 0, 1
    while child < k:
        if child + 1 < k and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= key:
            break
        heap[at] = heap[child]
        at, child = child, 2 * child + 1
    heap[at] = key
    return count


@njit(cache=True, nogil=True, fastmath={"nnan", "nsz"})
def _highest(run: NDArray[np.float32]) -> np.float32:
    high = run[0]
    for x in run:
        high = max(high, x)
    return high


@njit(cache=True, nogil=True)
def _look(
    i: int,
    j: int,
    rows: NDArray[np.int16],
    heaps: Keys,
    counts: NDArray[np.int32],
    floor: NDArray[np.float32],
    bins: NDArray[np.int64],
) -> None:
    """Multiply a pair out, and keep it for each of its rows that has no k better ones."""
    product = _product(rows[i], rows[j])
    if product <= 0:
        return
    for at, other in ((i, j), (j, i)):
        counts[at] = _keep(heaps[at], counts[at], _key(product, at, other), bins)
        if counts[at] == heaps.shape[1]:
            worst = np.float32((heaps[at, 0] >> 32) / ONE**2)
            floor[at] = max(floor[at], worst - _SLACK)


@njit(cache=True, nogil=True)
def _look_through(
    bounds: NDArray[np.float32],
    first: int,
    second: int,
    rows: NDArray[np.int16],
    heaps: Keys,
    counts: NDArray[np.int32],
    floor: NDArray[np.float32],
    bins: NDArray[np.int64],
) -> None:
    """Look at the pairs of a tile whose bounds [a, b] reach the floor of one of their rows.

    Runs of 64 bounds are first compared by their highest, with the lowest floor there.
    """
    a, b = bounds.shape
    lows = np.empty((b + _RUN - 1) // _RUN, np.float32)
    for run in range(len(lows)):
        lows[run] = floor[second + run * _RUN : second + min(b, (run + 1) * _RUN)].min()
    for at in range(a):
        i = first + at
        for run in range(len(lows)):
            begin, end = run * _RUN, min(b, (run + 1) * _RUN)
            if _highest(bounds[at, begin:end]) < min(floor[i], lows[run]):
                continue
            for to in range(max(begin, i + 1 - second), end):
                if bounds[at, to] >= min(floor[i], floor[second + to]):
                    _look(i, second + to, rows, heaps, counts, floor, bins)


def _heads(rows: NDArray[np.int16]) -> NDArray[np.float32]:
    """Rows by which products are bounded: float32 [n, up to 64].

    The parts of a row along the directions in which a sample of rows is longest, and the length of
    what is left, slightly more, so that rounding cannot make a bound too low.
    """
    n, d = rows.shape
    some = rows[:: max(1, n // _SAMPLE)].astype(np.float32) / ONE
    _, directions = np.linalg.eigh((some.T @ some).astype(np.float64))
    kept = directions[:, ::-1][:, :_HEAD].astype(np.float32)
    out = np.empty((n, kept.shape[1] + 1), np.float32)
    for begin in range(0, n, _SAMPLE):
        some = rows[begin : begin + _SAMPLE].astype(np.float32) / ONE
        head = some @ kept
        left = (some * some).sum(1) - (head * head).sum(1)
        out[begin : begin + _SAMPLE, :-1] = head
        out[begin : begin + _SAMPLE, -1] = np.sqrt(np.maximum(left, 0) + 1e-6)
    return out


def _everything(n: int) -> Iterator[Tile]:
    """Tiles that have every pair of n rows once; nearer rows first, since corpora have an order."""
    starts = range(0, n, _COLUMNS)
    for gap in range(len(starts)):
        for begin, other in zip(starts, starts[gap:], strict=False):
            end = min(n, begin + _COLUMNS)
            yield begin, end, other, min(n, other + _COLUMNS)


def _pieces(tiles: Iterable[Tile]) -> Iterator[Tile]:
    """The same, no larger than what stays in the cache."""
    for a, b, c, d in tiles:
        for first in range(a, b, _ROWS):
            last = min(b, first + _ROWS)
            for second in range(first if a == c else c, d, _COLUMNS):
                yield first, last, second, min(d, second + _COLUMNS)


def _lists(
    rows: NDArray[np.int16], k: int, pairs: int, tiles: Iterable[Tile]
) -> tuple[Keys, NDArray[np.int32]]:
    """Heaps of the best keys of each row, int64 [n, k], and how many they hold."""
    n = len(rows)
    heads = _heads(rows)
    heaps, counts = np.zeros((n, k), np.int64), np.zeros(n, np.int32)
    floor, bins = np.full(n, -_SLACK), np.zeros(_BINS, np.int64)
    room = np.empty(_ROWS * _COLUMNS, np.float32)
    for number, (a, b, c, d) in enumerate(_pieces(tiles)):
        bounds = room[: (b - a) * (d - c)].reshape(b - a, d - c)
        np.matmul(heads[a:b], heads[c:d].T, out=bounds)
        _look_through(bounds, a, c, rows, heaps, counts, floor, bins)
        if pairs and number % _OFTEN == _OFTEN - 1:
            np.maximum(floor, _bar(bins, pairs), out=floor)
    return heaps, counts


def _bar(bins: NDArray[np.int64], pairs: int) -> np.float32:
    """A cosine that the last of the strongest pairs surely reaches.

    A pair is in two lists at most, so it is one that twice as many entries reach.
    """
    above = np.cumsum(bins[::-1])
    lowest = len(bins) - 1 - int(np.searchsorted(above, 2 * pairs))
    return np.float32(lowest * 2.0 ** (_BIN - 32) / ONE**2 - _SLACK)


def _cells(rows: NDArray[np.int16]) -> tuple[NDArray[np.int64], Iterator[Tile]]:
    """Rows in the order of their cells, int64 [n], and the tiles of near cells of that order.

    Cells are those of k-means, begun at rows spread evenly over all and moved a few times.
    """
    count = len(rows) // _CELL
    centres = rows[:: len(rows) // count][:count].astype(np.float32)
    some = rows[:: max(1, len(rows) // (_PER_CELL * count))]
    for _ in range(_ROUNDS):
        cell = _nearest_centre(some, centres)
        sums = np.zeros((count, rows.shape[1]))
        np.add.at(sums, cell, some)
        length = np.sqrt((sums * sums).sum(1, keepdims=True))
        centres = np.where(length > 0, sums / np.maximum(length, 1), centres).astype(np.float32)
    cell = _nearest_centre(rows, centres)
    ends = np.concatenate([[0], np.cumsum(np.bincount(cell, minlength=count))])
    near = np.argsort(-products(centres, centres), axis=1, kind="stable")[:, :_NEAR]
    return np.argsort(cell, kind="stable"), _near_cells(ends, near)


def _nearest_centre(
    rows: NDArray[np.int16], centres: NDArray[np.float32]
) -> NDArray[np.int64]:
    """The cell of each row, int64 [n]; by sums in one order, so that it is the same anywhere."""
    cell = np.empty(len(rows), np.int64)
    for begin in range(0, len(rows), _ROWS):
        some = rows[begin : begin + _ROWS].astype(np.float32)
        cell[begin : begin + _ROWS] = products(some, centres).argmax(1)
    return cell


def _near_cells(ends: NDArray[np.int64], near: NDArray[np.int64]) -> Iterator[Tile]:
    """Each cell with itself, then with the nearest other one, and so on; no two cells twice."""
    met: set[tuple[int, int]] = set()
    own = np.arange(len(near))
    for column in (own, *near.T):
        for pair in zip(np.minimum(own, column).tolist(), np.maximum(own, column).tolist(), strict=True):
            if pair not in met:
                met.add(pair)
                one, other = pair
                yield int(ends[one]), int(ends[one + 1]), int(ends[other]), int(ends[other + 1])


@njit(cache=True, nogil=True)
def _read(
    heaps: Keys, counts: NDArray[np.int32], order: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Heaps of rows in some order as what `nearest` returns."""
    n, k = heaps.shape
    places, found = np.full((n, k), -1, np.int32), np.zeros((n, k), np.int32)
    for i in range(n):
        ordered = np.sort(heaps[i, : counts[i]])[::-1]
        for at in range(len(ordered)):
            places[order[i], at] = order[_row_of(ordered[at], i)]
            found[order[i], at] = ordered[at] >> 32
    return places, found


def nearest(
    rows: NDArray[np.int16], k: int, *, pairs: int = 0, exact: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The nearest neighbours of every row.

    Args:
        rows: int16 [n, d], of `fixed_point`; n below 2^30.
        k: neighbours of a row at most, at least 1.
        pairs: how many pairs will be asked of `strongest_pairs`; then neighbours that cannot be
            among them may be missing. 0 asks for all neighbours.
        exact: up to so many rows every pair is looked at; above, those of near cells.

    Returns:
        int32 [n, m] places and int32 [n, m] products, highest first, m at most k; -1 and 0 where a
        row has fewer neighbours with a product above 0.
    """
    n = len(rows)
    if n < 2:
        return np.empty((n, 0), np.int32), np.empty((n, 0), np.int32)
    if n <= exact:
        order, tiles = np.arange(n), _everything(n)
    else:
        order, tiles = _cells(rows)
        rows = rows[order]
    return _read(*_lists(rows, min(k, n - 1), pairs, tiles), order)


@njit(cache=True, nogil=True)
def _lists_too(places: NDArray[np.int32], found: NDArray[np.int32], product: int, i: int) -> bool:
    """Whether a row that is a neighbour of row i with that product has i in its own list."""
    last = len(places) - 1
    if places[last] < 0 or product > found[last]:
        return True
    if product < found[last]:
        return False
    for at in range(last, -1, -1):
        if found[at] > product:
            return False
        if places[at] == i:
            return True
    return False


@njit(cache=True, nogil=True)
def _each_once(
    places: NDArray[np.int32], found: NDArray[np.int32], first: NDArray[np.int32], second: NDArray[np.int32], product: NDArray[np.int32]) -> int:
    """Write down the pairs of all lists, each once; returns how many, also where there is no room."""
    n, k = places.shape
    count = 0
    for i in range(n):
        for at in range(k):
            j = places[i, at]
            if j < 0:
                break
            if j < i and _lists_too(places[j], found[j], found[i, at], i):
                continue
            if len(first):
                first[count], second[count], product[count] = i, j, found[i, at]
            count += 1
    return count


def strongest_pairs(
    places: NDArray[np.int32], found: NDArray[np.int32], most: int = 0
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """The pairs of rows of which one is a neighbour of the other.

    Args:
        places: int32 [n, m], of `nearest`, called with the same number of pairs.
        found: int32 [n, m], the same.
        most: so many pairs at most, those with the highest products; 0 for all.

    Returns:
        int32 [p] and int32 [p] rows, int32 [p] their products; in the order of the first rows.
    """
    none = np.empty(0, np.int32)
    count = _each_once(places, found, none, none, none)
    first, second, product = (np.empty(count, np.int32) for _ in range(3))
    _each_once(places, found, first, second, product)
    if most and count > most:
        kept = np.sort(np.argsort(-product, kind="stable")[:most])
        first, second, product = first[kept], second[kept], product[kept]
    return first, second, product
