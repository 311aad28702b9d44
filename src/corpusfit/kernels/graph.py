"""PageRank on an undirected weighted graph.

What: the rows of a symmetric matrix from a list of weighted pairs, and the rank of every node.
Why: TextRank and TextGram rank texts by it; a graph of millions of pairs takes a second in flat
arrays.
Trade-off: one thread and plain sums in a fixed order, so that the bits depend only on the graph.
The iteration stops as networkx's does, when ranks change by less than `tolerance` per node on
average. Ranks are about 1 / n, so on large graphs networkx's 1e-6 stops early: after one step for n
above a million.
Reference: Brin and Page (1998), The Anatomy of a Large-Scale Hypertextual Web Search Engine,
section 2.1; Langville and Meyer (2005), for nodes without edges; weights as in Mihalcea and Tarau
(2004), TextRank, section 2.2.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray


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
    nodes, weights = np.empty(ends[n], np.int32), np.empty(ends[n], np.float64)
    for p in range(len(first)):
        i, j = first[p], second[p]
        nodes[at[i]], weights[at[i]] = j, weight[p]
        nodes[at[j]], weights[at[j]] = i, weight[p]
        at[i] += 1
        at[j] += 1
    return ends, nodes, weights


@njit(cache=True, nogil=True)
def pagerank(
    ends: NDArray[np.int64],
    nodes: NDArray[np.int32],
    weights: NDArray[np.float64],
    damping: float,
    tolerance: float,
    most: int,
) -> NDArray[np.float64]:
    """The rank of every node: how often a random walk along the edges visits it.

    With probability `damping` the walk follows an edge, in proportion to its weight; otherwise, and
    always from a node without edges, it jumps to a random node.

    Args:
        ends: int64 [n + 1], see `symmetric`.
        nodes: int32 [e], the same.
        weights: float64 [e], the same.
        damping: from 0 to below 1.
        tolerance: mean change of a rank below which the iteration stops.
        most: largest number of iterations.

    Returns:
        float64 [n], above 0; they add up to 1.
    """
    n = len(ends) - 1
    share = np.zeros(n, np.float64)  # 1 / sum of a node's weights, 0 without edges
    for i in range(n):
        total = 0.0
        for e in range(ends[i], ends[i + 1]):
            total += weights[e]
        if total > 0:
            share[i] = 1.0 / total
    rank = np.full(n, 1.0 / max(1, n))
    sent = np.empty(n, np.float64)
    for _ in range(most if n else 0):
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
