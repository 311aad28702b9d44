"""`ngram_coverage_unseen`: covers the target's most frequent n-grams with the fewest units.

What: selects units one by one: always the one with the highest total weight of n-grams that no
earlier unit has, divided by its length. The weight of an n-gram is its count in the target; the
`top` most frequent are listed. Earlier units score higher: 1 - units selected before / all units.
Why: `ngram_coverage` selects many texts that say the same; this method counts each n-gram once.
Trade-off: a score depends on the whole corpus and states only an order. Once all n-grams are
covered, after at most `top` units, the rest follows in the order of `ngram_coverage`. It runs in
one process, reads the corpus twice and needs up to 8 bytes per word and 60 per unit, so it suits
corpora of up to some tens of gigabytes; beyond 16 million units neighbors in the order share a
score. The greedy order is exact, and by the theorem of Nemhauser, Wolsey and Fisher (1978) covers
at least 63 % of the best possible selection, for texts of equal length.
Reference: Eck, Vogel and Waibel (2005), Low Cost Portability for Statistical Machine Translation
based on N-gram Coverage, section 3 (there for all orders up to n at once); Hiwarkhedkar et al.
(2024), TextGram, section 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.contracts import CorpusMethod, Texts, setting
from corpusfit_papers.coverage import greedy_order, listed_in
from corpusfit_papers.words import Listed, found_in, most_frequent


@dataclass(frozen=True)
class NgramCoverageUnseen(CorpusMethod):
    """Greedy coverage of the target's most frequent n-grams, each counted once.

    Attributes:
        order: Length of the n-grams, in tokens (default: 3).
        top: Number of listed n-grams (default: 10000).
        adaptive: List n-grams of the target; false lists those of the corpus sample (default:
            true).
    """

    reads = "text"
    family = "lexical"
    higher: ClassVar[str] = "selected earlier"
    cost: ClassVar[str] = "240,000/s"

    order: int = setting(3, minimum=1)
    top: int = setting(10_000, minimum=1)
    adaptive: bool = True

    def score_corpus(
        self, corpus: Iterable[tuple[int, Any]], target: Texts, background: Texts, *, seed: int
    ) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Score every unit by its position in the greedy order; `seed` is unused."""
        texts, role = (target, "target") if self.adaptive else (background, "corpus")
        listed = most_frequent(texts, role, self.order, self.top)
        shards, grams, counts, lengths = self._read(corpus, listed)
        ends = np.concatenate([[0], np.cumsum(counts)])
        scores = np.empty(len(lengths), np.float32)
        order = greedy_order(grams, ends, lengths, listed.counts)
        scores[order] = 1.0 - np.arange(len(order)) / max(1, len(order))
        first = 0
        for shard, units in shards:
            yield shard, scores[first : first + units]
            first += units

    def memory_mb(self, text_mb: float, units: int) -> float:
        """An estimate: 60 bytes per unit, and 4 per word (of about 6 bytes), twice while joined."""
        return 2 * 4 / 6 * text_mb + 60 * units / 1e6

    def _read(
        self, corpus: Iterable[tuple[int, Any]], listed: Listed
    ) -> tuple[list[tuple[int, int]], NDArray[np.int32], NDArray[np.int64], NDArray[np.int32]]:
        shards: list[tuple[int, int]] = []
        parts = []
        for shard, texts in corpus:
            shards.append((shard, len(texts)))
            found, ends = found_in(texts, listed.keys, listed.places, self.order)
            parts.append(listed_in(found, ends, len(listed.counts)))
        empty = (np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.int32))
        grams, counts, lengths = map(np.concatenate, zip(empty, *parts, strict=True))
        return shards, grams, counts, lengths
