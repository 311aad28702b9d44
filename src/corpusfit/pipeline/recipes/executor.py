"""A recipe's steps, made: what is missing, each once.

What: selects, adapts, makes companions, fine-tunes and looks, in this order.
Why: a step that fails is told of in its cells, and costs no other.
Trade-off: selections come one after another, as each uses all workers; adaptations and
fine-tunings come several at once with one compute thread each, or one at a time on a GPU.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from corpusfit.artifacts import remove, write_bytes
from corpusfit.engine import Job
from corpusfit.evaluate.task import load_task
from corpusfit.manifest import RecipeFolder, RunFolder
from corpusfit.pipeline.augment import make_companions
from corpusfit.pipeline.commands import choose, select
from corpusfit.pipeline.recipes.grid import Cell, columns_of
from corpusfit.pipeline.recipes.nodes import (
    AdaptNode,
    AugmentNode,
    RecipeInputs,
    SelectNode,
    StepGraph,
    TuneNode,
)
from corpusfit.pipeline.recipes.predictors import PredictorJob, PredictorNode, predictors_of
from corpusfit.pipeline.recipes.status import Todo, device_of, todo_of
from corpusfit.pipeline.recipes.workers import AdaptJob, Report, TuneJob, run_step
from corpusfit.pipeline.run import Machine

T = TypeVar("T", AdaptNode, TuneNode, PredictorNode)


@dataclass
class RecipeContext:
    """A recipe under way.

    Attributes:
        made: what steps are made of.
        work: all steps.
        looks: at models and selections.
        todo: the steps that have to be made.
        machine: where.
        failed: by digest, why a step failed.
    """

    inputs: RecipeInputs
    work: StepGraph
    looks: Mapping[Cell, PredictorNode]
    todo: Todo
    machine: Machine
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> RecipeFolder:
        """Where all of it lies."""
        return self.inputs.folder

    def begin(self, phase: str) -> None:
        """Say what comes."""
        total, left = self.todo.counts()[phase]
        if left:
            there = f", of which {left} are to be made" if left < total else ""
            self.machine.progress.note(f"{phase.capitalize()}: {total}{there}.")

    def ready(self, key: str, needs: Sequence[str]) -> bool:
        """Whether all that a step needs is there; else it has failed as that did."""
        lacking = [need for need in needs if need in self.failed]
        if lacking:
            self.failed[key] = self.failed[lacking[0]]
        return not lacking

    def take(self, report: Report, label: str) -> None:
        """Tell of a step, and keep why it failed."""
        for warning in report.warnings:
            self.machine.progress.warn(f"{label}: {warning}")
        failure = self.folder.failures / f"{report.key}.json"
        if report.error:
            self.failed[report.key] = report.error
            self.machine.progress.warn(f"{label} failed: {report.error}")
            write_bytes(failure, json.dumps(dataclasses.asdict(report)).encode())
        else:
            failure.unlink(missing_ok=True)


def make(context: RecipeContext) -> None:
    """Make every step that has to be made.

    Raises:
        CorpusfitError: the disk is full, or a worker died; everything finished is kept.
    """
    _select(context)
    _adapt(context)
    _augment(context)
    _tune(context)
    _look(context)


def _select(context: RecipeContext) -> None:
    """Make selections, one after another."""
    todo = context.todo.selections
    context.begin("selections")
    for nth, step in enumerate(todo, 1):
        context.machine.progress.note(f"Selection {nth} of {len(todo)}: {step.label}.")
        report = run_step(step.key, partial(_selected, step, context), context.folder.costs)
        context.take(report, f"Selection {step.label}")


def _selected(step: SelectNode, context: RecipeContext) -> dict[str, Any]:
    """Select; another amount of what is scored is chosen from a copy of those scores."""
    place = context.folder.selections / step.key
    told: dict[str, Any] = {"engine": context.machine.engine}
    if RunFolder(place).scored_so_far() is None:
        twins = context.folder.selections.glob(f"{step.scoring}-*[!y]")  # no .copy
        scored = [twin for twin in twins if RunFolder(twin).scored_so_far() is not None]
        if not scored:
            target, pile = [str(step.target)], context.inputs.recipe.pile
            select(step.plan, target, pile, place, machine=context.machine, overwrite=True)
            return told | {"scored": True}
        aside = place.with_name(f"{place.name}.copy")
        for left in (aside, place):
            remove(left)
        unwanted = shutil.ignore_patterns(
            *("selected", "manifest.json", "chosen.json", "examples", "examples.parquet")
        )
        shutil.copytree(scored[0], aside, ignore=unwanted)
        aside.rename(place)
    choose(place, step.plan.choose, machine=context.machine)
    return told


def _adapt(context: RecipeContext) -> None:
    """Adapt models, several at once."""
    folder = context.folder
    context.begin("adaptations")
    todo = [s for s in context.todo.adaptations if context.ready(s.key, [s.selection])]
    job = AdaptJob(folder.models, folder.costs, context.machine.cache)
    _each(context, "adapting", job, todo, lambda s: (s.key, f"Adaptation {s.label}"))


def _augment(context: RecipeContext) -> None:
    """Make companions, one task after another."""
    context.begin("companions")
    for step in context.todo.companions:
        report = run_step(step.key, partial(_accompanied, step, context), context.folder.costs)
        context.take(report, f"Augmentation {step.plan.kind}")


def _accompanied(step: AugmentNode, context: RecipeContext) -> dict[str, Any]:
    """Companions of one task."""
    task, recipe = load_task(step.task), context.inputs.recipe
    make_companions(
        task.train,
        step.plan,
        context.folder.companions / f"{step.key}.json",
        kind=task.kind,
        labels=task.labels,
        seed=recipe.seed,
        device=recipe.evaluate.tune.device,
        machine=context.machine,
    )
    return {}


def _tune(context: RecipeContext) -> None:
    """Fine-tune, several at once."""
    context.begin("fine-tunings")
    todo = [t for t in context.todo.tunings if context.ready(t.name, [t.adapted, t.extra])]
    names = {
        tuning.name: f"{column} for {cell.task}, seed {tuning.seed}"
        for cell, column in columns_of(context.work.cells).items()
        for tuning in context.work.cells[cell]
    }
    job = TuneJob(context.folder.companions, context.folder.costs)
    _each(context, "fine-tuning", job, todo, lambda t: (t.name, f"Fine-tuning {names[t.name]}"))


def _look(context: RecipeContext) -> None:
    """Measure what may go with the scores, several at once."""
    folder = context.folder
    if context.failed:  # what a failed selection was to be held against, another is
        context.looks = predictors_of(context.inputs, context.work, context.failed)
        context.todo = todo_of(context.work, context.looks, folder)
    context.begin("forecasts")
    todo = [k for k in context.todo.looks if context.ready(k.key, [k.model, *k.selections])]
    names = {look.key: f"{cell.selector} for {cell.task}" for cell, look in context.looks.items()}
    job = PredictorJob(folder.selections, folder.costs, context.machine.cache)
    _each(context, "forecasting", job, todo, lambda k: (k.key, f"Forecast {names[k.key]}"))


def _each(
    context: RecipeContext,
    stage: str,
    job: Job[T, Report],
    todo: Sequence[T],
    named: Callable[[T], tuple[str, str]],
) -> None:
    """Do a job on every step, several at once; on a GPU one at a time."""
    if not todo:
        return
    labels, progress = dict(map(named, todo)), context.machine.progress
    progress.begin(stage, len(todo), "steps")
    try:
        with context.machine.for_training(device_of(todo)).start() as engine:
            engine.require_shared(context.folder.work, "--out")
            for report in engine.map(job, todo):
                progress.advance(1, 1)
                context.take(report, labels[report.key])
    finally:
        progress.end()
