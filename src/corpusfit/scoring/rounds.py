"""Take a corpus in rounds: score what is left, take the best up to a budget, score again."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.types import Corpus, Texts, text_array
from corpusfit.kernels import cynical
from corpusfit.kernels.backoff import empty_table, find, fits, keys_of
from corpusfit.kernels.characters import table as characters
from corpusfit.kernels.threshold import Keys, Selector, Threshold, find_threshold
from corpusfit.scoring.contract import CorpusMethod, Effect, Scorer, require_fit, sum_by_part
from corpusfit.scoring.tokens import word_buffers, written_tokens

UNTAKEN_SCORE = -1.0
"""Score of a text without a word, which is taken last; all others have 0 or more."""

_LONG = 10
"""Times the mean words of a text, from which one that a round has no room for does not stop it."""

_WITHIN = 64 / 65  # the last text of a round still scores above the first of the next


@dataclass(frozen=True)
class Counted:
    """How often m texts have each feature."""

    features: NDArray[np.uint32]  # [e], the features of all texts, each once a text
    counts: NDArray[np.uint16]  # [e], how often
    last: NDArray[np.int64]  # [m], where the features of each text end
    words: NDArray[np.int64]  # [m], words of each text

    def of(self, chosen: NDArray[np.bool_]) -> Counted:
        """The counts of the chosen texts, bool [m]."""
        lengths = np.diff(self.last, prepend=0)
        kept = np.repeat(chosen, lengths)
        last = np.cumsum(lengths[chosen])
        return Counted(self.features[kept], self.counts[kept], last, self.words[chosen])

    def without(self, texts: NDArray[np.bool_]) -> Counted:
        """The counts without the features of some texts, bool [m]; these keep their words."""
        lengths = np.diff(self.last, prepend=0)
        kept = np.repeat(~texts, lengths)
        last = np.cumsum(np.where(texts, 0, lengths))
        return Counted(self.features[kept], self.counts[kept], last, self.words)


@dataclass(frozen=True)
class Features:
    """Counted features of the target: words and pairs of words."""

    table: NDArray[np.uint64]  # [slots, 2], from an identity to a feature's number
    # [f], a feature's share of the target times the weight of its kind
    weights: NDArray[np.float64]
    pairs: bool  # whether some are pairs
    # as in `kernels/cynical.count`; without them every order of words is as good
    seen: NDArray[np.uint64] = field(default_factory=partial(empty_table, 0))
    commonness: NDArray[np.float64] = field(default_factory=partial(np.zeros, 0))
    least: float = 0.0  # odds of its order below which a text has no features

    def __post_init__(self) -> None:
        f = len(self.weights)
        require_fit(
            cynical.fits(self.table, f),
            self.weights.ndim == 1,
            fits(self.seen, 1),
            self.commonness.shape in ((f,), (0,)),
        )

    def count(self, texts: Texts, first: NDArray[np.int64] | None = None) -> Counted:
        """Count the features of texts; with `first`, int64 [m], of texts joined from these on."""
        data, offsets = word_buffers(texts)
        if first is not None:
            offsets = np.append(offsets[first], offsets[-1])
        *counted, odds = self._counts(data, offsets)
        return Counted(*counted).without(odds < self.least)

    def order_odds(self, texts: Texts) -> NDArray[np.float64]:
        """How much likelier the order of each text's words is than by chance: log, float64 [n]."""
        odds: NDArray[np.float64] = self._counts(*word_buffers(texts))[-1]
        return odds

    def _counts(self, data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> Any:
        """What `kernels/cynical.count` returns for texts."""
        size = len(self.weights)
        order = (self.seen, self.commonness)
        return cynical.count(data, offsets, characters(), self.table, size, self.pairs, *order)


Summed = tuple[NDArray[np.int64], NDArray[Any], float]
"""The features of some texts, how often these have each, and their words."""


def summed(parts: Iterable[tuple[Counted, NDArray[np.bool_] | None]], features: int) -> Summed:
    """Sum the counts of the chosen texts of some parts, bool [m]; None stands for all."""
    sums = np.zeros(features, np.int64)
    words = 0
    for counted, chosen in parts:
        taken = np.ones(len(counted.words), np.bool_) if chosen is None else chosen
        cynical.add_counts(counted.features, counted.counts, counted.last, taken, sums)
        words += int(counted.words[taken].sum())
    numbers = np.flatnonzero(sums)
    return numbers, sums[numbers], words


class TextCounts(NamedTuple):
    """Counts of features in some text: that of the corpus, or what is taken so far."""

    counts: NDArray[np.float64]  # [f], occurrences of each feature
    words: float

    def gains(self, features: Features) -> Callable[[Counted], NDArray[np.float32]]:
        """A function from texts to their gains, float32 [m]; see `kernels/cynical.py`."""
        weights = features.weights
        scale = float(features.weights.sum())
        usual = cynical.usual_gains(weights, self.counts)

        def gains(counted: Counted) -> NDArray[np.float32]:
            arrays = vars(counted).values()
            values: NDArray[np.float32] = cynical.gains(
                *arrays, weights, self.counts, usual, self.words, scale
            )
            return values

        return gains

    def with_more(self, parts: Iterable[Summed]) -> TextCounts:
        """Add what was summed up of each of some parts."""
        counts = self.counts.copy()
        total = self.words
        for numbers, more, words in parts:
            counts[numbers] += more
            total += words
        return TextCounts(counts, total)

    def of_all(self, share: float) -> TextCounts:
        """About the counts in all the text, if these are in a sample with this share of it."""
        return TextCounts(self.counts / share, self.words / share)


@dataclass(frozen=True)
class Round:
    """The bounds of one round, which make the order of taking a score."""

    budget: int  # words taken after the round
    top: float = -np.inf  # highest gain of a text that was left before the round
    threshold: float = np.inf  # lowest gain of a text that the round took

    def widened(self, left: NDArray[np.float32], chosen: NDArray[np.float32]) -> Round:
        """The bounds with further texts: gains of those left before the round, of those taken."""
        least = float(np.where(chosen > cynical.WORDLESS, chosen, np.inf).min(initial=np.inf))
        top = max(self.top, float(left.max(initial=-np.inf)))
        return Round(self.budget, top, min(self.threshold, least))

    def scores(self, gains: NDArray[np.float32], before: float, after: float) -> Any:
        """The scores of the texts that this round took: from `before` down to above `after`."""
        width = self.top - self.threshold
        depth = (self.top - gains.astype(np.float64)) / width if width > 0 else np.zeros(len(gains))
        return before - (before - after) * _WITHIN * np.clip(depth, 0.0, 1.0)


def order_scores(
    gains: NDArray[np.float32], number: NDArray[np.int16], rounds: Sequence[Round]
) -> NDArray[np.float32]:
    """Convert the order of selection to scores: about -log2 of the share taken so far."""
    # Exact at the end of a round, and interpolated by the gain within it.
    total = max(1, rounds[-1].budget)
    levels = [np.log2(total / max(1, r.budget)) for r in rounds]
    levels.insert(0, levels[0] + 1)
    scores = np.full(len(gains), UNTAKEN_SCORE)
    for i, bounds in enumerate(rounds):
        in_round = (number == i + 1) & (gains > cynical.WORDLESS)
        scores[in_round] = bounds.scores(gains[in_round], levels[i], levels[i + 1])
    return scores.astype(np.float32)


@dataclass(frozen=True)
class State:
    """What the rounds so far have taken."""

    taken: TextCounts
    rounds: tuple[Round, ...] = ()
    thresholds: tuple[Threshold, ...] = ()  # of the last round, for each group of texts

    def threshold(self, group: int) -> Threshold | None:
        """That of a group; None before the first round."""
        return self.thresholds[group] if self.thresholds else None


@dataclass(frozen=True)
class Group:
    """The m texts of some parts, after a round scored them."""

    # [m], the number of the round that took each text, from 1; 0 if it is left
    number: NDArray[np.int16]
    gains: NDArray[np.float32]  # [m], gain in that round, or in the last round that scored it
    words: NDArray[np.int64]  # [m], words of each text
    ends: NDArray[np.int64]  # [p], where the texts of each part end

    @classmethod
    def of(cls, parts: Sequence[Counted]) -> Group:
        """The texts before the first round."""
        words = np.concatenate([np.empty(0, np.int64), *(part.words for part in parts)])
        ends = np.cumsum([len(part.words) for part in parts], dtype=np.int64)
        return cls(np.zeros(len(words), np.int16), np.zeros(len(words), np.float32), words, ends)

    @property
    def untaken(self) -> Keys:
        """Gains and words of what is left; equal gains go by position."""
        left = self.number == 0
        gains = self.gains[left]
        return gains, self.words[left], np.zeros(len(gains), np.uint16)

    def chosen(self, threshold: Threshold) -> NDArray[np.bool_]:
        """The texts that a threshold takes of those left, bool [m]."""
        chosen = np.asarray(self.number == 0)
        chosen[chosen] = Selector(threshold).select(*self.untaken)
        return chosen

    def after(self, threshold: Threshold | None, number: int) -> Group:
        """The group with what a round took, by its threshold and its number."""
        if threshold is None:
            return self
        return replace(self, number=np.where(self.chosen(threshold), np.int16(number), self.number))

    def scored(
        self,
        parts: Sequence[Counted],
        gains_of: Callable[[Counted], NDArray[np.float32]],
        longest: float,  # words of the longest text that does not wait for a later round
    ) -> Group:
        """The group with the gains of what is left."""
        gains = np.concatenate([np.empty(0, np.float32), *map(gains_of, parts)])
        gains = np.where(self.words <= longest, gains, np.float32(-np.inf))
        return replace(self, gains=np.where(self.number == 0, gains, self.gains))


@dataclass(frozen=True)
class RoundMethod(CorpusMethod):
    """A corpus method that takes texts in rounds, so that every step can be mapped over shards.

    Its scorer is a `RoundScorer`, which estimates where a text would have been in the order.

    `selection/rounds.py` takes whole segments of a corpus of any size; `score_corpus`
    takes units that fit in memory, for `rank`.
    """

    whole_segments: ClassVar[bool] = True

    rounds_gb: float = field(default=8.0, kw_only=True)
    """GB of text up to which `selection/rounds.py` takes all of it in rounds, else a sample."""

    @abstractmethod
    def learn(self, target: Texts, background: Texts) -> Features:
        """The features of the target to count, with weights; and the order of words in a sample."""

    @abstractmethod
    def begin(self, corpus: TextCounts, budget: int) -> TextCounts:
        """What is added to the counts of what is taken, in the round up to a budget in words."""

    @abstractmethod
    def budgets(self, words: int) -> list[int]:
        """Cumulative budget of each round, in words; the last one is the whole corpus."""

    def score_corpus(
        self, corpus: Corpus, target: Texts, background: Texts, *, seed: int
    ) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Take the corpus's units; the seed is not used."""
        features = self.learn(target, background)
        counted = {shard: features.count(texts) for shard, texts in corpus}
        rounds = _InMemory(self, features, list(counted.values()))
        state = State(TextCounts(np.zeros(len(features.weights)), 0))
        for budget in self.budgets(int(rounds.corpus.words)):
            state = rounds.next(state, budget)
        group = rounds.group_after(state)
        scores = order_scores(group.gains, group.number, state.rounds)
        yield from zip(counted, np.split(scores, group.ends[:-1]), strict=False)

    def memory_mb(self, text_mb: float, units: int) -> float:
        """The counts of the whole corpus; a selection reads those of a few shards at a time."""
        return 50.0 + 1.5 * text_mb


def scored_by(
    method: RoundMethod, corpus: TextCounts, taken: TextCounts, budget: int, share: float = 1.0
) -> TextCounts:
    """The counts by which the round up to a budget scores, after some of a share is taken."""
    about = taken.of_all(share)
    more = method.begin(corpus, budget)
    return TextCounts(about.counts + more.counts, about.words + more.words)


@dataclass
class Rounds(ABC):
    """Takes the texts of a corpus in rounds: what a round is, wherever their counts are."""

    method: RoundMethod
    corpus: TextCounts  # counts of the whole corpus
    texts: float  # number of all texts of the corpus, about
    share: float  # of the corpus that is here, if it is a sample

    @abstractmethod
    def score(self, state: State, budget: int, longest: float) -> None:
        """Score what a state leaves by `scored_by`; `longest` as in `Group.scored`."""

    @abstractmethod
    def untaken(self) -> Iterator[Keys]:
        """Gains and words of what is left, group by group."""

    @abstractmethod
    def sums(self, state: State) -> Iterable[Summed]:
        """What the last round of a state took, summed up by group."""

    def next(self, state: State, budget: int) -> State:
        """Score what is left, and take the best until the budget."""
        room = math.ceil(budget * self.share) - int(state.taken.words)
        # A round ends at the first text that it has no room for, so that early ones do not take
        # whatever is short. But it must not wait for a text that is far longer than others.
        self.score(state, budget, max(room, _LONG * self.corpus.words / max(1, self.texts)))
        selector = Selector(find_threshold(self.untaken, room))
        thresholds = []
        bounds = Round(budget)
        for gains, words, draws in self.untaken():
            thresholds.append(selector.rest)
            bounds = bounds.widened(gains, gains[selector.select(gains, words, draws)])
        after = State(state.taken, (*state.rounds, bounds), tuple(thresholds))
        return replace(after, taken=state.taken.with_more(self.sums(after)))


class _InMemory(Rounds):
    """Rounds on texts whose counts are in memory, which are one group."""

    def __init__(self, method: RoundMethod, features: Features, parts: list[Counted]) -> None:
        self._features = features
        self._parts = parts
        self._group = Group.of(parts)
        size = len(features.weights)
        corpus = TextCounts(np.zeros(size), 0).with_more([summed(((p, None) for p in parts), size)])
        super().__init__(method, corpus, len(self._group.words), 1.0)

    def score(self, state: State, budget: int, longest: float) -> None:
        gains_of = scored_by(self.method, self.corpus, state.taken, budget).gains(self._features)
        self._group = self.group_after(state).scored(self._parts, gains_of, longest)

    def untaken(self) -> Iterator[Keys]:
        yield self._group.untaken

    def sums(self, state: State) -> Iterable[Summed]:
        chosen = np.split(self._group.chosen(state.thresholds[0]), self._group.ends[:-1])
        yield summed(zip(self._parts, chosen, strict=False), len(self._features.weights))

    def group_after(self, state: State) -> Group:
        """All texts, with what the last round of a state took."""
        return self._group.after(state.threshold(0), len(state.rounds))


@dataclass(frozen=True)
class RoundScorer(Scorer[Texts]):
    """The state before each of r rounds, and the bounds of what it took."""

    table: NDArray[np.uint64]  # with weights and pairs the features, as in `Features`
    weights: NDArray[np.float64]
    pairs: bool
    # [r, f] and [r], occurrences of each feature and words by which each round scores: those
    # taken before it, and what `begin` adds
    counts: NDArray[np.float64]
    words: NDArray[np.float64]
    budgets: NDArray[np.int64]  # [r], as in `Round`
    tops: NDArray[np.float64]  # [r]
    thresholds: NDArray[np.float64]  # [r]
    seen: NDArray[np.uint64]  # this and the next two as in `Features`
    commonness: NDArray[np.float64]
    least: float

    def __post_init__(self) -> None:
        r = len(self.words)
        bounds = (self.words, self.budgets, self.tops, self.thresholds)
        require_fit(
            r > 0,
            self.counts.shape == (r, len(self.features.weights)),
            *(each.shape == (r,) for each in bounds),
        )

    @classmethod
    def of(
        cls, features: Features, taken: Sequence[TextCounts], rounds: Sequence[Round]
    ) -> RoundScorer:
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
            features.seen,
            features.commonness,
            features.least,
        )

    @cached_property
    def features(self) -> Features:
        """What is counted."""
        order = (self.seen, self.commonness, self.least)
        return Features(self.table, self.weights, self.pairs, *order)

    @cached_property
    def _known(self) -> NDArray[np.float64]:
        """`counts`, but above 0 for what the corpus lacks, which only a text outside of it has."""
        known = np.where(self.counts > 0, self.counts, np.inf)
        least = known.min(axis=1, initial=np.inf, keepdims=True) / 10
        return np.asarray(np.where(np.isfinite(known), known, np.minimum(least, 1.0)))

    @property
    def bounds(self) -> list[Round]:
        """The bounds of each round."""
        values = zip(self.budgets.tolist(), self.tops, self.thresholds, strict=True)
        return [Round(*each) for each in values]

    def score(self, batch: Texts) -> NDArray[np.float32]:
        """Score n texts: float32 [n], the share of the corpus taken before them, as -log2."""
        gains, number, _ = self.placed(self.features.count(batch))
        return order_scores(gains, number, self.bounds)

    def meaning(self) -> str:
        """What the order and the effects are."""
        highest = float(np.log2(self.budgets[-1] / max(1, self.budgets[0]))) + 1
        return (
            "The score is the order of selection: -log2 of the share of the corpus's words that "
            f"are selected before the text, at most {highest:.2f}. An effect is what a word adds "
            "to the target's coverage, less its share of the text, whose words cost 1 in all. The "
            "texts with the largest sum are selected first; few words of any text pay for "
            "themselves, so also the best sum can be below 0. A text whose words are in an order "
            "that is less likely in a sample of the corpus than chance adds nothing."
        )

    def explain(self, text: str) -> list[Effect]:
        """How much each n-gram raised the gain of a text in its round, against what words cost."""
        # All words of the text together cost about 1, so words that the target lacks lower it, each
        # by 1 / n; an effect of 0.5 pays for half of the text. The effects add up to the gain times
        # the words taken, divided by the sum of the weights.
        ids, written = written_tokens(text)
        if not written:
            return []
        _, (number,), _ = self.placed(self.features.count(text_array([text])))
        taken = TextCounts(self._known[number - 1], float(self.words[number - 1]))
        n = len(written)
        parts = Counter(zip(ids.tolist(), written, strict=True))
        if self.pairs and n > 1:
            both = keys_of(np.stack((ids[:-1], ids[1:]), axis=1)).tolist()
            names = [" ".join(written[i : i + 2]) for i in range(n - 1)]
            parts.update(zip(both, names, strict=True))
        scale = taken.words / (float(self.weights.sum()) * n)
        cost = np.log1p(n / taken.words) * taken.words / n
        rises = {}
        in_order = bool(self.features.order_odds(text_array([text]))[0] >= self.least)
        for (identity, name), count in parts.items():
            slot, known = find(self.table, np.uint64(identity))
            if known and in_order:
                feature = int(self.table[slot, 1])
                before = float(taken.counts[feature])
                rises[name] = float(self.weights[feature]) * np.log1p(count / before) * scale
        most = cynical.ONE_FEATURE * sum(rises.values())
        effects = {name: -cost / n * count for name, count in Counter(written).items()}
        for name, rise in rises.items():
            effects[name] = effects.get(name, 0.0) + min(most, rise)
        return sum_by_part(effects.keys(), effects.values())

    def placed(
        self, counted: Counted, skipped: int = 0
    ) -> tuple[NDArray[np.float32], NDArray[np.int16], NDArray[np.bool_]]:
        """The gain of each of m texts in the round that would take it, and this round's number.

        With some first rounds skipped also whether one of these would take it, bool [m].
        """
        # only the features of these texts are looked up, of all that the target has
        used = np.zeros(len(self.weights), np.bool_)
        used[counted.features] = True
        places = (np.cumsum(used) - 1).astype(np.uint32)
        arrays = (places[counted.features], counted.counts, counted.last, counted.words)
        weights = self.weights[used]
        scale = float(self.weights.sum())
        gains = np.zeros(len(counted.words), np.float32)
        number = np.zeros(len(gains), np.int16)
        earlier = np.zeros(len(gains), np.bool_)
        for i, threshold in enumerate(self.thresholds):
            known = self._known[i, used]
            usual = cynical.usual_gains(weights, known)
            found = cynical.gains(*arrays, weights, known, usual, float(self.words[i]), scale)
            # Per word, a text far longer than all that is taken gains and costs next to nothing,
            # which early rounds would call good. A round takes no text that exceeds its budget.
            passed = (found >= threshold) & (counted.words <= self.budgets[i])
            if i < skipped:
                earlier |= passed
                continue
            now = (number == 0) & (passed | (i == len(self.thresholds) - 1))
            number[now] = i + 1
            gains[now] = found[now]
        return gains, number, earlier
