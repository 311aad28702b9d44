"""A dry run of `evaluate`: fine-tunes for a few steps and estimates the time of all."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from corpusfit.core.errors import CorpusfitError
from corpusfit.evaluation.backtranslate import BackTranslator
from corpusfit.evaluation.evaluating import BASE, OURS, SETTINGS, prepare, side_of
from corpusfit.evaluation.finetune_job import FineTune, FineTuning
from corpusfit.evaluation.network import trains_adapter
from corpusfit.evaluation.opening import require_models
from corpusfit.evaluation.outcome import Outcome
from corpusfit.evaluation.plan import EvaluatePlan, HeadPlan, settled
from corpusfit.evaluation.registry import load
from corpusfit.evaluation.task import Examples, Task, nested_places, store_task
from corpusfit.text.context import Machine

_STEPS = 8
_ANSWERED = 64


def estimate_evaluation(
    plan: EvaluatePlan,
    task: str,
    *,
    base: str,
    seeds: int,
    train_sizes: Sequence[int],
    machine: Machine,
) -> dict[str, Any]:
    """Measure a few steps, and estimate the time of the evaluation.

    The estimate counts every epoch, as early stopping cannot be known in advance, and takes a third
    of the time of training for prediction.
    """
    plan = plan.check()
    found, sizes, seeds = prepare(plan, task, base, seeds, train_sizes, machine.progress)

    def opened(name: str) -> list[HeadPlan]:
        own = [model.plan for model in side_of(plan, found, name, seeds).models]
        plans = (dataclasses.replace(plan, model=model) for model in own)
        require_models(found, plans, SETTINGS[BASE if name else OURS])
        return own

    if base:
        try:
            opened(base)
        except CorpusfitError as e:  # the time can be estimated without it
            machine.progress.warn(f"The evaluation would stop before its first step: {e.args[0]}")
    if plan.augment.mt:
        BackTranslator.load(plan.augment.mt, plan.augment.mt_back, device="cpu")
    plan, models = dataclasses.replace(plan, model=opened("")[0]), 2 if base else 1
    if not load(found.kind).learns:
        return _answers(plan, found, models * seeds, machine)
    adapter = trains_adapter(plan.model)
    finetune = settled(plan, found.kind, adapter=adapter, longest=2**20).finetune
    epochs, batch = finetune.epochs or 1, finetune.batch or 1
    sizes = [size or len(found.train) for size in sizes]
    largest = max(sizes)
    sizes = [s * (1 + plan.augment.copies * bool(plan.augment.kind)) for s in sizes]
    count = len(sizes) * models * seeds
    speed, at_once = _measure(plan, found, _STEPS * batch, machine)
    answered = (epochs + 1) * len(found.dev) + len(found.test)
    each = [epochs * size + answered / 3 for size in sizes]
    if plan.model.frozen:  # every text goes through the model once
        each = [size + len(found.dev) + len(found.test) for size in sizes]
    work = sum(each) * models * seeds
    return {
        "fine_tunings": count,
        "train": largest,
        "dev": len(found.dev),
        "test": len(found.test),
        "examples_per_second": speed,
        "seconds": round(work / speed / min(at_once, count), 1),
        "words": " ".join(found.notes),
    }


def _answers(plan: EvaluatePlan, task: Task, models: int, machine: Machine) -> dict[str, Any]:
    """The estimate where nothing is learned: each model answers dev and test once."""
    most = max(_ANSWERED, plan.likelihood.shots)  # the prompt's examples, too
    speed, at_once = _measure(plan, task, most, machine)
    work = models * (len(task.dev) + len(task.test))
    return {
        "fine_tunings": models,
        **{split: len(getattr(task, split)) for split in ("train", "dev", "test")},
        "examples_per_second": speed,
        "seconds": round(work / speed / min(at_once, models), 1),
        "words": " ".join(task.notes),
    }


def _measure(plan: EvaluatePlan, task: Task, most: int, machine: Machine) -> tuple[float, int]:
    """Examples per second of an epoch over a few, in a worker; and fine-tunings in parallel."""

    def subset(examples: Examples) -> Examples:
        return examples.take(nested_places(len(examples), most, plan.seed))

    sample = dataclasses.replace(
        task, train=subset(task.train), dev=subset(task.dev), test=subset(task.test)
    )
    one = plan.with_value("finetune.epochs", 1)
    with machine.scratch() as folder, machine.start() as engine:
        store_task(sample, folder / "task.json")
        piece = FineTuning(folder / "task.json", one, 0, plan.seed, None, folder / "outcome.json")
        (out,) = engine.map(FineTune(), [piece])
        outcome = Outcome.read(out)
        at_once = machine.for_training(outcome.tune["device"]).workers or engine.workers
    return outcome.examples_per_second, at_once
