"""Translate the dev and test texts of a task with a model as it is."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from corpusfit.adapt.failures import naming_memory_errors
from corpusfit.adapt.memory import kept_memory
from corpusfit.adapt.translating import translate
from corpusfit.embed.hardware import Hardware, resolve
from corpusfit.errors import TrainingError
from corpusfit.evaluate.outcome import Outcome
from corpusfit.evaluate.plan import EvaluatePlan
from corpusfit.evaluate.registry import load
from corpusfit.evaluate.seq2seq import SETTING, open_translator
from corpusfit.evaluate.task import Task


def decoding_hardware(plan: EvaluatePlan) -> Hardware:
    """Device and precision of a beam search; `auto` is fp32 on a CPU, so that ties stay rare.

    Raises:
        UsageError: the device is not available.
    """
    found = resolve(dataclasses.replace(plan.finetune, precision=plan.decode.precision), "finetune")
    if plan.decode.precision == "auto" and found.device == "cpu":
        return found._replace(precision="fp32")
    return found


def translate_task(
    task: Task,
    plan: EvaluatePlan,
    seed: int,
    *,
    on_share: Callable[[float], None] | None = None,
) -> Outcome:
    """Translate dev and test by beam search, and score them.

    The result is a function of model, task and plan. The sums of each sentence are kept with the
    translations, so that no test needs to count n-grams again.

    Args:
        task: dev and test examples.
        plan: the model, the beam search, device and precision.
        seed: number of the outcome; nothing is drawn.
        on_share: called with the share of the sentences that are translated.

    Raises:
        UsageError: the model is neither a folder nor a hub id, or the device is not available.
        ModelError: the model cannot be loaded, or does not translate.
        TrainingError: memory ran out.
    """
    began, processor = time.perf_counter(), time.process_time()
    hardware, task_type = decoding_hardware(plan), load(task.kind)
    model, tokenizer = open_translator(SETTING, plan.model.name, hardware.precision)
    model.to(hardware.device)
    known = {"dev": task.dev, "test": task.test}
    splits = {s: known[s] for s in plan.decode.splits.split(",") if len(known[s])}
    total, done = sum(map(len, splits.values())), 0

    def count(sentences: int) -> None:
        nonlocal done
        done += sentences
        if on_share is not None:
            on_share(done / total)

    out_of_memory = TrainingError(
        f"Out of memory with {plan.decode.beam} beams. Set a smaller <decode.beam>."
    )
    predicted: dict[str, list[Any]] = {}
    scores: dict[str, dict[str, float]] = {}
    sums: dict[str, list[Any]] = {}
    truncated: dict[str, int] = {}
    with kept_memory(), naming_memory_errors(out_of_memory):
        for split, examples in splits.items():
            found = translate(model, tokenizer, examples.texts(), plan.decode, on_done=count)
            predicted[split], truncated[split] = found.texts, found.truncated
            tally = task_type.tally(task.labels, examples, np.asarray(found.texts, object))
            sums[split] = tally.tolist()
            scores[split] = {n: float(task_type.score(n, tally.sum(0))) for n in task_type.metrics}
    seconds = time.perf_counter() - began
    return Outcome(
        size=0,
        seed=seed,
        scores=scores,
        predicted=predicted,
        history=[],
        best=0,
        tune={**dataclasses.asdict(plan.decode), **hardware._asdict()},
        truncated=truncated,
        seconds=round(seconds, 3),
        cpu_seconds=round(time.process_time() - processor, 3),
        examples_per_second=round(total / max(seconds, 1e-9), 3),
        sums=sums,
    )
