"""The plan of a ranking: that of a selection, and how the task is read that scores it."""

from __future__ import annotations

from dataclasses import dataclass, field

from corpusfit.core.plan import Plan
from corpusfit.evaluation.plan import TaskPlan


@dataclass(frozen=True)
class RankPlan(Plan):
    """Every setting of a ranking."""

    task: TaskPlan = field(default_factory=TaskPlan)
