"""Nearest neighbors of every row among all rows, their strongest pairs, and PageRank on these.

What: for every row the k others with the highest cosines above 0; on request only those that can be
among a number of strongest pairs of all. Exact up to a number of rows: every pair is examined.
Above it only pairs of rows from the same or from near cells. The rank of every node of an
undirected weighted graph.
Why: similarity graphs need this, and all products of n rows take n² d / 2 multiplications. BLAS
multiplies them in blocks; pairs whose product can reach the list of one of their rows are
multiplied out exactly, and the threshold rises as neighbors are found.
Trade-off: rows are kept in 16-bit fixed point, which changes a cosine by about 0.00002; in return
products are whole numbers, the same bits on any machine and in any order. The last bits of BLAS
differ with the number of threads: its products have slack for that, and never decide. Among equal
neighbors the nearer row wins, so that many copies of one text form a band; if the lowest index
won, they would form a star whose center outranks all. The work grows with n²; with cells it grows
about with n, apart from the search for cells, and neighbors in far cells are missed. PageRank uses
one thread and plain sums in a fixed order; it stops as networkx's does, when ranks change by less
than `tolerance` per node on average, which on large graphs is early, as ranks are about 1 / n.
Reference: Jégou, Douze and Schmid (2011), Product Quantization for Nearest Neighbor Search,
section IV (cells); Brin and Page (1998), section 2.1; Langville and Meyer (2005), for nodes without
edges; Mihalcea and Tarau (2004), TextRank, section 2.2 (weights).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

from corpusfit.contracts import products

ONE = 32_000
"""The length of a row in fixed point: a cosine of 1 is a product of about ONE², below 2^30."""

Tile: TypeAlias = tuple[int, int, int, int]
"""Rows [a, b) to be compared with rows [c, d), where a = c and b = d, or b <= c."""

_TILE = 1024  # rows and columns of a block of products
_SAMPLE = 8192
_BINS = 1 << 16
_BIN_SHIFT = 46  # right shift of a key that gives its bin, 2^-16 wide
_FAR = np.int64(0x7FFFFFFF)
ROWS_PER_CELL = 1000
NEAR_CELLS = 32  # near cells of a cell, itself among them
_SAMPLED_PER_CELL = 64  # sampled rows per cell, to find its center
_K_MEANS_ROUNDS = 3
_THRESHOLD_ROWS = 256  # sampled rows whose neighbors give a likely threshold
# Entries of the sample per wanted pair. A pair has at most two, so this threshold is low enough.
_ENTRIES_PER_PAIR = 4
_LOWER = 1e-4  # a likely threshold is lowered by more than the rounding error of a cosine

Keys: TypeAlias = NDArray[np.int64]
"""A neighbor as one number, ordered by its product, then by the nearness of its row."""


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
    """The key of row j as a neighbor of row i."""
    return (np.int64(product) << 32) | (_FAR - 2 * abs(i - j) - (j < i))


@njit(cache=True, nogil=True, inline="always")
def _row_of(key: int, i: int) -> Any:
    """The row that is a neighbor of row i under a key."""
    far = _FAR - (key & _FAR)
    return i - (far >> 1) if far & 1 else i + (far >> 1)


@njit(cache=True, nogil=True)
def _keep(heaps: Keys, i: int, count: int, key: int, bins: NDArray[np.int64]) -> int:
    """Put a key into heap i of the best keys, lowest first; returns its new size."""
    k = heaps.shape[1]
    if count == k and key <= heaps[i, 0]:
        return count
    bins[key >> _BIN_SHIFT] += 1
    if count < k:
        at = count
        while at > 0 and heaps[i, (at - 1) >> 1] > key:
            heaps[i, at] = heaps[i, (at - 1) >> 1]
            at = (at - 1) >> 1
        heaps[i, at] = key
        return count + 1
    bins[heaps[i, 0] >> _BIN_SHIFT] -= 1
    at = 0
    child = 1
    while child < k:
        if child + 1 < k and heaps[i, child + 1] < heaps[i, child]:
            child += 1
        if heaps[i, child] >= key:
            break
        heaps[i, at] = heaps[i, child]
        at = child
        child = 2 * child + 1
    heaps[i, at] = key
    return count


@njit(cache=True, nogil=True)
def _look(
    block: NDArray[np.float32],
    tile: Tile,
    rows: NDArray[np.int16],
    heaps: Keys,
    counts: NDArray[np.int32],
    floor: NDArray[np.float32],
    bins: NDArray[np.int64],
) -> None:
    """Keep each pair of a tile for those of its rows that lack k better neighbors.

    Only pairs whose approximate product reaches the floor of one of their rows are multiplied out.
    """
    first, last, second, end = tile
    k = heaps.shape[1]
    # a bound for the rounding error of a sum
    slack = np.float32((rows.shape[1] + 16) * 2.0**-24 * ONE**2)
    for i in range(first, last):
        for j in range(max(second, i + 1), end):
            about = block[i - first, j - second] + slack
            if about < floor[i] and about < floor[j]:
                continue
            product = _product(rows, i, j)
            if product <= 0:
                continue
            one = i
            other = j
            for _ in range(2):
                counts[one] = _keep(heaps, one, counts[one], _key(product, one, other), bins)
                if counts[one] == k:
                    floor[one] = max(floor[one], np.float32(heaps[one, 0] >> 32))
                one, other = other, one


def _pieces(tiles: Sequence[Tile]) -> Iterator[Tile]:
    """Split tiles to a size that stays in the cache."""
    for a, b, c, d in tiles:
        for first in range(a, b, _TILE):
            for second in range(first if a == c else c, d, _TILE):
                yield first, min(b, first + _TILE), second, min(d, second + _TILE)


def _lists(
    rows: NDArray[np.int16], k: int, pairs: int, tiles: Sequence[Tile]
) -> tuple[Keys, NDArray[np.int32]]:
    """Heaps of the best keys of each row, int64 [n, k], and their sizes."""
    least = _likely_threshold(rows, k, pairs) if pairs else 0.0
    heaps, counts, bins = _filled(rows, k, pairs, tiles, least)
    # the estimate was too high: fill again without a threshold
    if least > 0 and _sure_threshold(bins, pairs) < least:
        heaps, counts, _ = _filled(rows, k, pairs, tiles, 0.0)
    return heaps, counts


def _filled(
    rows: NDArray[np.int16], k: int, pairs: int, tiles: Sequence[Tile], least: float
) -> tuple[Keys, NDArray[np.int32], NDArray[np.int64]]:
    """Heaps, their sizes, and the number of keys in each bin."""
    n = len(rows)
    heaps = np.zeros((n, k), np.int64)
    counts = np.zeros(n, np.int32)
    floor = np.full(n, least * ONE**2, np.float32)
    bins = np.zeros(_BINS, np.int64)
    for first, last, second, end in _pieces(tiles):
        left, right = (rows[a:b].astype(np.float32) for a, b in ((first, last), (second, end)))
        _look(left @ right.T, (first, last, second, end), rows, heaps, counts, floor, bins)
        if pairs:
            np.maximum(floor, np.float32(_sure_threshold(bins, pairs) * ONE**2), out=floor)
    return heaps, counts, bins


def _sure_threshold(bins: NDArray[np.int64], pairs: int) -> float:
    """A cosine that the last of the strongest pairs certainly reaches.

    A pair is in at most two lists, so twice as many entries reach this cosine.
    """
    above = np.cumsum(bins[::-1])
    lowest = len(bins) - 1 - int(np.searchsorted(above, 2 * pairs))
    return max(0.0, lowest * 2.0 ** (_BIN_SHIFT - 32) / ONE**2)


def _likely_threshold(rows: NDArray[np.int16], k: int, pairs: int) -> float:
    """A cosine that the last of the strongest pairs likely reaches, estimated from a few rows."""
    some = rows[:: -(-len(rows) // _THRESHOLD_ROWS)].astype(np.float32) / ONE**2
    best = np.empty((len(some), 0), np.float32)
    for begin in range(0, len(rows), _SAMPLE):
        cosines = some @ rows[begin : begin + _SAMPLE].T.astype(np.float32)
        best = np.sort(np.concatenate([best, cosines], axis=1), axis=1)[:, -k - 1 :]
    others = np.sort(best[:, :-1], axis=None)  # skip the highest, which is the row itself
    entries = int(_ENTRIES_PER_PAIR * pairs * len(some) / len(rows))
    if entries >= len(others):
        return 0.0
    return max(0.0, float(others[-1 - entries]) - _LOWER)


def _cells(rows: NDArray[np.int16]) -> tuple[NDArray[np.int64], list[Tile]]:
    """Rows in the order of their cells, int64 [n], and the tiles of near cells in that order.

    Cells come from a few rounds of k-means, started at evenly spaced rows.
    """
    count = max(1, len(rows) // ROWS_PER_CELL)
    centers = rows[:: len(rows) // count][:count].astype(np.float32)
    some = rows[:: max(1, len(rows) // (_SAMPLED_PER_CELL * count))]
    for _ in range(_K_MEANS_ROUNDS):
        cell = _nearest_center(some, centers)
        sums = np.zeros((count, rows.shape[1]))
        np.add.at(sums, cell, some)
        length = np.sqrt((sums * sums).sum(1, keepdims=True))
        centers = np.where(length > 0, sums / np.maximum(length, 1), centers).astype(np.float32)
    cell = _nearest_center(rows, centers)
    ends = np.concatenate([[0], np.cumsum(np.bincount(cell, minlength=count))])
    near = np.argsort(-products(centers, centers), axis=1, kind="stable")[:, :NEAR_CELLS]
    return np.argsort(cell, kind="stable"), list(near_cells(ends, near))


def _nearest_center(rows: NDArray[np.int16], centers: NDArray[np.float32]) -> NDArray[np.int64]:
    """The cell of each row, int64 [n]; sums have a fixed order, so any machine gives the same."""
    cell = np.empty(len(rows), np.int64)
    for begin in range(0, len(rows), _TILE):
        some = rows[begin : begin + _TILE].astype(np.float32)
        cell[begin : begin + _TILE] = products(some, centers).argmax(1)
    return cell


def near_cells(ends: NDArray[np.int64], near: NDArray[np.int64]) -> Iterator[Tile]:
    """Each cell with itself, then with its nearest cells in turn; no two cells twice."""
    met: set[tuple[int, int]] = set()
    cells = np.arange(len(near))
    for column in (cells, *near.T):
        low = np.minimum(cells, column).tolist()
        high = np.maximum(cells, column).tolist()
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
    places = np.full((n, k), -1, np.int32)
    products = np.zeros((n, k), np.int32)
    for i in range(n):
        ordered = np.sort(heaps[i, : counts[i]])[::-1]
        for at in range(len(ordered)):
            places[order[i], at] = order[_row_of(ordered[at], i)]
            products[order[i], at] = ordered[at] >> 32
    return places, products


def nearest(
    rows: NDArray[np.int16], k: int, *, pairs: int = 0, exact: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The nearest neighbors of every row.

    Args:
        rows: int16 [n, d], of `fixed_point`; n below 2^30.
        k: most neighbors of a row, at least 1.
        pairs: number of pairs for `strongest_pairs`; neighbors that cannot be among them may be
            missing. 0 finds all neighbors.
        exact: number of rows up to which every pair is examined; above, pairs of near cells.

    Returns:
        int32 [n, m] indices and int32 [n, m] products, highest first, m at most k; -1 and 0 if a
        row has fewer neighbors with a product above 0.
    """
    n = len(rows)
    if n < 2:
        return np.empty((n, 0), np.int32), np.empty((n, 0), np.int32)
    if n <= exact:
        order = np.arange(n)
        tiles = [(0, n, 0, n)]
    else:
        order, tiles = _cells(rows)
        rows = rows[order]
    places, products = _read(*_lists(rows, min(k, n - 1), pairs, tiles), order)
    return places, products


def strongest_pairs(
    places: NDArray[np.int32], products: NDArray[np.int32], max_pairs: int = 0
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """The pairs of rows where one is a neighbor of the other.

    Args:
        places: int32 [n, m], of `nearest`, called with the same number of pairs.
        products: int32 [n, m], the same.
        max_pairs: largest number of pairs, those with the highest products; 0 for all.

    Returns:
        int32 [p] and int32 [p] rows, int32 [p] their products; in the order of the first rows.
    """
    first, at = np.nonzero(places >= 0)
    second = places[first, at]
    product = products[first, at]
    pair = np.minimum(first, second) * len(places) + np.maximum(first, second)
    unique = np.sort(np.unique(pair, return_index=True)[1])  # two rows may list each other
    if max_pairs and len(unique) > max_pairs:
        unique = unique[np.sort(np.argsort(-product[unique], kind="stable")[:max_pairs])]
    return first[unique].astype(np.int32), second[unique], product[unique]


@njit(cache=True, nogil=True)
def symmetric(
    first: NDArray[np.int32], second: NDArray[np.int32], weight: NDArray[np.float64], n: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
    """The graph of p weighted pairs, each in the rows of both of its nodes.

    Args:
        first: int32 [p], nodes from 0 to n - 1.
        second: int32 [p], another node; no pair occurs twice.
        weight: float64 [p], above 0.
        n: number of nodes.

    Returns:
        int64 [n + 1], int32 [2 p], float64 [2 p]: node i is linked to `nodes[ends[i] : ends[i +
        1]]` with the `weights` at the same indices, in the pairs' order.
    """
    ends = np.zeros(n + 1, np.int64)
    for i, j in zip(first, second):  # noqa: B905  (numba knows no `strict`)
        ends[i + 1] += 1
        ends[j + 1] += 1
    ends = np.cumsum(ends)
    at = ends[:-1].copy()
    nodes = np.empty(ends[n], np.int32)
    weights = np.empty(ends[n], np.float64)
    for p in range(len(first)):
        i = first[p]
        j = second[p]
        nodes[at[i]] = j
        weights[at[i]] = weight[p]
        nodes[at[j]] = i
        weights[at[j]] = weight[p]
        at[i] += 1
        at[j] += 1
    return ends, nodes, weights


@njit(cache=True, nogil=True)
def pagerank(
    ends: NDArray[np.int64],  # int64 [n + 1], see `symmetric`
    nodes: NDArray[np.int32],  # int32 [e], the same
    weights: NDArray[np.float64],  # float64 [e], the same
    damping: float,  # from 0 to below 1
    tolerance: float,  # mean change of a rank below which the iteration stops
    max_iterations: int,  # largest number of iterations
) -> NDArray[np.float64]:
    """The rank of every node: how often a random walk along the edges visits it.

    With probability `damping` the walk follows an edge, in proportion to its weight; otherwise, and
    always from a node without edges, it jumps to a random node.

    Returns:
        float64 [n], above 0; they add up to 1.
    """
    n = len(ends) - 1
    # 1 / the sum of a node's weights; 0 for a node without edges
    share = np.zeros(n, np.float64)
    for i in range(n):
        total = 0.0
        for e in range(ends[i], ends[i + 1]):
            total += weights[e]
        if total > 0:
            share[i] = 1.0 / total
    rank = np.full(n, 1.0 / max(1, n))
    sent = np.empty(n, np.float64)
    for _ in range(max_iterations if n else 0):
        lost = 0.0
        for i in range(n):
            sent[i] = damping * rank[i] * share[i]
            if share[i] == 0:
                lost += rank[i]
        base = (1.0 - damping + damping * lost) / n
        change = 0.0
        for i in range(n):
            new = base
            for e in range(ends[i], ends[i + 1]):
                new += weights[e] * sent[nodes[e]]
            change += abs(new - rank[i])
            rank[i] = new
        if change < n * tolerance:
            break
    return rank
