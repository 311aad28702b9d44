"""What `evaluate` would take, before it is done.

What: fine-tunes for a few steps, and counts what there is to do.
Why: eight seeds of two models on a large task are hours, and a user should know before.
Trade-off: a handful of examples stand for all; how soon dev stops gaining is not known, so every
epoch is counted. Answering is taken to cost a third of learning, as a forward pass does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from corpusfit.evaluate.finetune import finetune
from corpusfit.evaluate.plan import EvaluatePlan, settled
from corpusfit.evaluate.reading import read_task
from corpusfit.evaluate.task import Examples, nested_places
from corpusfit.pipeline.evaluating import training_sizes
from corpusfit.pipeline.run import Machine

__all__ = ["estimate_evaluation"]

_STEPS = 8


def estimate_evaluation(
    plan: EvaluatePlan,
    task: str,
    *,
    models: int,
    seeds: int,
    train_sizes: Sequence[int],
    machine: Machine,
) -> dict[str, Any]:
    """Measure a few steps, and project.

    Args:
        plan: as for `evaluate`.
        task: as for `evaluate`.
        models: how many are fine-tuned.
        seeds: of each.
        train_sizes: as for `evaluate`.
        machine: how many are fine-tuned at once.

    Returns:
        fine_tunings, train, dev, test (examples), examples_per_second (of one fine-tuning, while it
        learns), seconds, words.
    """
    found = read_task(task, plan.task, seed=plan.seed)
    adapter = bool(plan.model.adapter)
    whole = settled(plan.check(), found.kind, adapter=adapter, longest=2**20)
    epochs, batch = whole.tune.epochs or 1, whole.tune.batch or 1

    def few(examples: Examples) -> Examples:
        return examples.take(nested_places(len(examples), _STEPS * batch, plan.seed))

    splits = {split: getattr(found, split) for split in ("train", "dev", "test")}
    trial = dataclasses.replace(
        found, train=few(found.train), dev=few(found.dev), test=few(found.test)
    )
    one = dataclasses.replace(plan, tune=dataclasses.replace(plan.tune, epochs=1))
    speed = finetune(trial, one, plan.seed).examples_per_second
    sizes = [s or len(found.train) for s in training_sizes(train_sizes, len(found.train))]
    sizes = [s * (1 + plan.augment.copies * bool(plan.augment.kind)) for s in sizes]
    answered = epochs * len(found.dev) + len(found.dev) + len(found.test)
    work = sum(epochs * size + answered / 3 for size in sizes) * models * seeds
    count = len(sizes) * models * seeds
    with machine.start() as engine:
        at_once = min(engine.workers, count)
    return {
        "fine_tunings": count,
        **{split: len(examples) for split, examples in splits.items()},
        "examples_per_second": speed,
        "seconds": round(work / speed / at_once, 1),
        "words": " ".join(found.notes),
    }
