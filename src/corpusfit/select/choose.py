"""Choose: from the scores of all segments to those taken and their weights.

What: reads the stored scores part by part, decides, and says for every segment of every part
whether it is taken and with what weight.
Why: choosing again with another amount or policy must not touch text or models.
Trade-off: nothing is kept between parts but counters, so the parts are read some times over.
Reference: TADPOLE, section 3.2 (discrete and continuous lambda).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.plan import ChoosePlan
from corpusfit.select.balance import filled, ratios
from corpusfit.select.top import Cut, Grouped, Taker, find_cut, find_cuts
from corpusfit.select.weights import Moments, draw_keys, importance, moments, relevance

DEFAULT_FRACTION = 0.2


@dataclass(frozen=True, slots=True)
class ScoredPart:
    """One part's scores (float32 [n]) and word pieces (int64 [n]), by segment.

    With quotas also each segment's main group, int64 [n], and to weigh by them the shares of all k
    groups, float32 [n, k].
    """

    index: int
    scores: NDArray[np.float32]
    tokens: NDArray[np.int64]
    groups: NDArray[np.int64] | None = None
    shares: NDArray[np.float32] | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """What was decided for one part: weight float32 [n], selected bool [n]."""

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

    Args:
        parts: reads the scored parts anew at each call, always in the same order.
        plan: policy and amount.
        seed: of the draw, for `resample`.
        log_weights: the scores are log importance weights; `resample` then goes by them.
        quota: float64 [k], what each group gives of the amount, adding up to one; the parts then
            have groups, or shares. `top` takes of each segment's main group, the best first;
            lambda is multiplied by how much each group counts.

    Yields:
        One `Choice` a part. With `top` the weight is 1 or 0; with the others it is lambda, or the
        importance weight relative to the highest.
    """
    top = plan.policy == "top"
    apart = top and quota is not None
    weigh = _weigher(parts, plan, log_weights=log_weights)
    more = None if quota is None or top else _counting(parts, quota)

    def keyed() -> Iterator[Keyed]:
        for part in parts():
            if top:
                yield part, np.ones_like(part.scores), part.scores
                continue
            weight, logs = weigh(part.scores)
            if more is not None:
                counts = more(part)
                weight = (weight * counts).astype(np.float32)
                logs = logs + np.log(np.maximum(counts, np.finfo(np.float32).tiny))
            drawn = plan.policy == "resample"
            keys = draw_keys(logs, seed=seed, part=part.index) if drawn else part.scores
            yield part, weight, keys

    for part, weight, selected in _taken(keyed, plan, parts, quota if apart else None):
        yield Choice(part.index, selected.astype(np.float32) if top else weight, selected)


Keyed = tuple[ScoredPart, NDArray[np.float32], NDArray[np.float32]]
"""A part, its weights, and the keys by which the highest are taken."""

Taken = Iterator[tuple[ScoredPart, NDArray[np.float32], NDArray[np.bool_]]]
"""A part, its weights, and what is taken of it."""


def _taken(
    keyed: Callable[[], Iterator[Keyed]],
    plan: ChoosePlan,
    parts: Parts,
    quota: NDArray[np.float64] | None,
) -> Taken:
    """Take the highest keys, of all segments or of each group its quota.

    A budget in tokens stops at the first segment of a group that does not fit; what all groups
    leave goes to the highest keys that are left.
    """

    def grouped() -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]]:
        for part, _, keys in keyed():
            yield keys, _costs(part, plan), _group(part, apart=quota is not None)

    cuts = _cuts(grouped, plan, parts, quota)

    def first() -> Taken:
        takers = [Taker(cut) for cut in cuts]
        for part, weight, keys in keyed():
            costs, group = _costs(part, plan), _group(part, apart=quota is not None)
            selected = np.zeros(len(keys), np.bool_)
            for number, taker in enumerate(takers):
                own = group == number
                selected[own] = taker.take(keys[own], costs[own])
            yield part, weight, selected

    if quota is None or plan.tokens is None:
        yield from first()
        return

    def rest() -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64]]]:
        for (part, _, selected), (_, _, keys) in zip(first(), keyed(), strict=True):
            yield keys[~selected], _costs(part, plan)[~selected]

    left = plan.tokens - sum(int(part.tokens[selected].sum()) for part, _, selected in first())
    taker = Taker(find_cut(rest, left))
    for (part, weight, selected), (keys, costs) in zip(first(), rest(), strict=True):
        selected[~selected] = taker.take(keys, costs)
        yield part, weight, selected


def _group(part: ScoredPart, *, apart: bool) -> NDArray[np.int64]:
    """The main group of each segment, int64 [n]; all are of one where they are not told apart."""
    if not apart:
        return np.zeros(len(part.scores), np.int64)
    assert part.groups is not None  # noqa: S101 (a quota comes with groups)
    return part.groups


def _counting(
    parts: Parts, quota: NDArray[np.float64]
) -> Callable[[ScoredPart], NDArray[np.float64]]:
    """What gives how much each segment of a part counts, float64 [n], the most of all being 1."""

    def shares(part: ScoredPart) -> NDArray[np.float64]:
        assert part.shares is not None  # noqa: S101 (weights come with shares)
        return part.shares.astype(np.float64)

    sums, n = np.zeros(len(quota)), 0
    for part in parts():
        sums += shares(part).sum(axis=0)
        n += len(part.scores)
    counts = ratios(quota, sums, n)
    highest = max((float((shares(p) @ counts).max()) for p in parts() if len(p.scores)), default=0)
    return lambda part: shares(part) @ counts / (highest or 1.0)


def _sizes(parts: Parts, plan: ChoosePlan, k: int) -> list[int]:
    """What there is of each of k groups, in segments or tokens."""
    found = np.zeros(k, np.int64)
    for part in parts():
        np.add.at(found, _group(part, apart=True), _costs(part, plan))
    return [int(n) for n in found]


def _weigher(
    parts: Parts, plan: ChoosePlan, *, log_weights: bool
) -> Callable[[NDArray[np.float32]], tuple[NDArray[np.float32], NDArray[Any]]]:
    """What gives weights and their logarithms from scores."""
    if log_weights and plan.policy == "resample":
        highest = max((float(p.scores.max()) for p in parts() if len(p.scores)), default=0.0)
        return lambda scores: (importance(scores, highest), scores)
    over = Moments(0.0, 1.0) if plan.policy == "top" else moments(p.scores for p in parts())
    tiny = np.finfo(np.float32).tiny

    def by_lambda(scores: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[Any]]:
        weight = relevance(scores, over, c=plan.c, alpha=plan.alpha)
        return weight, np.log(np.maximum(weight.astype(np.float64), tiny))

    return by_lambda


def _costs(part: ScoredPart, plan: ChoosePlan) -> NDArray[np.int64]:
    return part.tokens if plan.tokens is not None else np.ones(len(part.scores), np.int64)


def _cuts(
    grouped: Grouped, plan: ChoosePlan, parts: Parts, quota: NDArray[np.float64] | None
) -> list[Cut]:
    """The cut of each group, or of all together."""
    if plan.threshold is not None:
        return [Cut(plan.threshold, 1 << 62)]
    amount = _amount(plan, parts)
    if quota is None:
        return find_cuts(grouped, [amount])
    return find_cuts(grouped, filled(quota, _sizes(parts, plan, len(quota)), amount))


def _amount(plan: ChoosePlan, parts: Parts) -> int:
    """How much is taken, in tokens where these are counted, else in segments."""
    if plan.tokens is not None:
        return plan.tokens
    if plan.segments is not None:
        return plan.segments
    fraction = plan.fraction
    if fraction is None:
        fraction = 1.0 if plan.policy == "continuous" else DEFAULT_FRACTION
    return max(1, round(fraction * sum(len(p.scores) for p in parts())))
