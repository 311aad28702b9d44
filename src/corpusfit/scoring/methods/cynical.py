"""`cynical`: the texts that lower most the target's cross-entropy under what has been taken so far.

What: the corpus is taken in rounds. In each round a text's gain is how much the cross-entropy of
the target would fall under a unigram model of everything taken before, per word of the text:

    (sum over words v of p(v) log((C(v) + c(v)) / C(v))  -  log((W + n) / W)) / n

where p(v) is the word's share of the target, C(v) its count in what was taken, W the words taken,
c(v) its count in the text and n the text's words; the same sum over pairs of words is added with a
weight of 0.1. The best texts are taken until the round's budget, and all others are scored again.
The order of taking is the score.
Why: a method that scores each text alone takes ever more of what is most typical of the target.
This one takes what the target still lacks, so that the words taken have the target's proportions.
Trade-off: it compares words, not meaning. A score depends on the whole corpus; the stored scorer
says where a new text would have come. Axelrod takes one text at a time; here the texts of a round
are scored together, which takes 20 passes over the counts instead of one for every text.
Reference: Axelrod (2017), Cynical Selection of Language Model Training Data (arXiv 1709.02279). The
pairs, the rounds and the start with the corpus's own counts are this project's; docs/auto.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.errors import bad_setting
from corpusfit.core.types import Reads, Texts, buffers
from corpusfit.kernels.backoff import keys_of
from corpusfit.kernels.characters import table as characters
from corpusfit.kernels.cynical import number_features
from corpusfit.kernels.kneser_ney import number_words
from corpusfit.kernels.tokens import BEGIN, END
from corpusfit.scoring.contract import Family
from corpusfit.scoring.rounds import Features, RoundMethod, RoundScorer, Taken

_FIRST = 0.001
"""Share of the corpus that the first round takes."""


@dataclass(frozen=True)
class Cynical(RoundMethod):
    """Order in which texts lower the target's cross-entropy most (cynical selection).

    Attributes:
        pairs: Weight of pairs of words, against 1 for single words (default: 0.1).
        rounds: Number of rounds; each takes the same multiple of the words before (default: 20).
        start: Words that count as taken at the start, with the corpus's own distribution, as a
            share of the corpus (default: 0.01).
    """

    reads: ClassVar[Reads] = "text"
    scorer: ClassVar[type] = RoundScorer
    family: ClassVar[Family] = "lexical"

    pairs: float = 0.1
    rounds: int = 20
    start: float = 0.01

    def __post_init__(self) -> None:
        if not self.pairs >= 0.0:
            raise bad_setting("`method.pairs`", "0 or more", self.pairs)
        if not 1 <= self.rounds <= 10_000:
            raise bad_setting("`method.rounds`", "from 1 to 10000", self.rounds)
        if not 0.0 < self.start <= 1.0:
            raise bad_setting("`method.start`", "in (0, 1]", self.start)

    def learn(self, target: Texts) -> Features:
        """The words and pairs of words of the target, with their shares."""
        words, names = number_words(*buffers(target), characters(), False)
        identities = names[words]
        inner = (identities != BEGIN) & (identities != END)
        both = inner[:-1] & inner[1:]
        pairs = keys_of(np.stack((identities[:-1][both], identities[1:][both]), axis=1))
        kinds = [(identities[inner], 1.0), (pairs, self.pairs)]
        found = [np.unique(kind, return_counts=True) for kind, weight in kinds if weight]
        shares = [w * n / max(1, n.sum()) for (_, n), (_, w) in zip(found, kinds, strict=False)]
        numbered = number_features(np.concatenate([kind for kind, _ in found]))
        return Features(numbered, np.concatenate(shares), self.pairs > 0)

    def begin(self, sums: NDArray[np.int64], words: int) -> Taken:
        """The corpus's counts times `start`."""
        return Taken(sums.astype(np.float64) * self.start, max(1, words) * self.start)

    def budgets(self, words: int) -> list[int]:
        """From a thousandth of the corpus to all of it, in equal ratios."""
        shares = np.geomspace(_FIRST, 1.0, self.rounds) if self.rounds > 1 else np.ones(1)
        return [round(words * share) for share in shares.tolist()]
