"""Learning rate of each step, the optimiser, and when held-out losses are measured."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from corpusfit.adapt.plan import TrainPlan

if TYPE_CHECKING:
    import torch


def rate_at(step: int, plan: TrainPlan) -> float:
    """The learning rate of a step, counted from 0, by transformers' schedule of the same name."""
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
    """Fused AdamW with weight decay on matrices, not on biases and norms.

    Reference: Loshchilov and Hutter (2019), AdamW.
    """
    import torch

    groups = [
        {"params": [p for p in parameters.values() if p.ndim >= 2], "weight_decay": plan.decay},
        {"params": [p for p in parameters.values() if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW([g for g in groups if g["params"]], lr=0.0, fused=True)


def evaluations(plan: TrainPlan) -> set[int]:
    """The steps after which held-out losses are measured; the last step is one of them."""
    assert plan.steps is not None  # noqa: S101
    times = min(max(1, plan.evaluations), plan.steps)
    return {math.ceil(plan.steps * (k + 1) / times) for k in range(times)}


def selection_loss(losses: Mapping[str, float]) -> float:
    """The loss that the best weights minimise: on the task's text, or else on the data."""
    return losses["task"] if "task" in losses else next(iter(losses.values()))
