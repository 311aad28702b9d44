"""Units ranked by PageRank on the graph of their similarities: what the graph methods share.

What: keeps the corpus's vectors while they stream by, joins units to their nearest neighbours by
cosine, and ranks them.
Why: TextRank and TextGram differ in what is put into the graph, not in what is done with it.
Trade-off: memory and time grow with the corpus, time as its square up to `EXACT` units; above,
only units in near cells are compared (`kernels/neighbours.py`).
Reference: Hiwarkhedkar et al. (2024), TextGram, section 4.3, equation 11, and Algorithm 1; the
graph is what sentence-transformers' `paraphrase_mining` makes, the ranks are networkx's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpusfit.errors import bad_setting
from corpusfit.kernels.graph import pagerank, symmetric
from corpusfit.kernels.neighbours import ONE, fixed_point, nearest, strongest_pairs
from corpusfit.score.blocks import plain_rows
from corpusfit.types import Corpus, Vectors

EXACT = 300_000
"""Units up to which every two are compared."""

_DAMPING, _ITERATIONS = 0.85, 1000
_WIDTH = 1024
"""A generous guess at how long a vector is, where only the number of units is known."""


@dataclass(frozen=True)
class Graph:
    """How a graph of similarities is made and ranked.

    Attributes:
        neighbours: units that a unit is joined to at most, by its own choice.
        pairs: joined pairs in the whole graph at most, the most similar; 0 for all.
        tolerance: mean change of a rank at which iterating stops.

    Raises:
        UsageError: a setting is out of its range.
    """

    neighbours: int
    pairs: int
    tolerance: float

    def __post_init__(self) -> None:
        if self.neighbours < 1:
            raise bad_setting("method.neighbours", "at least 1", self.neighbours)
        if self.pairs < 0:
            raise bad_setting("method.pairs", "0 (no bound) or more", self.pairs)
        if not self.tolerance > 0:
            raise bad_setting("method.tolerance", "above 0", self.tolerance)

    def ranked(self, corpus: Corpus, joined: Vectors) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """The logarithm of n times the rank of each unit of the corpus; 0 is the average.

        Args:
            corpus: (shard, float32 [m, d]), read once.
            joined: float32 [j, d], what is put into the graph beside the corpus; n counts both.

        Yields:
            (shard, float32 [m]) for every shard.
        """
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
        """MB for vectors (in 16 bits, and twice while they are ordered), lists and pairs."""
        listed = units * self.neighbours
        pairs = min(self.pairs, listed) if self.pairs else listed
        return (units * (4 * _WIDTH + 500) + 16 * listed + 60 * pairs) / 1e6

    def _scores(self, rows: NDArray[np.int16]) -> NDArray[np.float32]:
        lists = nearest(rows, self.neighbours, pairs=self.pairs, exact=EXACT)
        first, second, product = strongest_pairs(*lists, self.pairs)
        graph = symmetric(first, second, product / ONE**2, len(rows))
        rank = pagerank(*graph, _DAMPING, self.tolerance, _ITERATIONS)
        return np.asarray(np.log(len(rows) * rank), np.float32)
