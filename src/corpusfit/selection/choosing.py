"""Choose: turn the scores of all segments into selected segments and weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.plan import ChoosePlan
from corpusfit.kernels.chance import place_keys, uniform
from corpusfit.selection.balance import allocate, ratios


@dataclass(frozen=True, slots=True)
class ScoredPart:
    """Scores (float32 [n]) and word pieces (int64 [n]) of one part of `scores/`, by segment.

    With quotas also the main group of each segment, int64 [n], and for weights its shares of all k
    groups, float32 [n, k].
    """

    index: int
    scores: NDArray[np.float32]
    tokens: NDArray[np.int64]
    groups: NDArray[np.int64] | None = None
    shares: NDArray[np.float32] | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """The decision for one part: weight float32 [n], selected bool [n]."""

    index: int
    weight: NDArray[np.float32]
    selected: NDArray[np.bool_]


Parts = Callable[[], Iterable[ScoredPart]]


@dataclass(frozen=True, slots=True)
class _Keyed:
    """A part with weights, the keys whose highest values are selected, costs and groups, [n]."""

    part: ScoredPart
    weight: NDArray[np.float32]
    keys: NDArray[np.float32]
    costs: NDArray[np.int64]
    group: NDArray[np.int64]


def choose(
    parts: Parts,
    plan: ChoosePlan,
    *,
    seed: int,
    log_weights: bool = False,
    quota: NDArray[np.float64] | None = None,
) -> Iterator[Choice]:
    """Decide for every part, in order."""
    # Memory must not grow with the corpus, so parts are read several times instead of kept.
    top = plan.policy == "top"
    by_group = top and quota is not None
    to_weights = _weight_function(parts, plan, log_weights=log_weights)
    group_weights = None if quota is None or top else _group_weights(parts, quota)

    def keyed() -> Iterator[_Keyed]:
        for part in parts():
            weight, keys = np.ones_like(part.scores), part.scores
            if not top:
                weight, logs = to_weights(part.scores)
                if group_weights is not None:
                    factors = group_weights(part)
                    weight = (weight * factors).astype(np.float32)
                    logs = logs + np.log(np.maximum(factors, np.finfo(np.float32).tiny))
                if plan.policy == "resample":
                    keys = draw_keys(logs, seed=seed, part=part.index)
            group = _groups(part) if by_group else np.zeros(len(keys), np.int64)
            yield _Keyed(part, weight, keys, _costs(part, plan), group)

    thresholds = _thresholds(
        lambda: ((each.keys, each.costs, each.group) for each in keyed()),
        plan,
        parts,
        quota if by_group else None,
    )

    def above_thresholds() -> Iterator[tuple[_Keyed, NDArray[np.bool_]]]:
        selectors = [Selector(threshold) for threshold in thresholds]
        for each in keyed():
            selected = np.zeros(len(each.keys), np.bool_)
            for number, selector in enumerate(selectors):
                members = each.group == number
                selected[members] = selector.select(each.keys[members], each.costs[members])
            yield each, selected

    # A token budget stops at the first segment of a group that does not fit; the tokens that all
    # groups leave go to the best remaining segments of any group.
    rest_selector = None
    if by_group and plan.tokens is not None:
        spent = sum(int(each.part.tokens[selected].sum()) for each, selected in above_thresholds())
        rest_selector = Selector(
            find_threshold(
                lambda: (
                    (each.keys[~selected], each.costs[~selected])
                    for each, selected in above_thresholds()
                ),
                plan.tokens - spent,
            )
        )
    for each, selected in above_thresholds():
        if rest_selector is not None:
            rest = ~selected
            selected[rest] = rest_selector.select(each.keys[rest], each.costs[rest])
        weight = selected.astype(np.float32) if top else each.weight
        yield Choice(each.part.index, weight, selected)


def _groups(part: ScoredPart) -> NDArray[np.int64]:
    assert part.groups is not None  # noqa: S101 (a quota comes with groups)
    return part.groups


def _group_weights(
    parts: Parts, quota: NDArray[np.float64]
) -> Callable[[ScoredPart], NDArray[np.float64]]:
    """A function from a part to its segments' group weights, float64 [n], the highest being 1."""

    def shares(part: ScoredPart) -> NDArray[np.float64]:
        assert part.shares is not None  # noqa: S101 (weights come with shares)
        return part.shares.astype(np.float64)

    sums, n = np.zeros(len(quota)), 0
    for part in parts():
        sums += shares(part).sum(axis=0)
        n += len(part.scores)
    factors = ratios(quota, sums, n)
    highest = max((float((shares(p) @ factors).max()) for p in parts() if len(p.scores)), default=0)
    return lambda part: shares(part) @ factors / (highest or 1.0)


def _weight_function(
    parts: Parts, plan: ChoosePlan, *, log_weights: bool
) -> Callable[[NDArray[np.float32]], tuple[NDArray[np.float32], NDArray[Any]]]:
    """A function from scores to weights and their logarithms."""
    if log_weights and plan.policy == "resample":
        highest = max((float(p.scores.max()) for p in parts() if len(p.scores)), default=0.0)
        return lambda scores: (importance(scores, highest), scores)
    corpus_moments = (
        Moments(0.0, 1.0) if plan.policy == "top" else moments(p.scores for p in parts())
    )
    tiny = np.finfo(np.float32).tiny

    def by_lambda(scores: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[Any]]:
        weight = relevance(scores, corpus_moments, c=plan.c, alpha=plan.alpha)
        return weight, np.log(np.maximum(weight.astype(np.float64), tiny))

    return by_lambda


def _costs(part: ScoredPart, plan: ChoosePlan) -> NDArray[np.int64]:
    return np.ones(len(part.scores), np.int64) if plan.counts_segments else part.tokens


def _thresholds(
    grouped: Grouped, plan: ChoosePlan, parts: Parts, quota: NDArray[np.float64] | None
) -> list[Threshold]:
    """The threshold of each group, or of all segments together."""
    if plan.threshold is not None:
        return [Threshold(plan.threshold, 1 << 62)]
    amount, over = plan.segments if plan.tokens is None else plan.tokens, False
    if amount is None:
        amount = max(1, round(plan.share * sum(int(_costs(p, plan).sum()) for p in parts())))
        over = not plan.counts_segments
    if quota is None:
        return find_thresholds(grouped, [amount], over=over)
    sizes = np.zeros(len(quota), np.int64)
    for part in parts():
        np.add.at(sizes, _groups(part), _costs(part, plan))
    return find_thresholds(grouped, allocate(quota, sizes.tolist(), amount), over=over)


@dataclass(frozen=True, slots=True)
class Moments:
    """Mean and standard deviation of the scores of all segments."""

    mean: float
    deviation: float


def moments(parts: Iterable[NDArray[np.float32]]) -> Moments:
    """Mean and population standard deviation over all parts (Chan et al. 1979, pairwise)."""
    # Sums run in float64 in the order of the parts, so the result is the same for any number of
    # workers.
    n, mean, squares = 0, 0.0, 0.0
    for part in parts:
        if not len(part):
            continue
        wide = part.astype(np.float64)
        part_mean = float(wide.mean())
        delta = part_mean - mean
        both = n + len(wide)
        mean += delta * len(wide) / both
        squares += float(((wide - part_mean) ** 2).sum()) + delta**2 * n * len(wide) / both
        n = both
    return Moments(mean, float(np.sqrt(squares / n)) if n else 0.0)


def relevance(
    scores: NDArray[np.float32], over: Moments, *, c: float, alpha: float
) -> NDArray[np.float32]:
    """float32 [n] in [0, 1]: lambda = 1 / (1 + exp(-C (alpha - A)))."""
    # A is the anomaly score: the negated score, normalised to mean 0 and variance 1 over the
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


_BUCKETS = 1 << 16
KeysAndCosts = Callable[[], Iterable[tuple[NDArray[np.float32], NDArray[np.int64]]]]
"""The keys of the corpus, part by part, with each segment's cost; read anew at each call."""
Grouped = Callable[[], Iterable[tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]]]
"""Keys, costs and each segment's group."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """The threshold of a selection."""

    key: float  # the lowest key of a selected segment; +inf if nothing is selected
    budget: int  # budget left for segments with exactly that key, in order of position
    over: bool = False  # whether the last segment may go over the budget


def _ordered(keys: NDArray[np.float32]) -> NDArray[np.uint32]:
    """Bits that sort like the floats, largest first; -0.0 equals 0.0."""
    bits = (keys.astype(np.float32) + np.float32(0)).view(np.uint32)
    ascending = np.where(bits >> 31, ~bits, bits | np.uint32(0x80000000))
    return np.asarray(~ascending, np.uint32)


def _key_of(ordered: int) -> float:
    ascending = ~np.uint32(ordered)
    bits = ascending & np.uint32(0x7FFFFFFF) if ascending >> 31 else ~ascending
    return float(np.array([bits], np.uint32).view(np.float32)[0])


def find_threshold(parts: KeysAndCosts, budget: int) -> Threshold:
    """Find the threshold that selects the highest keys within a budget."""
    # Keys are counted in two passes of 65,536 buckets (a radix selection over the bits of float32),
    # so memory does not grow with the corpus. Segments are ordered by key from high to low, then by
    # position. The selection stops at the first segment that does not fit.

    def grouped() -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]]:
        return ((keys, costs, np.zeros(len(keys), np.int64)) for keys, costs in parts())

    return find_thresholds(grouped, [budget])[0]


def find_thresholds(
    parts: Grouped, budgets: Sequence[int], *, over: bool = False
) -> list[Threshold]:
    """Find a threshold for each of g groups of segments, in the same two passes."""
    # first pass: find the upper 16 bits of each threshold
    first = np.zeros((len(budgets), _BUCKETS), np.int64)
    for keys, costs, group in parts():
        np.add.at(first, (group, _ordered(keys) >> 16), costs)
    buckets = [_bucket(histogram, budget) for histogram, budget in zip(first, budgets, strict=True)]
    high = np.array([-1 if bucket is None else bucket for bucket, _ in buckets], np.int64)
    # second pass: the lower 16 bits, among keys with these upper bits
    second = np.zeros((len(budgets), _BUCKETS), np.int64)
    for keys, costs, group in parts() if np.any(high >= 0) else ():
        ordered = _ordered(keys)
        inside = ordered >> 16 == high[group]
        np.add.at(second, (group[inside], ordered[inside] & 0xFFFF), costs[inside])
    thresholds = []
    for (bucket, left), histogram in zip(buckets, second, strict=True):
        if bucket is None:
            thresholds.append(Threshold(-np.inf, left, over))
            continue
        low, rest = _bucket(histogram, left)
        thresholds.append(Threshold(_key_of((bucket << 16) | (low or 0)), rest, over))
    return thresholds


def _bucket(histogram: NDArray[np.int64], budget: int) -> tuple[int | None, int]:
    """The first bucket that does not fit completely, and the budget left for it."""
    total = np.cumsum(histogram)
    bucket = int(np.searchsorted(total, budget, side="right"))
    if bucket == len(total):
        return None, budget - int(total[-1])
    return bucket, budget - (int(total[bucket - 1]) if bucket else 0)


class Selector:
    """Marks the selected segments; must see the parts in order, as ties fill the budget."""

    def __init__(self, threshold: Threshold) -> None:
        self._key = np.float32(threshold.key)
        self._left = threshold.budget
        self._over = threshold.over
        self._open = True

    @property
    def rest(self) -> Threshold:
        """The threshold for the parts that follow."""
        return Threshold(float(self._key), self._left if self._open else -1, self._over)

    def select(self, keys: NDArray[np.float32], costs: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Mark the selected segments of the next part; bool [n]."""
        selected = keys > self._key
        ties = np.flatnonzero(keys == self._key)
        if len(ties) and self._open:
            running = np.cumsum(costs[ties])
            fit = int(np.searchsorted(running, self._left, side="right"))
            if self._over and fit < len(ties) and self._left > (running[fit - 1] if fit else 0):
                fit += 1
            self._left -= int(running[fit - 1]) if fit else 0
            selected[ties[:fit]] = True
            self._open = fit == len(ties) and self._left >= 0
        return selected
