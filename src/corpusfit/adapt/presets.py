"""The papers' settings, and a default that suits the data and the machine.

What: `preset` gives the settings of a paper by name; `settled` decides what a plan leaves open once
the model, the data and the device are known, and says in words what it came to.
Why: 50,000 steps of 256 sequences are right for a group with a GPU and absurd on a laptop.
Trade-off: the default goes by the kind of device, never by measured speed, so that the same data
gives the same model on any machine of a kind. What a paper does not say is left to the default.
Reference: TADPOLE, sections 3.2, 4 and 4.1; mDAPT, sections 3.3 and 4.1; Gururangan et al. (2020).
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from corpusfit.adapt.plan import AdaptPlan, TrainPlan
from corpusfit.errors import bad_setting

_TADPOLE = {
    "objective.name": "mlm+nsp",
    "train.steps": 50_000,
    "train.rate": 1e-4,
    "train.batch": 256,
    "train.length": 256,
    "train.warmup": 0.01,
}
PRESETS: dict[str, dict[str, Any]] = {
    "tadpole": _TADPOLE,
    "mdapt": {
        "train.steps": 25_000,
        "train.batch": 2_048,
        "train.length": 128,
        "train.rate": 5e-5,
    },
    "mdapt-adapter": {
        "adapter.kind": "pfeiffer",
        "train.steps": 1_500_000,
        "train.length": 128,
        "train.rate": 1e-4,
    },
    "tapt": {
        "train.epochs": 100.0,
        "train.evaluations": 100,
        "train.keep": "best",
        "train.rate": 1e-4,
        "train.batch": 64,
        "train.length": 128,
    },
}
"""Of each paper what it says; TADPOLE trains on sentences of 256 tokens. The batch of
256 task texts (some 30 tokens each) is 64 packed rows."""

_CONTINUOUS_STEPS = 100_000
_PASSES = 3
_LENGTH = {"cpu": 128, "cuda": 512}
_BATCH = {"cpu": 16, "cuda": 256}
_MOST_STEPS = {"cpu": 2_000, "cuda": 50_000}
_LEAST_STEPS = 50
_SMALL_MODEL = 50_000_000
_RATES = {True: 3e-4, False: 1e-4}
_FROM_SCRATCH = 1e-3


def preset(name: str, weights: str) -> dict[str, Any]:
    """The settings of a paper, by their paths in the plan.

    Args:
        name: a key of `PRESETS`.
        weights: the plan's policy: TADPOLE trains longer with continuous weights.

    Raises:
        UsageError: there is no such preset.
    """
    if name not in PRESETS:
        raise bad_setting("--preset", f"one of {', '.join(PRESETS)}", name)
    found = dict(PRESETS[name])
    if name == "tadpole" and weights == "lambda":
        found["train.steps"] = _CONTINUOUS_STEPS
    return found


@dataclass(frozen=True)
class Size:
    """What the default goes by.

    Attributes:
        tokens: tokens of the training data, special ones not counted.
        rows: sequences that a pass over it has.
        parameters: weights of the model.
        longest: tokens that a sequence of the model can have.
        device: `cpu` or `cuda`.
    """

    tokens: int
    rows: int
    parameters: int
    longest: int
    device: str


def length_of(plan: AdaptPlan, longest: int, device: str) -> int:
    """Tokens in a sequence, for a model that takes `longest` at most.

    Raises:
        UsageError: a sequence is longer than that.
    """
    length = plan.train.length or min(_LENGTH[device], longest)
    if length > longest:
        cure = "Longer texts are cut into several sequences."
        raise bad_setting("--length", f"at most {longest} for this model", length, cure)
    return length


def settled(plan: AdaptPlan, size: Size) -> tuple[TrainPlan, str]:
    """The training with nothing left open, and it in words."""
    train = plan.train
    length = length_of(plan, size.longest, size.device)
    batch = train.batch or _BATCH[size.device]
    rate = train.rate
    if rate is None:
        rate = _FROM_SCRATCH if plan.model.init else _RATES[size.parameters < _SMALL_MODEL]
    steps = train.steps
    if steps is None and train.epochs is not None:
        steps = max(1, math.ceil(size.rows * train.epochs / batch))
    if steps is None:
        wanted = math.ceil(_PASSES * size.rows / batch)
        steps = min(_MOST_STEPS[size.device], max(_LEAST_STEPS, wanted))
    whole = dataclasses.replace(
        train, length=length, batch=batch, rate=rate, steps=steps, epochs=None
    )
    passes = steps * batch / max(1, size.rows)
    words = (
        f"{plan.objective.name} for {steps:,} steps of {batch:,} sequences of {length} tokens, "
        f"{passes:.1f} passes over {size.tokens:,} tokens, learning rate {rate:g} "
        f"({train.schedule}), {size.parameters:,} weights on {size.device}."
    )
    return whole, words
