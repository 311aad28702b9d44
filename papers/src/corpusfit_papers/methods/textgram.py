"""`textgram`: central among the corpus and the target's most typical units.

What: the target units richest in the target's most frequent bigrams join the corpus as nodes of a
graph. Nodes link to the most similar nodes, with the cosine of their embeddings as the edge's
weight. A corpus unit's score is the logarithm of n times its PageRank in the whole graph.
Why: a TextRank that uses the target; the method that the paper proposes.
Trade-off: the target acts only through edges to its units, so it hardly affects a corpus much
larger than itself: on mixed text the order found the target's domain hardly better than chance.
With the paper's 500,000 pairs only near-duplicates are linked; of 100,000 units of mixed text 69 %
have no link and share the lowest score. The paper's library iterates until ranks change by 1e-6 on
average, which is early on large corpora; a lower `tolerance` gives the true PageRank. The paper
does not say how many target units join. Algorithm 1 takes every unit with one of the bigrams, which
is nearly every unit, once for each of them (`copies`; papers/results/textgram.md has what it
changes); here a unit joins once, their number is bounded, and units with the most bigrams for their
length come first.
Reference: Hiwarkhedkar et al. (2024), TextGram, section 5 and Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.contracts import CorpusMethod, Paired, Texts, setting
from corpusfit_papers.coverage import coverage
from corpusfit_papers.similarity import Graph
from corpusfit_papers.words import OWN, check_words, found_in, in_words, most_frequent


@dataclass(frozen=True)
class TextGram(CorpusMethod):
    """PageRank of a unit among the corpus and typical target units (TextGram, section 5).

    Attributes:
        order: Length of the n-grams, in tokens (default: 2).
        top: Number of listed n-grams of the target (default: 100).
        anchors: Most target units that join the graph, copies included (default: 50000).
        copies: Join a target unit once for each listed n-gram in it, as Algorithm 1 does; false
            joins it once (default: false).
        neighbors: Most similar units to which each unit links (default: 100).
        pairs: Most linked pairs in the whole graph, the most similar ones; 0 for all (default:
            500000).
        words: Tokens: `own`, lower-cased words, or `nltk`, those of its word tokenizer (default:
            own).
        tolerance: Mean change of a rank at which the iteration stops (default: 1e-06).
    """

    reads = "embedding"
    learns = "both"
    family = "graph"
    higher: ClassVar[str] = "more central among the corpus and the target's most typical units"
    cost: ClassVar[str] = "10,000/s"

    order: int = setting(2, minimum=1)
    top: int = setting(100, minimum=1)
    anchors: int = setting(50_000, minimum=1)
    copies: bool = False
    neighbors: int = setting(100, minimum=1)
    pairs: int = setting(500_000, minimum=0)
    words: str = OWN
    tolerance: float = setting(1e-6, above=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_words(self.words)

    def score_corpus(
        self, corpus: Iterable[tuple[int, Any]], target: Paired, background: Paired, *, seed: int
    ) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Rank every unit of the corpus; background and seed are not used."""
        typical = target.vectors[self._typical(target.texts)]
        yield from self._graph().ranked(corpus, typical)

    def memory_mb(self, text_mb: float, units: int) -> float:
        """Some kilobytes per unit, independent of its text."""
        return self._graph().memory_mb(units + self.anchors)

    def _typical(self, texts: Texts) -> NDArray[np.int64]:
        """Positions of the target units that join the graph, int64 [a]; copies repeat."""
        texts = in_words(texts, self.words)
        listed = most_frequent(texts, "target", self.order, self.top)
        words = found_in(texts, listed.keys, listed.places, self.order)
        share = coverage(*words, listed.counts / listed.total, True)
        best = np.argsort(-share, kind="stable")
        if self.copies:
            covered = coverage(*words, np.ones(len(listed.counts)), False)
            best = np.repeat(best, covered.astype(np.int64)[best])
        best = best[: self.anchors]
        return np.sort(best[share[best] > 0])

    def _graph(self) -> Graph:
        return Graph(self.neighbors, self.pairs, self.tolerance)
