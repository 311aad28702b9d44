"""Runs a recipe's pending steps, phase by phase."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from corpusfit.core.artifacts import write_bytes
from corpusfit.core.engine import Job, Meter
from corpusfit.core.errors import TrainingError
from corpusfit.evaluation.augment import write_augmented_examples
from corpusfit.evaluation.task import load_task
from corpusfit.experiments.folder import RecipeFolder
from corpusfit.experiments.grid import Cell, columns_of
from corpusfit.experiments.nodes import (
    AdaptNode,
    AugmentNode,
    ComposeNode,
    RecipeInputs,
    SelectNode,
    StepGraph,
    TuneNode,
)
from corpusfit.experiments.predictors import PredictorJob, PredictorNode, predictors_of
from corpusfit.experiments.status import LABELS, PendingSteps, device_of, pending_steps
from corpusfit.experiments.workers import AdaptJob, Report, TuneJob, run_step
from corpusfit.mixing.composing import compose
from corpusfit.selection.commands import choose, select
from corpusfit.selection.folder import SelectionFolder, copy_scores
from corpusfit.text.context import Machine

T = TypeVar("T", AdaptNode, TuneNode, PredictorNode)


@dataclass
class RecipeContext:
    """Run context of a recipe.

    Attributes:
        inputs: the recipe with its tasks, pile and models.
        graph: all steps.
        predictors: those to measure, by cell.
        pending: the steps to run.
        machine: where they run.
        failed: by digest, the error of a failed step.
    """

    inputs: RecipeInputs
    graph: StepGraph
    predictors: Mapping[Cell, PredictorNode]
    pending: PendingSteps
    machine: Machine
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> RecipeFolder:
        """The recipe's folder."""
        return self.inputs.folder

    def announce(self, phase: str) -> None:
        """Note how many steps of a phase are pending."""
        total, left = self.pending.counts()[phase]
        if left:
            pending = f" ({left} pending)" if left < total else ""
            self.machine.progress.note(
                f"{LABELS.get(phase, phase).capitalize()}: {total}{pending}."
            )

    def has_inputs(self, key: str, needs: Sequence[str]) -> bool:
        """Whether no step that this one needs has failed; else it fails with the same error."""
        failed = [need for need in needs if need in self.failed]
        if failed:
            self.failed[key] = self.failed[failed[0]]
        return not failed

    def handle(self, report: Report, label: str) -> None:
        """Report a step's warnings and store its error."""
        for warning in report.warnings:
            self.machine.progress.warn(f"{label}: {warning}")
        failure = self.folder.failures / f"{report.key}.json"
        if report.error:
            self.failed[report.key] = report.error
            self.machine.progress.warn(f"{label} failed: {report.error}")
            write_bytes(failure, json.dumps(dataclasses.asdict(report)).encode())
        else:
            failure.unlink(missing_ok=True)


def run_steps(context: RecipeContext) -> None:
    """Run every pending step.

    Selections run one after another, as each uses all workers. Adaptations and fine-tunings run in
    parallel with one compute thread each, or one at a time on a GPU. A failed step fails only the
    steps that need it.
    """
    _select(context)
    _adapt(context)
    _augment(context)
    _tune(context)
    _measure_predictors(context)


def _select(context: RecipeContext) -> None:
    pending = context.pending.selections
    context.announce("selections")
    for number, step in enumerate(pending, 1):
        context.machine.progress.note(f"Selection {number} of {len(pending)}: {step.label}.")
        run = partial(_run_selection, step, context)
        report = run_step(step.key, run, context.folder.costs)
        context.handle(report, f"Selection {step.label}")


def _run_selection(step: SelectNode | ComposeNode, context: RecipeContext) -> dict[str, Any]:
    """Score and select; if another amount has scores already, choose from a copy of them."""
    machine = context.machine
    place = context.folder.selections / step.key
    record: dict[str, Any] = {"engine": context.machine.engine}
    if isinstance(step, ComposeNode):
        compose(step.plan, place, machine=machine, overwrite=True)
        return record
    if SelectionFolder(place).scored_so_far() is None:
        siblings = context.folder.selections.glob(f"{step.scoring}-*[!y]")  # no .copy
        scored = [
            sibling for sibling in siblings if SelectionFolder(sibling).scored_so_far() is not None
        ]
        if not scored:
            target, pile = [str(step.target)], context.inputs.recipe.corpus
            select(step.plan, target, pile, place, machine=machine, overwrite=True)
            return record | {"scored": True}
        copy_scores(scored[0], place)
    choose(place, step.plan.choose, machine=machine)
    return record


def _adapt(context: RecipeContext) -> None:
    """Run adaptations, in parallel."""
    folder = context.folder
    context.announce("adaptations")
    pending = [s for s in context.pending.adaptations if context.has_inputs(s.key, [s.selection])]
    job = AdaptJob(folder.models, folder.costs, context.machine.cache)
    _run_all(context, "adapt", job, pending, lambda s: (s.key, f"Adaptation {s.label}"))


def _augment(context: RecipeContext) -> None:
    """Run augmentations, one task after another."""
    context.announce("companions")
    for step in context.pending.augmentations:
        run = partial(_run_augmentation, step, context)
        report = run_step(step.key, run, context.folder.costs)
        context.handle(report, f"Augmentation {step.plan.kind}")


def _run_augmentation(step: AugmentNode, context: RecipeContext) -> dict[str, Any]:
    task, recipe = load_task(step.task), context.inputs.recipe
    write_augmented_examples(
        task.train,
        step.plan,
        context.folder.companions / f"{step.key}.json",
        kind=task.kind,
        labels=task.labels,
        seed=recipe.seed,
        device=recipe.evaluate.finetune.device,
        machine=context.machine,
    )
    return {}


def run_searches(context: RecipeContext) -> None:
    """Run the pending fine-tunings of the searches, which decide the settings of all others."""
    searches = {t.name: t for tried in context.graph.searches.values() for _, t in tried}
    own = [t for t in context.pending.tunings if t.name in searches]
    if own:
        context.machine.progress.note(f"Search of settings on dev: {len(own)} fine-tunings.")
        _fine_tune(context, own)
    failed = [context.failed[name] for name in searches if name in context.failed]
    if failed:
        raise TrainingError(f"The search of settings on dev failed: {failed[0]}")


def _tune(context: RecipeContext) -> None:
    """Run fine-tunings, in parallel."""
    context.announce("fine-tunings")
    _fine_tune(
        context,
        [t for t in context.pending.tunings if context.has_inputs(t.name, [t.adapted, t.extra])],
    )


def _fine_tune(context: RecipeContext, pending: Sequence[TuneNode]) -> None:
    names = {
        tuning.name: f"search for {task}, {settings}"
        for (task, _), tried in context.graph.searches.items()
        for settings, tuning in tried
    } | {
        tuning.name: f"{column} for {cell.task}, seed {tuning.seed}"
        for cell, column in columns_of(context.graph.cells).items()
        for tuning in context.graph.cells[cell]
    }
    job = TuneJob(context.folder.companions, context.folder.costs)
    _run_all(context, "fine-tune", job, pending, lambda t: (t.name, f"Fine-tuning {names[t.name]}"))


def _measure_predictors(context: RecipeContext) -> None:
    """Measure predictors of the gain, in parallel."""
    folder = context.folder
    if context.failed:  # another selection replaces a failed one
        context.predictors = predictors_of(context.inputs, context.graph, context.failed)
        context.pending = pending_steps(context.graph, context.predictors, folder)
    context.announce("forecasts")
    pending = [
        k for k in context.pending.predictors if context.has_inputs(k.key, [k.model, *k.selections])
    ]
    names = {
        predictor.key: f"{cell.selector} for {cell.task}"
        for cell, predictor in context.predictors.items()
    }
    job = PredictorJob(folder.selections, folder.costs, context.machine.cache)
    _run_all(
        context,
        "measure predictors",
        job,
        pending,
        lambda k: (k.key, f"Predictors of {names[k.key]}"),
    )


def _run_all(
    context: RecipeContext,
    stage: str,
    job: Job[T, Report],
    pending: Sequence[T],
    describe: Callable[[T], tuple[str, str]],
) -> None:
    """Run a job on every step, in parallel; on a GPU one at a time."""
    if not pending:
        return
    labels, progress = dict(map(describe, pending)), context.machine.progress
    machine = context.machine.for_training(device_of(pending))
    with progress.showing(stage, len(pending), "steps"), machine.start() as engine:
        engine.require_shared(context.folder.work, "`out`")
        meter = Meter(progress)
        for report in engine.map(job, meter.weighed(pending), meter):
            progress.advance(0, 1)
            context.handle(report, labels[report.key])
