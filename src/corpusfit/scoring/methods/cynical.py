"""`cynical`: the texts that most lower the target's cross-entropy under what is selected so far.

What: the corpus is selected in rounds. In each round a text's gain is how much it would lower the
cross-entropy of the target under a unigram model of everything selected before, per word:

    (sum over words v of p(v) log((C(v) + c(v)) / C(v))  -  log((W + n) / W)) / n

where p(v) is the word's share of the target, C(v) its count in the text selected so far, W the
number of words selected so far (to both the corpus's own counts are added, scaled to 0.3 words for
each word of the round's budget, and 0.3 more for each percent of the corpus that the budget is),
c(v) its count in the text and n the number of the text's words; the same sum over bigrams is added
with a weight of 0.3, and none of a text's words and bigrams counts for more than a tenth of the
text's sum. A text counts for nothing if, in a random sample of the corpus, the order of its words
is eight times less likely than by chance. The best texts are selected up to the round's budget, and
all others are scored again; one of more than ten times the mean length waits for a round with room
for it. The score is the order of selection.
Why: a method that scores each text alone selects ever more of what is most typical of the target.
This one selects what is still missing, so that the selected words match the target's proportions.
Trade-off: it compares words, not meaning. A score depends on the whole corpus; the stored scorer
ranks a new text where it would have been selected. Axelrod selects one text at a time; here the
texts of a round are scored together: 40 passes over the counts instead of one per selected text.
Without the limit of a tenth, a selection begins with short texts that repeat one rare word; without
the look at the order, with words of the target in any order.
Reference: Axelrod (2017), Cynical Selection of Language Model Training Data (arXiv 1709.02279). The
bigrams, the rounds, what the corpus's own counts add, the limit and the order are this project's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.errors import bad_setting
from corpusfit.core.settings import setting
from corpusfit.core.types import Reads, Texts
from corpusfit.kernels.backoff import keys_of
from corpusfit.kernels.characters import table as characters
from corpusfit.kernels.cynical import number_features
from corpusfit.kernels.kneser_ney import number_words
from corpusfit.kernels.tokens import BEGIN, END
from corpusfit.scoring.contract import Family
from corpusfit.scoring.rounds import Features, RoundMethod, RoundScorer, TextCounts
from corpusfit.scoring.tokens import word_buffers

_FIRST_SHARE = 0.00001  # of the corpus, selected in the first round
_LEAST_ODDS = -np.log(8)  # of the order of a text's words against chance
_IN_DISORDER = 0.05  # of the target's texts may have lower odds


@dataclass(frozen=True)
class Cynical(RoundMethod):
    """Order in which texts most lower the target's cross-entropy (cynical selection).

    Attributes:
        pairs: Weight of bigrams, relative to 1 for single words (default: 0.3).
        rounds: Number of rounds; their budgets grow geometrically (default: 40).
        start: The corpus's own counts, scaled to so many words for each word of a round's budget,
            are added to those of the selected text; as many more for each percent of the corpus
            that the budget is (default: 0.3).
        rounds_gb: GB of text (billions of characters) that the rounds read at most. Of a larger
            corpus they read a sample of that size, drawn by hash; every text gets its place from
            the sample's rounds, and the first rounds are repeated on all texts (default: 8.0).
    """

    reads: ClassVar[Reads] = "text"
    scorer: ClassVar[type] = RoundScorer
    family: ClassVar[Family] = "lexical"
    cost: ClassVar[str] = "35,000/s"
    higher: ClassVar[str] = "selected earlier"

    pairs: float = setting(0.3, minimum=0)
    rounds: int = setting(40, minimum=1, maximum=10_000)
    start: float = setting(0.3, above=0, maximum=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.rounds_gb > 0.0:
            raise bad_setting("`method.rounds_gb`", "above 0", self.rounds_gb)

    def learn(self, target: Texts, background: Texts) -> Features:
        """The words and bigrams of the target, weighted by their shares."""
        numbers, vocabulary = number_words(*word_buffers(target), characters(), False)
        tokens = vocabulary[numbers]
        is_word = (tokens != BEGIN) & (tokens != END)
        is_bigram = is_word[:-1] & is_word[1:]
        bigrams = keys_of(np.stack((tokens[:-1][is_bigram], tokens[1:][is_bigram]), axis=1))
        weighted = [(tokens[is_word], 1.0)]
        if self.pairs:
            weighted.append((bigrams, self.pairs))
        features = []
        weights = []
        for occurrences, weight in weighted:
            distinct, counts = np.unique(occurrences, return_counts=True)
            features.append(distinct)
            weights.append(weight * counts / max(1, counts.sum()))
        table = number_features(np.concatenate(features))
        learned = Features(table, np.concatenate(weights), self.pairs > 0)
        return _with_order(learned, features[0], target, background)

    def begin(self, corpus: TextCounts, budget: int) -> TextCounts:
        """The corpus's counts, as of `start` times the budget's words, more for later rounds."""
        # Without them, the first texts would be those with most of the target's frequent words; a
        # fixed number of words is too many for a small amount and too few for a large one. Of a
        # large share, what is typical of the target matters more than what is still missing: by
        # the latter alone, text of other domains follows before the target's own is all taken.
        budget_share = max(1, budget) / max(1.0, corpus.words)
        share = self.start * (1 + 100 * budget_share) * budget_share
        return TextCounts(corpus.counts * share, max(1.0, corpus.words) * share)

    def budgets(self, words: int) -> list[int]:
        """Budgets from a part in 100,000 of the corpus to all of it, growing geometrically."""
        shares = np.geomspace(_FIRST_SHARE, 1.0, self.rounds) if self.rounds > 1 else np.ones(1)
        return [round(words * share) for share in shares.tolist()]


def _with_order(
    features: Features,
    words: NDArray[np.uint64],  # sorted, the words of the target, which are the first features
    target: Texts,
    background: Texts,
) -> Features:
    """The features with how often a sample of the corpus has two words of the target in a row."""
    if not len(words):
        return features
    numbers, vocabulary = number_words(*word_buffers(background), characters(), False)
    places = np.minimum(np.searchsorted(words, vocabulary), len(words) - 1)
    in_target = (words[places] == vocabulary)[numbers]
    commonness = np.zeros(len(features.weights))
    commonness[: len(words)] = np.bincount(places[numbers[in_target]], minlength=len(words))
    commonness /= np.sqrt(max(1, len(numbers) - 2 * len(background)))

    tokens = vocabulary[numbers]
    both = in_target[:-1] & in_target[1:]
    bigrams = keys_of(np.stack((tokens[:-1][both], tokens[1:][both]), axis=1))
    distinct, counts = np.unique(bigrams, return_counts=True)
    several = counts > 1  # one that is seen once is as good as an unseen one
    seen = number_features(distinct[several])
    seen[:, 1] = np.where(seen[:, 0] > 0, np.append(counts[several], 0)[seen[:, 1]], 0)

    learned = replace(features, seen=seen, commonness=commonness)
    # key words, or a target in another language than the corpus, are in no order that it knows
    usual = float(np.quantile(learned.order_odds(target), _IN_DISORDER, method="lower"))
    return replace(learned, least=min(_LEAST_ODDS, usual))
