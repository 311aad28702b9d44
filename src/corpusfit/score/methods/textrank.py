"""`textrank`: at the centre of the corpus, by PageRank on the similarities of its units.

What: units are the nodes of a graph, joined to the most similar ones with the cosine of their
embeddings as the edge's weight; a unit's score is the logarithm of n times its PageRank.
Why: what TextGram builds on and compares with; it finds what much of the corpus says.
Trade-off: it does not look at the target, so it is a baseline for methods that do. With the paper's
500,000 pairs only near copies are joined, and of 100,000 units of mixed text 69 % are not joined at
all; those share the lowest score. The paper's library iterates until ranks change by 1e-6 on
average, which on large corpora is early; a lower `tolerance` gives the true PageRank.
Reference: Hiwarkhedkar et al. (2024), TextGram, section 4.3, equation 11; Mihalcea and Tarau
(2004), TextRank: Bringing Order into Texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.score.contract import CorpusMethod, Family
from corpusfit.score.similarity import Graph
from corpusfit.types import Corpus, Reads, Vectors


@dataclass(frozen=True)
class TextRank(CorpusMethod):
    """PageRank on the corpus's similarities; the target is not looked at (TextGram, section 4.3).

    Attributes:
        neighbours: units that a unit is joined to at most, by its own choice.
        pairs: joined pairs in the whole graph at most, the most similar; 0 for all.
        tolerance: mean change of a rank at which iterating stops.
    """

    reads: ClassVar[Reads] = "embedding"
    family: ClassVar[Family] = "graph"
    cost: ClassVar[str] = "10,000/s"

    neighbours: int = 100
    pairs: int = 500_000
    tolerance: float = 1e-6

    def __post_init__(self) -> None:
        self._graph()

    def score_corpus(
        self, corpus: Corpus, target: Vectors, background: Vectors, *, seed: int
    ) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Rank every unit of the corpus; target, background and seed are not used."""
        yield from self._graph().ranked(corpus, target[:0])

    def memory_mb(self, text_mb: float, units: int) -> float:
        """Some kilobytes a unit, whatever its text."""
        return self._graph().memory_mb(units)

    def _graph(self) -> Graph:
        return Graph(self.neighbours, self.pairs, self.tolerance)
