"""Choose: turn the scores of all segments into selected segments and weights.

The scores of a corpus are read by workers, part by part, several times: each time a step sums up
what is needed of a run of parts, and the sums of all runs decide the next step. So memory does not
grow with the corpus, and the process that decides reads no score.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.plan import ChoosePlan
from corpusfit.kernels.chance import place_keys, uniform
from corpusfit.kernels.threshold import (
    Counts,
    Segments,
    Selector,
    Threshold,
    Within,
    count_keys,
    search,
)
from corpusfit.selection.balance import allocate, ratios

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class ScoredPart:
    """Scores (float32 [n]) and word pieces (int64 [n]) of one part of `scores/`, by segment.

    With quotas also the main group of each segment, int64 [n], and for weights its shares of all k
    groups, float32 [n, k]. Segments that are `short`, bool [n], come after all others.
    """

    index: int
    scores: NDArray[np.float32]
    tokens: NDArray[np.int64]
    groups: NDArray[np.int64] | None = None
    shares: NDArray[np.float32] | None = None
    short: NDArray[np.bool_] | None = None


Parts = Callable[[], Iterable[ScoredPart]]
Step = Callable[[int, Iterable[ScoredPart]], Found]
"""Computes something of a run of parts, by the run's number; any worker can do it."""


class OverRuns(Protocol):
    """Does a step with every run of parts; returns the results in the order of the runs."""

    def __call__(self, step: Step[Found], /) -> list[Found]: ...


@dataclass(frozen=True, slots=True)
class Choice:
    """The decision for one part: weight float32 [n], selected bool [n].

    `tied` counts the segments with the lowest selected key where only some of them are selected, by
    their draws, and `drawn` those.
    """

    index: int
    weight: NDArray[np.float32]
    selected: NDArray[np.bool_]
    tied: int
    drawn: int


@dataclass(frozen=True, slots=True)
class Keyed:
    """A part with weights, the keys whose highest values are selected, costs and groups, [n].

    Of equal keys those with the lowest draw are selected; none that is `barred`.
    """

    part: ScoredPart
    weight: NDArray[np.float32]
    keys: NDArray[np.float32]
    costs: NDArray[np.int64]
    group: NDArray[np.int64]
    draws: NDArray[np.uint16]
    barred: NDArray[np.bool_]


@dataclass(frozen=True)
class Keying:
    """How the segments of a part get weights and keys."""

    plan: ChoosePlan  # the amount and the policy
    seed: int  # of a draw
    by_group: bool  # whether each group has an amount of its own
    over: Moments  # mean and deviation of all scores, for lambda
    highest: float | None = None  # the highest of all scores, if they are logarithms of weights
    factors: NDArray[np.float64] | None = None  # float64 [k], of the groups' shares in a weight
    barred: tuple[int, ...] = ()  # groups of which nothing is selected

    def keyed(self, part: ScoredPart) -> Keyed:
        """The weights and keys of a part."""
        group = _groups(part) if self.by_group else np.zeros(len(part.scores), np.int64)
        weight = np.ones_like(part.scores)
        keys = part.scores
        if self.plan.policy == "top" and part.short is not None:
            keys = np.where(part.short, np.finfo(np.float32).min, keys)
        if self.plan.policy != "top":
            if self.highest is not None:
                weight = importance(part.scores, self.highest)
                logs = np.asarray(part.scores)
            else:
                weight = relevance(part.scores, self.over, c=self.plan.c, alpha=self.plan.alpha)
                logs = np.log(np.maximum(weight.astype(np.float64), np.finfo(np.float32).tiny))
            if self.factors is not None:
                factors = _shares(part) @ self.factors
                weight = (weight * factors).astype(np.float32)
                logs = logs + np.log(np.maximum(factors, np.finfo(np.float32).tiny))
            if self.plan.policy == "resample":
                keys = draw_keys(logs, seed=self.seed, part=part.index)
        draws = tie_draws(self.seed, part.index, len(keys))
        barred = np.isin(group, self.barred)
        return Keyed(part, weight, keys, _costs(part, self.plan), group, draws, barred)


@dataclass(frozen=True)
class Decision:
    """What is selected: of each run of parts, the thresholds of all groups where it begins.

    A token budget stops at the first segment of a group that does not fit; the tokens that all
    groups leave go to the best remaining segments of any group, by the thresholds in `rest`.
    """

    keying: Keying
    thresholds: list[list[Threshold]]
    rest: list[list[Threshold]] = field(default_factory=list)

    def of_run(self, run: int) -> Decision:
        """What a worker needs for one run, as its run 0."""
        return Decision(self.keying, [self.thresholds[run]], self.rest[run : run + 1])

    def choices(self, run: int, parts: Iterable[ScoredPart]) -> Iterator[Choice]:
        """The decisions for the parts of a run, in order."""
        lowest = [np.nan if t.draw is None else t.key for t in self.thresholds[run]]
        keys = np.array(lowest, np.float32)
        for keyed, selected in self.selected(run, parts):
            top = self.keying.plan.policy == "top"
            weight = selected.astype(np.float32) if top else keyed.weight
            last = keyed.keys == keys[keyed.group]
            tied = int(last.sum())
            drawn = int((last & selected).sum())
            yield Choice(keyed.part.index, weight, selected, tied, drawn)

    def selected(
        self, run: int, parts: Iterable[ScoredPart]
    ) -> Iterator[tuple[Keyed, NDArray[np.bool_]]]:
        """Which segments are selected of each part of a run."""
        selectors = [Selector(threshold) for threshold in self.thresholds[run]]
        rest_selector = Selector(self.rest[run][0]) if self.rest else None
        for part in parts:
            keyed = self.keying.keyed(part)
            selected = np.zeros(len(keyed.keys), np.bool_)
            for number, selector in enumerate(selectors):
                members = keyed.group == number
                selected[members] = _selected_of(selector, keyed, members)
            if rest_selector is not None:
                rest = ~(selected | keyed.barred)
                selected[rest] = _selected_of(rest_selector, keyed, rest)
            yield keyed, selected


def _selected_of(selector: Selector, keyed: Keyed, members: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which of the members of a part are selected."""
    return selector.select(keyed.keys[members], keyed.costs[members], keyed.draws[members])


def choose(
    over: OverRuns,
    plan: ChoosePlan,
    *,
    seed: int,
    log_weights: bool = False,
    quota: NDArray[np.float64] | None = None,
) -> Decision:
    """Decide what to select of all parts."""
    top = plan.policy == "top"
    by_group = top and quota is not None
    groups = len(quota) if quota is not None else 0

    # amounts, and what the weights of a segment depend on
    sums = over(partial(_survey, plan, groups if by_group else 0, 0 if top else groups))
    highest = max((s.highest for s in sums), default=0.0)
    factors = None
    if quota is not None and not top:
        shares = np.sum([s.shares for s in sums], axis=0)
        factors = ratios(quota, shares, sum(s.segments for s in sums))
        factors = factors / (max(over(partial(_largest_factor, factors)), default=0.0) or 1.0)
    # of a share that is asked for by name, 0 % is nothing
    barred = np.flatnonzero(quota == 0) if by_group and plan.quota_shares() else np.zeros(0, int)
    keying = Keying(
        plan,
        seed,
        by_group,
        Moments(0.0, 1.0) if top else _merged(m for s in sums for m in s.moments),
        highest if log_weights and plan.policy == "resample" else None,
        factors,
        tuple(barred.tolist()),
    )

    # the thresholds, by the keys of all segments
    if plan.threshold is not None:
        return Decision(keying, [[Threshold(plan.threshold, 1 << 62)] for _ in sums])
    amount = plan.segments if plan.tokens is None else plan.tokens
    goes_over = False
    if amount is None:
        amount = max(1, round(plan.share * sum(s.costs for s in sums)))
        goes_over = not plan.counts_segments
    budgets = [amount]
    if by_group and quota is not None:
        sizes = np.sum([s.sizes for s in sums], axis=0)
        sizes[barred] = 0
        budgets = allocate(quota, sizes.tolist(), amount)
    thresholds = search(
        lambda within: over(partial(_histogram, keying, len(budgets), within, None)),
        budgets,
        over=goes_over and not by_group,
    )
    decision = Decision(keying, thresholds)
    if not by_group or plan.counts_segments:
        return decision
    # what no segment of a group fills, the best of all others do
    left = amount - sum(over(partial(_spent, decision)))
    rest = search(
        lambda within: over(partial(_histogram, keying, 1, within, decision)),
        [left],
        over=goes_over,
    )
    return Decision(keying, thresholds, rest)


def _groups(part: ScoredPart) -> NDArray[np.int64]:
    assert part.groups is not None  # noqa: S101 (a quota comes with groups)
    return part.groups


def _shares(part: ScoredPart) -> NDArray[np.float64]:
    assert part.shares is not None  # noqa: S101 (weights come with shares)
    return part.shares.astype(np.float64)


def _costs(part: ScoredPart, plan: ChoosePlan) -> NDArray[np.int64]:
    return np.ones(len(part.scores), np.int64) if plan.counts_segments else part.tokens


@dataclass
class _Sums:
    """Sums over a run of parts."""

    segments: int
    costs: int
    highest: float
    moments: list[tuple[int, float, float]]  # of each part: see `_moments`
    sizes: NDArray[np.int64]  # [k], costs of each group
    shares: NDArray[np.float64]  # [k], sums of the segments' shares


def _survey(
    plan: ChoosePlan,
    groups: int,  # with an amount of their own; 0 for one amount
    shared: int,  # whose shares are in the weights; 0 for none
    run: int,
    parts: Iterable[ScoredPart],
) -> _Sums:
    sums = _Sums(0, 0, -np.inf, [], np.zeros(groups, np.int64), np.zeros(shared))
    for part in parts:
        costs = _costs(part, plan)
        sums.segments += len(part.scores)
        sums.costs += int(costs.sum())
        sums.highest = max(sums.highest, float(part.scores.max(initial=-np.inf)))
        if plan.policy != "top":
            sums.moments.append(_moments(part.scores))
        if groups:
            np.add.at(sums.sizes, _groups(part), costs)
        if shared:
            sums.shares += _shares(part).sum(axis=0)
    return sums


def _largest_factor(factors: NDArray[np.float64], run: int, parts: Iterable[ScoredPart]) -> float:
    return max((float((_shares(p) @ factors).max(initial=0.0)) for p in parts), default=0.0)


def _spent(decision: Decision, run: int, parts: Iterable[ScoredPart]) -> int:
    """The word pieces of what is selected."""
    chosen = decision.selected(run, parts)
    return sum(int(keyed.part.tokens[selected].sum()) for keyed, selected in chosen)


def _histogram(
    keying: Keying,
    groups: int,
    within: Within,
    without: Decision | None,
    run: int,
    parts: Iterable[ScoredPart],
) -> Counts:
    """The costs of all segments by key, or of those that a decision leaves."""

    def grouped() -> Iterator[Segments]:
        if without is None:
            for keyed in map(keying.keyed, parts):
                yield keyed.keys, keyed.costs, keyed.group, keyed.draws
            return
        for keyed, selected in without.selected(run, parts):
            rest = ~(selected | keyed.barred)
            groups = np.zeros(int(rest.sum()), np.int64)
            yield keyed.keys[rest], keyed.costs[rest], groups, keyed.draws[rest]

    return count_keys(grouped(), groups, within)


@dataclass(frozen=True, slots=True)
class Moments:
    """Mean and standard deviation of the scores of all segments."""

    mean: float
    deviation: float


def moments(parts: Iterable[NDArray[np.float32]]) -> Moments:
    """Mean and population standard deviation over all parts."""
    return _merged(map(_moments, parts))


def _moments(scores: NDArray[np.float32]) -> tuple[int, float, float]:
    """Number, mean and sum of squared deviations."""
    wide = scores.astype(np.float64)
    mean = float(wide.mean()) if len(wide) else 0.0
    return len(wide), mean, float(((wide - mean) ** 2).sum())


def _merged(parts: Iterable[tuple[int, float, float]]) -> Moments:
    """The moments of all parts from those of each (Chan et al. 1979, pairwise), in their order."""
    n = 0
    mean = 0.0
    squares = 0.0
    for size, part_mean, part_squares in parts:
        if not size:
            continue
        delta = part_mean - mean
        both = n + size
        mean += delta * size / both
        squares += part_squares + delta**2 * n * size / both
        n = both
    return Moments(mean, float(np.sqrt(squares / n)) if n else 0.0)


def relevance(
    scores: NDArray[np.float32], over: Moments, *, c: float, alpha: float
) -> NDArray[np.float32]:
    """float32 [n] in [0, 1]: lambda = 1 / (1 + exp(-C (alpha - A)))."""
    # A is the anomaly score: the negated score, normalized to mean 0 and variance 1 over the
    # corpus's segments. If all scores of a corpus are equal, A = 0 everywhere.
    # Reference: TADPOLE, section 3.2 and Algorithm 1.
    spread = over.deviation or 1.0
    anomaly = (over.mean - scores.astype(np.float64)) / spread
    exponent = np.clip(c * (alpha - anomaly), -700, 700)
    return (1.0 / (1.0 + np.exp(-exponent))).astype(np.float32)


def importance(scores: NDArray[np.float32], highest: float) -> NDArray[np.float32]:
    """float32 [n] in [0, 1]: importance weights from their logarithms; the highest is 1."""
    # Reference: Xie et al. 2023 (DSIR), section 3.
    return np.exp(scores.astype(np.float64) - highest).astype(np.float32)


def draw_keys(logs: NDArray[Any], *, seed: int, part: int) -> NDArray[np.float32]:
    """float32 [n]: log weight [n] plus Gumbel noise; the k largest are a weighted draw of k."""
    # The noise is a hash of seed, part and position, so it does not depend on which worker computes
    # it.
    # Reference: Gumbel top-k (Vieira 2014; Kool et al. 2019).
    noise = uniform(place_keys(seed, part, len(logs)))
    return (logs.astype(np.float64) - np.log(-np.log(noise))).astype(np.float32)


def tie_draws(seed: int, part: int, n: int) -> NDArray[np.uint16]:
    """uint16 [n]: the order among equal keys, so that the first files have no advantage."""
    return (place_keys(seed, part, n) >> np.uint64(48)).astype(np.uint16)
