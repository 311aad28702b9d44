"""Choose: from the scores of all segments to those taken and their weights.

What: reads the stored scores part by part, decides, and says for every segment of every part
whether it is taken and with what weight.
Why: choosing again with another amount or policy must not touch text or models.
Trade-off: nothing is kept between parts but counters, so the parts are read up to four times.
Reference: TADPOLE, section 3.2 (discrete and continuous lambda).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.plan import ChoosePlan
from corpusfit.select.top import Cut, Taker, find_cut
from corpusfit.select.weights import Moments, draw_keys, importance, moments, relevance

__all__ = ["Choice", "ScoredPart", "choose"]

DEFAULT_FRACTION = 0.2


@dataclass(frozen=True, slots=True)
class ScoredPart:
    """One part's scores (float32 [n]) and word pieces (int64 [n]), by segment."""

    index: int
    scores: NDArray[np.float32]
    tokens: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Choice:
    """What was decided for one part: weight float32 [n], selected bool [n]."""

    index: int
    weight: NDArray[np.float32]
    selected: NDArray[np.bool_]


Parts = Callable[[], Iterable[ScoredPart]]


def choose(
    parts: Parts, plan: ChoosePlan, *, seed: int, log_weights: bool = False
) -> Iterator[Choice]:
    """Decide for every part, in order.

    Args:
        parts: reads the scored parts anew at each call, always in the same order.
        plan: policy and amount.
        seed: of the draw, for `resample`.
        log_weights: the scores are log importance weights; `resample` then goes by them.

    Yields:
        One `Choice` a part. With `top` the weight is 1 or 0; with the others it is lambda, or the
        importance weight relative to the highest.
    """
    weigh = _weigher(parts, plan, log_weights=log_weights)

    def keyed() -> Iterator[tuple[ScoredPart, NDArray[np.float32], NDArray[np.float32]]]:
        for part in parts():
            if plan.policy == "top":
                yield part, np.ones_like(part.scores), part.scores
                continue
            weight, logs = weigh(part.scores)
            drawn = plan.policy == "resample"
            keys = draw_keys(logs, seed=seed, part=part.index) if drawn else part.scores
            yield part, weight, keys

    def costed() -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64]]]:
        for part, _, keys in keyed():
            yield keys, _costs(part, plan)

    taker = Taker(_cut(costed, plan, parts))
    for part, weight, keys in keyed():
        selected = taker.take(keys, _costs(part, plan))
        top = plan.policy == "top"
        yield Choice(part.index, selected.astype(np.float32) if top else weight, selected)


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


def _cut(
    costed: Callable[[], Iterator[tuple[NDArray[np.float32], NDArray[np.int64]]]],
    plan: ChoosePlan,
    parts: Parts,
) -> Cut:
    """The cut that the plan's amount asks for."""
    if plan.threshold is not None:
        return Cut(plan.threshold, 1 << 62)
    if plan.tokens is not None:
        return find_cut(costed, plan.tokens)
    if plan.segments is not None:
        return find_cut(costed, plan.segments)
    fraction = plan.fraction
    if fraction is None:
        fraction = 1.0 if plan.policy == "continuous" else DEFAULT_FRACTION
    total = sum(len(p.scores) for p in parts())
    return find_cut(costed, max(1, round(fraction * total)))
