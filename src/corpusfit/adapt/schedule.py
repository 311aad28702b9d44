"""How fast a training learns, when it is measured, and what its best weights are.

What: the learning rate of each step, AdamW, the steps after which held-out losses are measured.
Why: all are functions of the plan and the step, so a training that goes on finds them as they were.
Trade-off: transformers' own schedules are not called, as they count steps themselves; tests hold
the rates to theirs.
Reference: Loshchilov and Hutter (2019), AdamW; TADPOLE, section 4.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from corpusfit.adapt.plan import TrainPlan

if TYPE_CHECKING:
    import torch


def rate_at(step: int, plan: TrainPlan) -> float:
    """The learning rate of a step, counted from 0: transformers' schedules of the same names."""
    assert plan.steps is not None and plan.rate is not None  # noqa: S101, PT018
    warm = math.ceil(plan.warmup * plan.steps)
    if step < warm:
        return plan.rate * step / warm
    if plan.schedule == "constant":
        return plan.rate
    left = (plan.steps - step) / max(1, plan.steps - warm)
    share = left if plan.schedule == "linear" else 0.5 * (1 - math.cos(math.pi * left))
    return plan.rate * share


def optimizer(parameters: Mapping[str, torch.nn.Parameter], plan: TrainPlan) -> Any:
    """AdamW in one kernel a step; matrices decay, biases and norms do not."""
    import torch

    groups = [
        {"params": [p for p in parameters.values() if p.ndim >= 2], "weight_decay": plan.decay},
        {"params": [p for p in parameters.values() if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW([g for g in groups if g["params"]], lr=0.0, fused=True)


def evaluations(plan: TrainPlan) -> set[int]:
    """The numbers of steps after which held-out losses are measured, the last one among them."""
    assert plan.steps is not None  # noqa: S101
    times = min(max(1, plan.evaluations), plan.steps)
    return {math.ceil(plan.steps * (k + 1) / times) for k in range(times)}


def goal(losses: Mapping[str, float]) -> float:
    """What the best weights have least of: the loss on the task's text, or else on the data's."""
    return losses["task"] if "task" in losses else next(iter(losses.values()))
