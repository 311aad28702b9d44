"""Nearest neighbours of every row among all rows, and the strongest pairs of neighbours.

What: for every row the k others with the highest cosines above 0; on request only those that can be
among a number of strongest pairs of all. Exact up to a number of rows: every pair is examined.
Above it only pairs of rows from the same or from near cells.
Why: similarity graphs need this, and all products of n rows take n² d / 2 multiplications. Most
pairs are excluded by 8-bit numbers along the 126 directions in which rows differ most, with a bound
on the remainder (Cauchy and Schwarz). Each pair is examined once, for both of its rows; pairs that
pass are multiplied out; and the threshold rises as neighbours are found.
Trade-off: rows are kept in 16-bit fixed point, which changes a cosine by about 0.00002; in return
products are whole numbers, the same bits on any machine and in any order. Bounds come from BLAS,
whose last bits differ with the number of threads: they have slack for that, and never decide. Among
equal neighbours the nearer row wins, so that many copies of one text form a band; if the lowest
index won, they would form a star whose centre outranks all. The work still grows with n²; with
cells it grows about with n, apart from the search for cells, and neighbours in far cells are
missed.
Reference: Li, Chan, Yiu and Mamoulis (2017), FEXIPRO (rotation and the bound); Jégou, Douze and
Schmid (2011), Product Quantization for Nearest Neighbor Search, section IV (cells).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from corpusfit.kernels.dots import WIDTH, laid_out, tile_of_dots
from corpusfit.kernels.vectors import products
from corpusfit.kernels.words import zeros_below

ONE = 32_000
"""The length of a row in fixed point: a cosine of 1 is a product of about ONE², below 2^30."""

Tile: TypeAlias = tuple[int, int, int, int]
"""Rows [a, b) to be compared with rows [c, d), where a = c and b = d, or b <= c."""

_SLACK = 1e-4  # for each row of a pair, more than the rounding error of a bound
_PAD = 32  # a tile's columns begin at a multiple of it
_ROWS, _COLUMNS, _RUN = 256, 512, 64  # of a tile, whose bounds stay in the cache; examined at once
_SAMPLE = 8192
_BINS, _BIN = 1 << 16, 46  # a bin of scores is 2^-16 wide; how far a key is shifted for it
_FAR = np.int64(0x7FFFFFFF)
ROWS_PER_CELL, _PER_CELL = 1000, 64  # rows in a cell, and sampled rows per cell for its centre
NEAR_CELLS, _ROUNDS = 32, 3  # near cells of a cell, itself among them; rounds of k-means
_OFTEN = 64  # tiles between two updates of the threshold
_ASKED, _CAUTION = 256, 4  # sampled rows for a likely threshold; entries per pair there, at most 2

Keys: TypeAlias = NDArray[np.int64]
"""A neighbour as one number, ordered by its product, then by the nearness of its row."""


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
def _product(rows: NDArray[np.int16], i: int, j: int) -> np.int32:
    """The product of two rows; partial sums stay within 32 bits, because rows have length ONE."""
    total = np.int32(0)
    for k in range(rows.shape[1]):
        total += np.int32(rows[i, k]) * np.int32(rows[j, k])
    return np.int32(total)


@njit(cache=True, nogil=True, inline="always")
def _key(product: int, i: int, j: int) -> Any:
    """The key of row j as a neighbour of row i."""
    return (np.int64(product) << 32) | (_FAR - 2 * abs(i - j) - (j < i))


@njit(cache=True, nogil=True, inline="always")
def _row_of(key: int, i: int) -> Any:
    """The row that is a neighbour of row i under a key."""
    far = _FAR - (key & _FAR)
    return i - (far >> 1) if far & 1 else i + (far >> 1)


@njit(cache=True, nogil=True)
def _keep(heaps: Keys, i: int, count: int, key: int, bins: NDArray[np.int64]) -> int:
    """Put a key into heap i of the best keys, lowest first; returns its new size."""
    k = heaps.shape[1]
    if count == k and key <= heaps[i, 0]:
        return count
    bins[key >> _BIN] += 1
    if count < k:
        at = count
        while at > 0 and heaps[i, (at - 1) >> 1] > key:
            heaps[i, at] = heaps[i, (at - 1) >> 1]
            at = (at - 1) >> 1
        heaps[i, at] = key
        return count + 1
    bins[heaps[i, 0] >> _BIN] -= 1
    at, child = 0, 1
    while child < k:
        if child + 1 < k and heaps[i, child + 1] < heaps[i, child]:
            child += 1
        if heaps[i, child] >= key:
            break
        heaps[i, at] = heaps[i, child]
        at, child = child, 2 * child + 1
    heaps[i, at] = key
    return count


@intrinsic
def _reaching(
    typingctx: Any, bounds: Any, i: Any, j: Any, more: Any, low: Any, floor: Any, k: Any
) -> Any:
    """Which of 64 bounds from `bounds[i, j]` on, plus `more`, reach `low` or their own floor.

    One bit each in a uint64, by plain vector instructions of LLVM, for any processor. The floors
    are the 64 from `floor[k]` on.
    """
    number = types.int32
    signature = types.uint64(bounds, types.intp, types.intp, number, number, floor, types.intp)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        run = ir.VectorType(ir.IntType(32), _RUN)

        def loaded(at: int, *places: Any) -> Any:
            array = context.make_array(sig.args[at])(context, builder, args[at])
            place = cgutils.get_item_pointer(context, builder, sig.args[at], array, places)
            return builder.load(builder.bitcast(place, run.as_pointer()), align=4)

        def same(value: Any) -> Any:
            one = builder.insert_element(ir.Constant(run, ir.Undefined), value, ir.IntType(32)(0))
            return builder.shuffle_vector(one, one, ir.Constant(run, [0] * _RUN))

        values = builder.add(loaded(0, args[1], args[2]), same(args[3]))
        for_row = builder.icmp_signed(">=", values, same(args[4]))
        hits = builder.or_(for_row, builder.icmp_signed(">=", values, loaded(5, args[6])))
        return builder.bitcast(hits, ir.IntType(_RUN))

    return signature, generate


@njit(cache=True, nogil=True)
def _reached(
    bounds: NDArray[np.int32],
    tile: Tile,
    aligned: int,
    more: NDArray[np.int32],
    floor: NDArray[np.int32],
    found: NDArray[np.int32],
) -> int:
    """The pairs of a tile whose bounds reach the floor of one of their rows.

    Bounds begin at row `aligned`; bounds and floors have room for 64 more. The pairs are written to
    `found`; returns their number.
    """
    first, last, second, end = tile
    count = 0
    for i in range(first, last):
        added, low = more[i], floor[i]
        for begin in range(aligned, end, _RUN):
            hits = _reaching(bounds, i - first, begin - aligned, added, low, floor, begin)
            while hits:
                j = begin + zeros_below(hits)
                hits &= hits - np.uint64(1)
                if max(i, second - 1) < j < end:
                    found[count, 0], found[count, 1] = i, j
                    count += 1
    return count


@njit(cache=True, nogil=True)
def _look(
    found: NDArray[np.int32],
    count: int,
    rows: NDArray[np.int16],
    heaps: Keys,
    counts: NDArray[np.int32],
    floor: NDArray[np.int32],
    scale: float,
    bins: NDArray[np.int64],
) -> None:
    """Multiply pairs out, and keep each for those of its rows that lack k better neighbours."""
    k = heaps.shape[1]
    for at in range(count):
        i, j = np.int64(found[at, 0]), np.int64(found[at, 1])
        product = _product(rows, i, j)
        if product <= 0:
            continue
        for _ in range(2):
            counts[i] = _keep(heaps, i, counts[i], _key(product, i, j), bins)
            if counts[i] == k:
                floor[i] = max(floor[i], np.int32((heaps[i, 0] >> 32) * scale) - 1)
            i, j = j, i


class _Bounds:
    """Bounds on the products of rows, as whole numbers, tile by tile.

    A row is the sum of a mean, 8-bit steps along the directions in which rows differ most, the
    steps' rounding error, and a remainder in other directions. A product is at most that of the
    steps plus the largest contribution of the other parts. For the remainder this is the product of
    the two lengths, stored in two more bytes per row; for the others it is a number per row.
    Everything is rounded up.

    Attributes:
        unit: the cosine that one unit of a bound stands for.
        more: int32 [n], to be added for the first row of a pair.
    """

    def __init__(self, rows: NDArray[np.int16]) -> None:
        n = len(rows)
        mean, kept, step = _directions(rows)
        codes = np.zeros((n, WIDTH), np.int8)
        added, short = np.empty(n), np.empty(n)
        longest = 0.0
        for at in range(0, n, _SAMPLE):
            part = slice(at, at + _SAMPLE)
            x = rows[part].astype(np.float32) / ONE
            head = x @ kept
            middle = head - mean
            steps = np.clip(np.rint(middle / step), -127, 127)
            short[part] = _lengths(middle - step * steps)
            longest = max(longest, _lengths(middle).max(), _lengths(step * steps).max())
            left = np.sqrt(np.maximum((x * x).sum(1) - (head * head).sum(1), 0) + 1e-6)
            last = np.minimum(np.ceil(left / (step * np.sqrt(2))), 127)
            over = np.maximum(left - last * step * np.sqrt(2), 0)
            added[part] = head @ mean - mean @ mean / 2 + over + _SLACK
            codes[part, : kept.shape[1]] = steps
            codes[part, -2:] = last[:, None]
        self.unit = step * step
        self.more = np.ceil((added + longest * short) / self.unit).astype(np.int32)
        self._rows = np.full((n + _PAD, WIDTH), 128, np.uint8)
        self._rows[:n] += codes.view(np.uint8)
        self._blocks = laid_out(codes)
        self._start = np.zeros(16 * len(self._blocks), np.int32)
        self._start[:n] = self.more - 128 * codes.sum(1, dtype=np.int32)

    def fill(self, tile: Tile, out: NDArray[np.int32]) -> int:
        """Write a tile's bounds without `more`; returns the row of the first column."""
        first, last, second, end = tile
        aligned = second // _PAD * _PAD
        tile_of_dots(self._rows, first, last, self._blocks, aligned, end, self._start, out)
        return aligned

    def floor(self, cosine: float) -> int:
        """The lowest bound of a pair with at least this cosine."""
        return int(np.floor(cosine / self.unit)) - 1


def _lengths(x: NDArray[Any]) -> NDArray[np.float32]:
    return np.asarray(np.sqrt((x * x).sum(1)))


def _directions(rows: NDArray[np.int16]) -> tuple[NDArray[np.float32], NDArray[np.float32], float]:
    """Directions in which rows differ most: a mean [m], directions [d, m], a step for 8 bits."""
    some = rows[:: max(1, len(rows) // _SAMPLE)].astype(np.float32) / ONE
    middle = some - some.mean(0)
    _, found = np.linalg.eigh((middle.T @ middle).astype(np.float64))
    kept = np.ascontiguousarray(found[:, ::-1][:, : WIDTH - 2].astype(np.float32))
    mean = some.mean(0) @ kept
    reach = float(np.quantile(np.abs(some @ kept - mean), 0.9999))
    return mean, kept, max(reach, 0.02) / 127


def _everything(n: int) -> Iterator[Tile]:
    """Tiles that hold every pair of n rows once; nearer rows first, as corpora have an order."""
    starts = range(0, n, _COLUMNS)
    for gap in range(len(starts)):
        for begin, other in zip(starts, starts[gap:], strict=False):
            end = min(n, begin + _COLUMNS)
            yield begin, end, other, min(n, other + _COLUMNS)


def _pieces(tiles: Sequence[Tile]) -> Iterator[Tile]:
    """Split tiles to a size that stays in the cache."""
    for a, b, c, d in tiles:
        for first in range(a, b, _ROWS):
            last = min(b, first + _ROWS)
            for second in range(first if a == c else c, d, _COLUMNS):
                yield first, last, second, min(d, second + _COLUMNS)


def _lists(
    rows: NDArray[np.int16], k: int, pairs: int, tiles: Sequence[Tile]
) -> tuple[Keys, NDArray[np.int32]]:
    """Heaps of the best keys of each row, int64 [n, k], and their sizes."""
    bounds = _Bounds(rows)
    least = _likely_threshold(rows, k, pairs) if pairs else 0.0
    heaps, counts, bins = _filled(rows, bounds, k, pairs, tiles, least)
    if least > 0 and _sure_threshold(bins, pairs) < least:  # the estimate was too high
        heaps, counts, _ = _filled(rows, bounds, k, pairs, tiles, 0.0)
    return heaps, counts


def _filled(
    rows: NDArray[np.int16],
    bounds: _Bounds,
    k: int,
    pairs: int,
    tiles: Sequence[Tile],
    least: float,
) -> tuple[Keys, NDArray[np.int32], NDArray[np.int64]]:
    """Heaps, their sizes, and the number of keys in each bin."""
    n = len(rows)
    heaps, counts = np.zeros((n, k), np.int64), np.zeros(n, np.int32)
    floor, bins = np.full(n + _RUN, bounds.floor(least), np.int32), np.zeros(_BINS, np.int64)
    room = np.zeros((_ROWS + _PAD, _COLUMNS + 2 * _RUN), np.int32)
    found = np.empty((room.size, 2), np.int32)
    scale = 1 / (ONE**2 * bounds.unit)
    for number, tile in enumerate(_pieces(tiles)):
        aligned = bounds.fill(tile, room)
        count = _reached(room, tile, aligned, bounds.more, floor, found)
        _look(found, count, rows, heaps, counts, floor, scale, bins)
        if pairs and number % _OFTEN == _OFTEN - 1:
            np.maximum(floor, bounds.floor(_sure_threshold(bins, pairs)), out=floor)
    return heaps, counts, bins


def _sure_threshold(bins: NDArray[np.int64], pairs: int) -> float:
    """A cosine that the last of the strongest pairs certainly reaches.

    A pair is in at most two lists, so twice as many entries reach this cosine.
    """
    above = np.cumsum(bins[::-1])
    lowest = len(bins) - 1 - int(np.searchsorted(above, 2 * pairs))
    return max(0.0, lowest * 2.0 ** (_BIN - 32) / ONE**2)


def _likely_threshold(rows: NDArray[np.int16], k: int, pairs: int) -> float:
    """A cosine that the last of the strongest pairs likely reaches, estimated from a few rows."""
    some = rows[:: -(-len(rows) // _ASKED)].astype(np.float32) / ONE**2
    best = np.empty((len(some), 0), np.float32)
    for begin in range(0, len(rows), _SAMPLE):
        found = some @ rows[begin : begin + _SAMPLE].T.astype(np.float32)
        best = np.sort(np.concatenate([best, found], axis=1), axis=1)[:, -k - 1 :]
    others = np.sort(best[:, :-1], axis=None)  # the highest is the row itself
    entries = int(_CAUTION * pairs * len(some) / len(rows))
    if entries >= len(others):
        return 0.0
    return max(0.0, float(others[-1 - entries]) - _SLACK)


def _cells(rows: NDArray[np.int16]) -> tuple[NDArray[np.int64], list[Tile]]:
    """Rows in the order of their cells, int64 [n], and the tiles of near cells in that order.

    Cells come from a few rounds of k-means, started at evenly spaced rows.
    """
    count = max(1, len(rows) // ROWS_PER_CELL)
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
    near = np.argsort(-products(centres, centres), axis=1, kind="stable")[:, :NEAR_CELLS]
    return np.argsort(cell, kind="stable"), list(near_cells(ends, near))


def _nearest_centre(rows: NDArray[np.int16], centres: NDArray[np.float32]) -> NDArray[np.int64]:
    """The cell of each row, int64 [n]; sums have a fixed order, so any machine gives the same."""
    cell = np.empty(len(rows), np.int64)
    for begin in range(0, len(rows), _ROWS):
        some = rows[begin : begin + _ROWS].astype(np.float32)
        cell[begin : begin + _ROWS] = products(some, centres).argmax(1)
    return cell


def near_cells(ends: NDArray[np.int64], near: NDArray[np.int64]) -> Iterator[Tile]:
    """Each cell with itself, then with its nearest cells in turn; no two cells twice."""
    met: set[tuple[int, int]] = set()
    own = np.arange(len(near))
    for column in (own, *near.T):
        low, high = np.minimum(own, column).tolist(), np.maximum(own, column).tolist()
        for one, other in zip(low, high, strict=True):
            if (one, other) not in met:
                met.add((one, other))
                yield int(ends[one]), int(ends[one + 1]), int(ends[other]), int(ends[other + 1])


@njit(cache=True, nogil=True)
def _read(
    heaps: Keys, counts: NDArray[np.int32], order: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Convert heaps of rows in some order to the result of `nearest`."""
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
        k: most neighbours of a row, at least 1.
        pairs: number of pairs for `strongest_pairs`; neighbours that cannot be among them may be
            missing. 0 finds all neighbours.
        exact: number of rows up to which every pair is examined; above, pairs of near cells.

    Returns:
        int32 [n, m] indices and int32 [n, m] products, highest first, m at most k; -1 and 0 if a
        row has fewer neighbours with a product above 0.
    """
    n = len(rows)
    if n < 2:
        return np.empty((n, 0), np.int32), np.empty((n, 0), np.int32)
    if n <= exact:
        order, tiles = np.arange(n), list(_everything(n))
    else:
        order, tiles = _cells(rows)
        rows = rows[order]
    places, found = _read(*_lists(rows, min(k, n - 1), pairs, tiles), order)
    return places, found


@njit(cache=True, nogil=True)
def _lists_too(places: NDArray[np.int32], found: NDArray[np.int32], product: int, i: int) -> bool:
    """Whether a neighbour of row i with that product has i in its own list."""
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
    places: NDArray[np.int32],
    found: NDArray[np.int32],
    first: NDArray[np.int32],
    second: NDArray[np.int32],
    product: NDArray[np.int32],
) -> int:
    """Write the pairs of all lists, each once, if there is room; returns their number."""
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
        most: largest number of pairs, those with the highest products; 0 for all.

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
