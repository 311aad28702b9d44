"""Choose: turn the scores of all segments into selected segments and weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.plan import ChoosePlan
from corpusfit.selection.quotas import allocate, ratios
from corpusfit.selection.top import Grouped, Selector, Threshold, find_threshold, find_thresholds
from corpusfit.selection.weights import Moments, draw_keys, importance, moments, relevance


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


def choose(
    parts: Parts,
    plan: ChoosePlan,
    *,
    seed: int,
    log_weights: bool = False,
    quota: NDArray[np.float64] | None = None,
) -> Iterator[Choice]:
    """Decide for every part, in order.

    Only counters are kept between parts, so the parts are read several times.

    Reference: TADPOLE, section 3.2 (discrete and continuous lambda).
    """
    top = plan.policy == "top"
    by_group = top and quota is not None
    to_weights = _weight_function(parts, plan, log_weights=log_weights)
    group_weights = None if quota is None or top else _group_weights(parts, quota)

    def keyed() -> Iterator[Keyed]:
        for part in parts():
            if top:
                yield part, np.ones_like(part.scores), part.scores
                continue
            weight, logs = to_weights(part.scores)
            if group_weights is not None:
                factors = group_weights(part)
                weight = (weight * factors).astype(np.float32)
                logs = logs + np.log(np.maximum(factors, np.finfo(np.float32).tiny))
            drawn = plan.policy == "resample"
            keys = draw_keys(logs, seed=seed, part=part.index) if drawn else part.scores
            yield part, weight, keys

    for part, weight, selected in _select(keyed, plan, parts, quota if by_group else None):
        yield Choice(part.index, selected.astype(np.float32) if top else weight, selected)


Keyed = tuple[ScoredPart, NDArray[np.float32], NDArray[np.float32]]
"""A part, its weights, and the keys whose highest values are selected."""

Selections = Iterator[tuple[ScoredPart, NDArray[np.float32], NDArray[np.bool_]]]
"""A part, its weights, and its selected segments."""


def _select(
    keyed: Callable[[], Iterator[Keyed]],
    plan: ChoosePlan,
    parts: Parts,
    quota: NDArray[np.float64] | None,
) -> Selections:
    """Select the highest keys, of all segments or within each group's quota.

    A token budget stops at the first segment of a group that does not fit; the tokens that all
    groups leave go to the highest remaining keys.
    """

    def grouped() -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]]:
        for part, _, keys in keyed():
            yield keys, _costs(part, plan), _group(part, by_group=quota is not None)

    thresholds = _thresholds(grouped, plan, parts, quota)

    def first() -> Selections:
        selectors = [Selector(threshold) for threshold in thresholds]
        for part, weight, keys in keyed():
            costs, group = _costs(part, plan), _group(part, by_group=quota is not None)
            selected = np.zeros(len(keys), np.bool_)
            for number, selector in enumerate(selectors):
                own = group == number
                selected[own] = selector.select(keys[own], costs[own])
            yield part, weight, selected

    if quota is None or plan.tokens is None:
        yield from first()
        return

    def rest() -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64]]]:
        for (part, _, selected), (_, _, keys) in zip(first(), keyed(), strict=True):
            yield keys[~selected], _costs(part, plan)[~selected]

    left = plan.tokens - sum(int(part.tokens[selected].sum()) for part, _, selected in first())
    selector = Selector(find_threshold(rest, left))
    for (part, weight, selected), (keys, costs) in zip(first(), rest(), strict=True):
        selected[~selected] = selector.select(keys, costs)
        yield part, weight, selected


def _group(part: ScoredPart, *, by_group: bool) -> NDArray[np.int64]:
    """The main group of each segment, int64 [n]; zeros where groups do not matter."""
    if not by_group:
        return np.zeros(len(part.scores), np.int64)
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
        np.add.at(sizes, _group(part, by_group=True), _costs(part, plan))
    return find_thresholds(grouped, allocate(quota, sizes.tolist(), amount), over=over)
