"""The scorer that a selection in rounds leaves: where a text would have come in the order."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.types import Texts, text_array
from corpusfit.kernels.backoff import find, keys_of
from corpusfit.scoring.contract import Effect, Scorer, require_fit
from corpusfit.scoring.rounds import Features, Round, Taken, order_scores
from corpusfit.scoring.surface_forms import written_tokens


@dataclass(frozen=True)
class RoundScorer(Scorer[Texts]):
    """What each of r rounds found taken, and what it took.

    Attributes:
        table, weights, pairs: the features, as in `Features`.
        counts: float64 [r, f], occurrences of each feature taken before each round.
        words: float64 [r], words taken before each round.
        budgets: int64 [r], as in `Round`.
        tops: float64 [r].
        thresholds: float64 [r].
    """

    table: NDArray[np.uint64]
    weights: NDArray[np.float64]
    pairs: bool
    counts: NDArray[np.float64]
    words: NDArray[np.float64]
    budgets: NDArray[np.int64]
    tops: NDArray[np.float64]
    thresholds: NDArray[np.float64]

    def __post_init__(self) -> None:
        r = len(self.words)
        bounds = (self.words, self.budgets, self.tops, self.thresholds)
        require_fit(
            r > 0,
            self.counts.shape == (r, len(self.features.weights)),
            *(each.shape == (r,) for each in bounds),
        )

    @classmethod
    def of(cls, features: Features, taken: list[Taken], rounds: list[Round]) -> RoundScorer:
        """From what was taken before each round, and the rounds' bounds."""
        return cls(
            features.table,
            features.weights,
            features.pairs,
            np.stack([t.counts for t in taken]),
            np.array([t.words for t in taken]),
            np.array([r.budget for r in rounds], np.int64),
            np.array([r.top for r in rounds]),
            np.array([r.threshold for r in rounds]),
        )

    @cached_property
    def features(self) -> Features:
        """What is counted."""
        return Features(self.table, self.weights, self.pairs)

    def taken(self, number: int) -> Taken:
        """What had been taken before a round, numbered from 0."""
        return Taken(self.counts[number], float(self.words[number]))

    def score(self, batch: Texts) -> NDArray[np.float32]:
        """Score n texts: float32 [n], the share of the corpus taken before them, as -log2."""
        gains, number = self._placed(batch)
        bounds = zip(self.budgets.tolist(), self.tops, self.thresholds, strict=True)
        return order_scores(gains, number, [Round(*b) for b in bounds])

    def meaning(self) -> str:
        """What the order and the effects are."""
        highest = float(np.log2(self.budgets[-1] / max(1, self.budgets[0]))) + 1
        return (
            "The score is the order of selection: -log2 of the share of the corpus's words that "
            f"are selected before the text, at most {highest:.2f}. An effect is what the words add "
            "to the target's coverage when the text is selected, less what they cost: 0.5 pays for "
            "half of the text. Effects do not add up to the score."
        )

    def explain(self, text: str) -> list[Effect]:
        """How much each n-gram raised the gain of a text in its round, against what words cost.

        All words of the text together cost about 1, so words that the target lacks lower it, each
        by 1 / n; an effect of 0.5 pays for half of the text. The effects add up to the gain times
        the words taken, divided by the sum of the weights.
        """
        ids, written = written_tokens(text)
        if not written:
            return []
        taken, n = self.taken(self._round_of(text)), len(written)
        parts = Counter(zip(ids.tolist(), written, strict=True))
        if self.pairs and n > 1:
            both = keys_of(np.stack((ids[:-1], ids[1:]), axis=1)).tolist()
            names = [" ".join(written[i : i + 2]) for i in range(n - 1)]
            parts.update(zip(both, names, strict=True))
        scale = taken.words / (float(self.weights.sum()) * n)
        cost = np.log1p(n / taken.words) * taken.words / n
        effects = dict.fromkeys(written, 0.0)
        for word in written:
            effects[word] -= cost / n
        for (identity, name), count in parts.items():
            slot, known = find(self.table, np.uint64(identity))
            if known:
                feature = int(self.table[slot, 1])
                before = max(float(taken.counts[feature]), _LEAST)
                rise = float(self.weights[feature]) * np.log1p(count / before) * scale
                effects[name] = effects.get(name, 0.0) + rise
        return [Effect(p, e) for p, e in sorted(effects.items(), key=lambda i: (-i[1], i[0]))]

    def _round_of(self, text: str) -> int:
        """The round that would take a text, from 0; reads only the counts of its own features."""
        found = self.features.count(text_array([text]))
        before = np.maximum(self.counts[:, found.features], _LEAST)
        n, scale = int(found.words[0]), float(self.weights.sum())
        rises = np.log1p(found.counts / before) @ self.weights[found.features]
        gains = ((rises - scale * np.log1p(n / self.words)) / n).astype(np.float32)
        passed = np.flatnonzero(gains >= self.thresholds)
        return int(passed[0]) if len(passed) else len(self.words) - 1

    def _placed(self, batch: Texts) -> tuple[NDArray[np.float32], NDArray[np.int16]]:
        """The gain of each text in the round that would take it, and the number of that round."""
        features = self.features
        counted = features.count(batch)
        number = np.zeros(len(batch), np.int16)
        gains = np.zeros(len(batch), np.float32)
        for i, threshold in enumerate(self.thresholds):
            taken = self.taken(i)
            taken = Taken(np.maximum(taken.counts, _LEAST), taken.words)
            found = taken.gains(features)(counted)
            last = i == len(self.thresholds) - 1
            now = (number == 0) & ((found >= threshold) | last)
            number[now], gains[now] = i + 1, found[now]
        return gains, number


_LEAST = 1e-3
"""Count of a feature that the corpus lacks, which only a text outside of it can have."""
