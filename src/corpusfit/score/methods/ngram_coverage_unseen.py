"""`ngram_coverage_unseen`: together the texts cover the target's commonest n-grams soonest.

What: takes unit after unit, each time the one whose n-grams that no unit before it had weigh most,
over its length; n-grams weigh as often as they are in the target, the `top` commonest of them. What
was taken earlier scores higher: 1 - taken before / all units.
Why: `ngram_coverage` takes many texts that say the same; this one does not count it twice.
Trade-off: a score depends on the whole corpus and says only who came first. Once all is covered, at
the latest after `top` units, the rest follows as `ngram_coverage` would have it. It runs in one
process, reads the corpus twice, and holds up to 8 bytes a word and 60 a unit, so it is for corpora
of up to some tens of gigabytes; beyond 16 million units neighbours in the order share a score. The
greedy order is exact, and by the theorem of Nemhauser, Wolsey and Fisher (1978) covers at least
63 % of what the best choice would, for texts of one length.
Reference: Eck, Vogel and Waibel (2005), Low Cost Portability for Statistical Machine Translation
based on N-gram Coverage, section 3 (there for all orders up to n at once); Hiwarkhedkar et al.
(2024), TextGram, section 4.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.kernels.characters import table
from corpusfit.kernels.unseen import greedy_order, listed_in
from corpusfit.score.contract import CorpusMethod, Family
from corpusfit.score.top_ngrams import Listed, check_listing, commonest
from corpusfit.types import Corpus, Reads, Texts, buffers


@dataclass(frozen=True)
class NgramCoverageUnseen(CorpusMethod):
    """Greedy coverage of the target's commonest n-grams (TextGram, section 4.3; Eck et al., 2005).

    Attributes:
        order: tokens in an n-gram.
        top: how many n-grams are listed.
        adaptive: list those of the target; false takes those of the corpus sample.
    """

    reads: ClassVar[Reads] = "text"
    family: ClassVar[Family] = "lexical"
    cost: ClassVar[str] = "240,000/s"

    order: int = 3
    top: int = 10_000
    adaptive: bool = True

    def __post_init__(self) -> None:
        check_listing(self.order, self.top)

    def score_corpus(
        self, corpus: Corpus, target: Texts, background: Texts, *, seed: int
    ) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Take every unit in the greedy order; seed is not used.

        Raises:
            InputError: no text that n-grams are listed from has as many tokens as an n-gram.
        """
        texts, role = (target, "target") if self.adaptive else (background, "corpus")
        listed = commonest(texts, role, self.order, self.top)
        shards, found, counts, lengths = self._read(corpus, listed)
        ends = np.concatenate([[0], np.cumsum(counts)])
        scores = np.empty(len(lengths), np.float32)
        order = greedy_order(found, ends, lengths, listed.counts)
        scores[order] = 1.0 - np.arange(len(order)) / max(1, len(order))
        first = 0
        for shard, units in shards:
            yield shard, scores[first : first + units]
            first += units

    def memory_mb(self, text_mb: float, units: int) -> float:
        """Up to 4 bytes a word of about 6, doubled while they are joined, and 60 bytes a unit."""
        return 2 * 4 / 6 * text_mb + 60 * units / 1e6

    def _read(
        self, corpus: Corpus, listed: Listed
    ) -> tuple[list[tuple[int, int]], NDArray[np.int32], NDArray[np.int64], NDArray[np.int32]]:
        """(shard, units) of every shard, and what `listed_in` says of all units together."""
        shards: list[tuple[int, int]] = []
        parts = []
        for shard, texts in corpus:
            shards.append((shard, len(texts)))
            index = (table(), listed.keys, listed.places, len(listed.counts), self.order)
            parts.append(listed_in(*buffers(texts), *index))
        none = (np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.int32))
        found, counts, lengths = map(np.concatenate, zip(none, *parts, strict=True))
        return shards, found, counts, lengths
