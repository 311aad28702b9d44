"""Answer the dev and test examples of a task with a model as it is."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from corpusfit.embed.hardware import Hardware, resolve
from corpusfit.evaluation.outcome import Outcome
from corpusfit.evaluation.plan import EvaluatePlan
from corpusfit.evaluation.registry import load
from corpusfit.evaluation.task import Task
from corpusfit.training.memory import kept_memory


def answering_hardware(plan: EvaluatePlan, kind: str) -> Hardware:
    """Device and precision of a model that answers as it is.

    `auto` is fp32 on a CPU, so that ties stay rare.
    """
    precision = getattr(plan, load(kind).group).precision
    found = resolve(dataclasses.replace(plan.finetune, precision=precision), "finetune")
    if precision == "auto" and found.device == "cpu":
        return found._replace(precision="fp32")
    return found


def answer_task(
    task: Task,
    plan: EvaluatePlan,
    seed: int,
    *,
    on_share: Callable[[float], None] | None = None,
) -> Outcome:
    """Answer dev and test, and score the answers.

    The result is a function of model, task, plan and seed. The sums of each example are kept with
    the answers, so that no test needs to count them again.
    """
    began, processor = time.perf_counter(), time.process_time()
    hardware, task_type = answering_hardware(plan, task.kind), load(task.kind)
    answering = task_type.open_model(task, plan, seed, hardware)
    known = {"dev": task.dev, "test": task.test}
    asked = plan.decode.splits.split(",") if task_type.group == "decode" else known
    splits = {s: known[s] for s in asked if len(known[s])}
    total, done = sum(map(len, splits.values())), 0.0

    def count(examples: float) -> None:
        nonlocal done
        done += examples
        if on_share is not None:
            on_share(min(1.0, done / total))

    predicted: dict[str, list[Any]] = {}
    scores: dict[str, dict[str, float]] = {}
    sums: dict[str, list[Any]] = {}
    truncated: dict[str, int] = {}
    with kept_memory():
        for split, examples in splits.items():
            predicted[split], truncated[split] = answering(examples, count)
            kept = object if task_type.parallel else None
            tally = task_type.tally(task.labels, examples, np.asarray(predicted[split], kept))
            sums[split] = tally.tolist()
            every = {
                n: float(task_type.score(n, tally.sum(0)))
                for n in task_type.metrics_of(task.labels)
            }
            scores[split] = {n: score for n, score in every.items() if math.isfinite(score)}
    seconds = time.perf_counter() - began
    return Outcome(
        size=0,
        seed=seed,
        scores=scores,
        predicted=predicted,
        history=[],
        best=0,
        tune={**dataclasses.asdict(getattr(plan, task_type.group)), **hardware._asdict()},
        truncated=truncated,
        seconds=round(seconds, 3),
        cpu_seconds=round(time.process_time() - processor, 3),
        examples_per_second=round(total / max(seconds, 1e-9), 3),
        sums=sums,
    )
