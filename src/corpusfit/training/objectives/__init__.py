"""Training objectives: one in each file of this folder, and of other packages."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from corpusfit.core.registry import Registry

if TYPE_CHECKING:
    from corpusfit.training.contract import Objective, ObjectiveSettings
    from corpusfit.training.special_tokens import SpecialTokens

OBJECTIVES = Registry("corpusfit.objectives", "corpusfit.training.objectives", "+")


@cache
def load(name: str) -> type[Objective]:
    """The class of an objective."""
    from corpusfit.training.contract import Objective

    objective: type[Objective] = OBJECTIVES.load(name, Objective)
    return objective


def objective(plan: ObjectiveSettings, special: SpecialTokens, length: int = 0) -> Objective:
    """The objective that a plan names, for sequences of at most `length` tokens."""
    return load(plan.name)(special, plan, length)
