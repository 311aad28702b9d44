"""A budget in time as a budget in training steps."""

from __future__ import annotations

import math

from corpusfit.core.engine.pace import format_duration
from corpusfit.core.errors import UsageError, bad_setting
from corpusfit.tuning.plan import SearchPlan
from corpusfit.tuning.schedule import Rung, halving


def seconds_of(rungs: list[Rung], step: float, around: float) -> float:
    """Seconds of all trials, without early stops."""
    return sum(rung.trials * (around + rung.steps * step) for rung in rungs)


def steps_within(
    search: SearchPlan, settings: int, *, elapsed: float, step: float, around: float
) -> int:
    """The most training steps that the rest of a time allows."""
    left = (search.seconds or 0.0) - elapsed

    def fits(steps: int) -> bool:
        rungs = halving(settings, steps, eta=search.eta, least=search.least)
        return seconds_of(rungs, step, around) <= left

    low = 2 * search.least
    if not fits(low):
        raise too_short(search, elapsed + 2 * (around + search.least * step), elapsed)
    high = max(low, math.ceil(left / max(step, 1e-9)))
    while low < high:  # nearly monotone: more steps may admit another setting with its overhead
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def too_short(search: SearchPlan, needed: float, elapsed: float) -> UsageError:
    """The error for a time in which no setting can be compared with the baseline."""
    return bad_setting(
        "`search.budget`",
        f"at least {format_duration(needed)}: {format_duration(elapsed)} to score the corpus and "
        "for a first trial, and the rest for one trial and its baseline",
        search.budget,
        f"For example `search.budget={math.ceil(2 * needed / 60)}min`.",
    )
