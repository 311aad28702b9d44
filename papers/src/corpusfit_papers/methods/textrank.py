"""`textrank`: central in the corpus, by PageRank on its similarities; ignores the target.

What: units are the nodes of a graph and link to the most similar units, with the cosine of their
embeddings as the edge's weight; a unit's score is the logarithm of n times its PageRank.
Why: TextGram builds on it and compares with it; it finds what much of the corpus says.
Trade-off: it ignores the target, so it is a baseline for methods that use it. With the paper's
500,000 pairs only near-duplicates are linked; of 100,000 units of mixed text 69 % have no link and
share the lowest score. The paper's library iterates until ranks change by 1e-6 on average, which is
too early on large corpora; a lower `tolerance` gives the true PageRank.
Reference: Hiwarkhedkar et al. (2024), TextGram, section 4.3, equation 11; Mihalcea and Tarau
(2004), TextRank: Bringing Order into Texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.contracts import CorpusMethod, setting
from corpusfit_papers.similarity import Graph


@dataclass(frozen=True)
class TextRank(CorpusMethod):
    """PageRank of a unit among the corpus; ignores the target (TextGram, section 4.3).

    Attributes:
        neighbors: Most similar units to which each unit links (default: 100).
        pairs: Most linked pairs in the whole graph, the most similar ones; 0 for all (default:
            500000).
        tolerance: Mean change of a rank at which the iteration stops (default: 1e-06).
    """

    reads = "embedding"
    family = "graph"
    higher: ClassVar[str] = "more central in the corpus"
    cost: ClassVar[str] = "10,000/s"

    neighbors: int = setting(100, minimum=1)
    pairs: int = setting(500_000, minimum=0)
    tolerance: float = setting(1e-6, above=0)

    def score_corpus(
        self,
        corpus: Iterable[tuple[int, Any]],
        target: NDArray[np.float32],
        background: NDArray[np.float32],
        *,
        seed: int,
    ) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Rank every unit of the corpus; target, background and seed are not used."""
        yield from self._graph().ranked(corpus, target[:0])

    def memory_mb(self, text_mb: float, units: int) -> float:
        """Some kilobytes per unit, independent of its text."""
        return self._graph().memory_mb(units)

    def _graph(self) -> Graph:
        return Graph(self.neighbors, self.pairs, self.tolerance)
