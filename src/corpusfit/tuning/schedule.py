"""Successive halving: how many trials each rung has, their steps, and which of them stop early."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from corpusfit.core.errors import UsageError, bad_setting


@dataclass(frozen=True)
class Rung:
    """One round of trials of equal length.

    Attributes:
        trials: number of trials.
        steps: training steps of each.
        passed: number of trials that pass on to the next rung; 1 in the last.
    """

    trials: int
    steps: int
    passed: int


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
    """Whether a trial can stop: as many trials as pass on are ahead of it at the same step.

    The median stopping rule with the rank that decides here in place of the median, and the losses
    at one step in place of their running means.

    Reference: Golovin et al. (2017), Google Vizier, section 3.2.1.
    """
    return len(others) >= passed and loss > sorted(others)[passed - 1] + margin
