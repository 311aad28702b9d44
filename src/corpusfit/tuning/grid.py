"""The settings that a tuning tries: method, fraction of the corpus, and use of weights."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from corpusfit.tuning.plan import SearchPlan

RANDOM = "random"
"""Baseline that every tuning tries."""


@dataclass(frozen=True)
class Setting:
    """One way to select and adapt; a further choice is a further field.

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
        """The setting in a few words, for people."""
        weights = f" {self.weights}" * (self.weights != "off")
        return f"{self.method} {self.fraction:g}{weights}" + " then task" * self.then_task

    @property
    def key(self) -> str:
        """The setting as the name of a file."""
        return self.label.replace(" ", "-").replace(":", "-")


def grid(plan: SearchPlan, methods: Sequence[str]) -> list[Setting]:
    """Every setting, the baseline first, then in the order in which they are kept.

    A budget that is too small for all drops the last ones: those farthest from the first method,
    fraction and use of weights.
    """
    amounts, uses, phases = plan.amounts(), plan.uses(), plan.phases()
    axes = (methods, amounts, uses, phases)
    places = itertools.product(*(range(len(axis)) for axis in axes))
    ordered = sorted(places, key=lambda place: (sum(place), place))
    found = [Setting(RANDOM, max(amounts), "off")]
    for method, amount, use, phase in ordered:
        setting = Setting(methods[method], amounts[amount], uses[use], phases[phase] == "yes")
        pointless = setting.weights != "off" and (setting.fraction == 1 or setting.method == RANDOM)
        if not pointless:
            found.append(setting)
    return list(dict.fromkeys(found))
