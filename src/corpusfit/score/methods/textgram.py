"""`textgram`: at the centre of the corpus and the target's most typical units together.

What: the target units that most consist of the target's commonest bigrams join the corpus as nodes
of a graph; nodes are joined to the most similar ones with the cosine of their embeddings as the
edge's weight; a corpus unit's score is the logarithm of n times its PageRank in the whole graph.
Why: TextRank that looks at the target; the method that its paper proposes.
Trade-off: the target speaks through edges to its units alone, so a corpus much larger than the
target hardly hears it: on mixed text its order found the target's domain hardly better than chance.
With the paper's 500,000 pairs only near copies are joined; of 100,000 units of mixed text 69 % are
not joined at all, and share the lowest score. The paper's library iterates until ranks change by
1e-6 on average, which on large corpora is early; a lower `tolerance` gives the true PageRank. The
paper leaves open how many target units join. Its code takes every one that has one of the bigrams,
which is nearly every one; so they are bounded here only where they would be a corpus of their own,
and those that have most of the bigrams for their length come first.
Reference: Hiwarkhedkar et al. (2024), TextGram, section 5 and Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.errors import bad_setting
from corpusfit.kernels.characters import table
from corpusfit.kernels.coverage import coverage
from corpusfit.score.contract import CorpusMethod, Family
from corpusfit.score.similarity import Graph
from corpusfit.score.top_ngrams import check_listing, commonest
from corpusfit.types import Corpus, Paired, Reads, Texts, buffers


@dataclass(frozen=True)
class TextGram(CorpusMethod):
    """PageRank on the similarities of the corpus and typical target units (TextGram, section 5).

    Attributes:
        order: tokens in an n-gram.
        top: how many of the target's n-grams are listed.
        anchors: target units that join the corpus at most.
        neighbours: units that a unit is joined to at most, by its own choice.
        pairs: joined pairs in the whole graph at most, the most similar; 0 for all.
        tolerance: mean change of a rank at which iterating stops.
    """

    reads: ClassVar[Reads] = "embedding"
    learns: ClassVar[Reads | None] = "both"
    family: ClassVar[Family] = "graph"
    cost: ClassVar[str] = "10,000/s"

    order: int = 2
    top: int = 100
    anchors: int = 50_000
    neighbours: int = 100
    pairs: int = 500_000
    tolerance: float = 1e-6

    def __post_init__(self) -> None:
        check_listing(self.order, self.top)
        if self.anchors < 1:
            raise bad_setting("method.anchors", "at least 1", self.anchors)
        self._graph()

    def score_corpus(
        self, corpus: Corpus, target: Paired, background: Paired, *, seed: int
    ) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Rank every unit of the corpus; background and seed are not used.

        Raises:
            InputError: no target unit has as many tokens as an n-gram.
        """
        typical = target.vectors[self._typical(target.texts)]
        yield from self._graph().ranked(corpus, typical)

    def memory_mb(self, text_mb: float, units: int) -> float:
        """Some kilobytes a unit, whatever its text."""
        return self._graph().memory_mb(units + self.anchors)

    def _typical(self, texts: Texts) -> NDArray[np.int64]:
        """Places of the units that join the corpus, int64 [a]."""
        listed = commonest(texts, "target", self.order, self.top)
        weight = listed.counts / listed.total
        index = (listed.keys, listed.places, weight)
        share = coverage(*buffers(texts), table(), *index, self.order)
        best = np.argsort(-share, kind="stable")[: self.anchors]
        return np.sort(best[share[best] > 0])

    def _graph(self) -> Graph:
        return Graph(self.neighbours, self.pairs, self.tolerance)
