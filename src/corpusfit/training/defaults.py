"""Settings of a training on task text, and defaults that depend on the data and the device."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from corpusfit.core.errors import bad_setting
from corpusfit.core.plan import size_for
from corpusfit.training.plan import AdaptPlan, ThenTaskPlan, TrainPlan, WeightsPlan

TAPT: dict[str, Any] = {
    "train.epochs": 100.0,
    "train.evaluations": 100,
    "train.keep": "best",
    "train.learning_rate": 1e-4,
    "train.length": 128,
}
"""Settings of a training on the task's own texts; all others are defaults.

Reference: TADPOLE, section 4.1; Gururangan et al. (2020), Don't Stop Pretraining."""

_PASSES = 3  # of the default number of steps, within its limits
_TASK_PASSES = 100
_TASK_TEXTS = 256  # per step on the task's texts
_TASK_EVALUATIONS = 20  # of the second phase
_MAX_STEPS = {"cpu": 2_000, "gpu": 50_000}
_MIN_STEPS = 50
_SMALL_MODEL = 50_000_000
_RATES = {True: 3e-4, False: 1e-4}
_FROM_SCRATCH = 1e-3


@dataclass(frozen=True)
class Size:
    """Facts that the default settings depend on.

    The device's speed is not measured, so equal data gives equal models on machines of one kind.
    """

    tokens: int  # tokens of the training data, without special tokens
    rows: int  # sequences in a pass over the data
    texts: int  # chunks in a pass; a packed row has several
    parameters: int  # number of weights of the model
    max_length: int  # maximum tokens of a sequence of the model
    device: str  # `cpu`, `cuda`, `mps` or `xpu`


def length_of(plan: AdaptPlan, max_length: int, device: str) -> int:
    """Tokens in a sequence, for a model with a maximum of `max_length`."""
    length = plan.train.length or min(size_for(device, plan.objective.kind.lengths), max_length)
    if length > max_length:
        cure = "Longer texts are split into several sequences."
        raise bad_setting("`train.length`", f"at most {max_length} for this model", length, cure)
    return length


def task_phase(plan: AdaptPlan, length: int) -> AdaptPlan:
    """The plan of the second phase of `--then-task`, on the task's texts."""
    # Sequences are as long as in the first phase, so that held-out losses are comparable.
    train = dataclasses.replace(
        plan.train,
        max_steps=plan.then_task.max_steps,
        epochs=None,
        batch=None,
        length=length,
        learning_rate=plan.then_task.learning_rate,
        keep="best",
        evaluations=_TASK_EVALUATIONS,
    )
    return dataclasses.replace(plan, weights=WeightsPlan(), train=train, then_task=ThenTaskPlan())


def resolve_training(
    plan: AdaptPlan, size: Size, *, on_task: bool = False
) -> tuple[TrainPlan, str]:
    """The training plan with all defaults filled in, and its description.

    Args:
        plan: the plan.
        size: facts that defaults depend on.
        on_task: whether the data are the task's own texts.
    """
    train = plan.train
    kind = plan.objective.kind
    length = length_of(plan, size.max_length, size.device)
    batch = train.batch or size_for(size.device, kind.batch)
    if train.batch is None and on_task:
        batch = max(1, round(_TASK_TEXTS * size.rows / max(1, size.texts)))
    rate = train.learning_rate
    if rate is None:
        trained = kind.learning_rate or _RATES[size.parameters < _SMALL_MODEL]
        rate = _FROM_SCRATCH if plan.model.init else trained
    steps = train.max_steps
    if steps is None and train.epochs is not None:
        steps = max(1, math.ceil(size.rows * train.epochs / batch))
    if steps is None:
        wanted = math.ceil((_TASK_PASSES if on_task else _PASSES) * size.rows / batch)
        steps = min(size_for(size.device, _MAX_STEPS), max(_MIN_STEPS, wanted))
    whole = dataclasses.replace(
        train,
        length=length,
        batch=batch,
        learning_rate=rate,
        max_steps=steps,
        epochs=None,
    )
    rows = f"{batch:,} sequences of {length}"
    passes_made = steps * batch / max(1, size.rows)
    summary = (
        f"{plan.objective.name} for {steps:,} steps of {rows} tokens, "
        f"{passes_made:.1f} passes over {size.tokens:,} tokens, "
        f"learning rate {rate:g} "
        f"({train.lr_scheduler_type}), {size.parameters:,} parameters on {size.device}."
    )
    return whole, summary
