"""PageRank on the graph of the corpus's similarities, which the graph methods share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.contracts import plain_rows
from corpusfit_papers.neighbors import (
    ONE,
    fixed_point,
    nearest,
    pagerank,
    strongest_pairs,
    symmetric,
)

EXACT = 300_000
"""Number of units up to which all pairs are compared."""

_DAMPING = 0.85
_ITERATIONS = 1000
_WIDTH = 1024
"""Upper estimate of an embedding's dimensions, if only the number of units is known."""


@dataclass(frozen=True)
class Graph:
    """Construction and ranking of a graph of similarities.

    Memory and time grow with the corpus, time with its square up to `EXACT` units; above, only
    units in neighboring cells are compared (`neighbors.py`).

    Reference: Hiwarkhedkar et al. (2024), TextGram, section 4.3, equation 11, and Algorithm 1; the
    graph is that of sentence-transformers' `paraphrase_mining`, the ranks are those of networkx.
    """

    neighbors: int  # most similar units to which each unit links
    pairs: int  # most linked pairs in the whole graph, the most similar ones; 0 for all
    tolerance: float  # mean change of a rank at which the iteration stops

    def ranked(
        self, corpus: Iterable[tuple[int, Any]], joined: NDArray[np.float32]
    ) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Rank the corpus: the logarithm of n times each unit's rank; 0 is the average."""
        parts = {shard: fixed_point(plain_rows(vectors)) for shard, vectors in corpus}
        counts = {shard: len(part) for shard, part in parts.items()}
        filled = [p for p in (*parts.values(), fixed_point(plain_rows(joined))) if len(p)]
        parts.clear()
        scores = self._scores(np.concatenate(filled)) if filled else np.empty(0, np.float32)
        first = 0
        for shard, count in counts.items():
            yield shard, scores[first : first + count]
            first += count

    def memory_mb(self, units: int) -> float:
        """Memory in MB for embeddings (16 bits, twice while they are sorted), lists and pairs."""
        listed = units * self.neighbors
        pairs = min(self.pairs, listed) if self.pairs else listed
        return (units * (4 * _WIDTH + 500) + 16 * listed + 60 * pairs) / 1e6

    def _scores(self, rows: NDArray[np.int16]) -> NDArray[np.float32]:
        lists = nearest(rows, self.neighbors, pairs=self.pairs, exact=EXACT)
        first, second, product = strongest_pairs(*lists, self.pairs)
        graph = symmetric(first, second, product / ONE**2, len(rows))
        rank = pagerank(*graph, _DAMPING, self.tolerance, _ITERATIONS)
        return np.asarray(np.log(len(rows) * rank), np.float32)
