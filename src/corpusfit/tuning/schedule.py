"""What a tuning tries, and for how long: its settings, and rungs by successive halving."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from corpusfit.core.engine.pace import format_duration
from corpusfit.core.errors import UsageError, bad_setting
from corpusfit.tuning.plan import SearchPlan

RANDOM = "random"
"""Baseline that every tuning tries."""


@dataclass(frozen=True)
class Setting:
    """One way to select and adapt.

    Attributes:
        method: scoring method.
        fraction: fraction of the corpus.
        weights: use of relevance weights: `off` or `resample`.
        then_task: whether a second phase trains on the target's own texts.
    """

    method: str
    fraction: float
    weights: str
    then_task: bool = False

    @property
    def selection(self) -> Setting:
        """The setting of the same selection without a second phase."""
        return dataclasses.replace(self, then_task=False)

    @property
    def label(self) -> str:
        """A short label."""
        return self._named(f"{self.fraction:g}")

    def _named(self, fraction: str) -> str:
        weights = f" {self.weights}" * (self.weights != "off")
        return f"{self.method} {fraction}{weights}" + " then task" * self.then_task

    @property
    def key(self) -> str:
        """A file name for the setting."""
        return self._named(str(self.fraction)).replace(" ", "-").replace(":", "-")


def grid(plan: SearchPlan, methods: Sequence[str]) -> list[Setting]:
    """Every setting, the baseline first, then in the order in which they are kept.

    A budget that is too small for all drops the last ones: those farthest from the first method,
    fraction and use of weights.
    """
    amounts, uses, phases = plan.amounts(), plan.uses(), plan.phases()
    axes = (methods, amounts, uses, phases)
    places = itertools.product(*(range(len(axis)) for axis in axes))
    ordered = sorted(places, key=lambda place: (sum(place), place))
    settings = [Setting(RANDOM, max(amounts), "off")]
    for method, amount, use, phase in ordered:
        setting = Setting(methods[method], amounts[amount], uses[use], phases[phase] == "yes")
        pointless = setting.weights != "off" and (setting.fraction == 1 or setting.method == RANDOM)
        if not pointless:
            settings.append(setting)
    return list(dict.fromkeys(settings))


@dataclass(frozen=True)
class Rung:
    """One round of trials of equal length."""

    trials: int  # number of trials
    steps: int  # training steps of each
    passed: int  # number of trials that pass on to the next rung; 1 in the last


def rounds(settings: int, eta: int) -> int:
    """The rungs in which `settings` are reduced to one: ceil(log_eta(settings)), at least 1."""
    count, reached = 1, eta
    while reached < settings:
        count, reached = count + 1, reached * eta
    return count


def halving(settings: int, budget: int, *, eta: int, least: int) -> list[Rung]:
    """The rungs for as many settings as a budget allows.

    Every rung costs an equal part of the budget: with n settings in R = ceil(log_eta(n)) rungs,
    rung k has ceil(n / eta^k) trials of floor(budget / (R trials)) steps. A trial begins anew in
    each rung, as its learning rate depends on its steps.

    Reference: Jamieson and Talwalkar (2016), Non-stochastic Best Arm Identification, Figure 3;
    sizes are rounded up, so that the last rung compares at least two settings.
    """
    for n in range(settings, 1, -1):
        count = rounds(n, eta)
        if budget // (n * count) >= least:
            sizes = [-(-n // eta**k) for k in range(count)]
            steps = [budget // (count * size) for size in sizes]
            return [Rung(*rung) for rung in zip(sizes, steps, [*sizes[1:], 1], strict=True)]
    raise too_small(budget, least)


def too_small(budget: int, least: int) -> UsageError:
    """The error for a budget in steps that has no room for a trial and its baseline."""
    return bad_setting(
        "`search.budget`",
        f"at least {2 * least:,} steps: {least:,} for one trial and {least:,} for its baseline",
        f"{budget:,} steps",
        f"For example `search.budget={20 * least} steps`; search.least sets the steps of a trial.",
    )


def is_behind(loss: float, others: Sequence[float], passed: int, margin: float) -> bool:
    """Whether a trial can stop: enough trials are ahead of it at the same step to fill the rung.

    A median stopping rule, with the rank that passes on in place of the median, and losses at one
    step in place of running means.

    Reference: Golovin et al. (2017), Google Vizier, section 3.2.1.
    """
    return len(others) >= passed and loss > sorted(others)[passed - 1] + margin


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
    # The time is nearly monotone in the steps: more of them may admit another setting with its
    # overhead.
    while low < high:
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
