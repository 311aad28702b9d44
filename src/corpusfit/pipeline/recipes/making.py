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
from corpusfit.pipeline.commands import choose, select
from corpusfit.pipeline.companions import make_companions
from corpusfit.pipeline.recipes.cells import Cell, columns_of
from corpusfit.pipeline.recipes.looking import Look, LookAt, looks_of
from corpusfit.pipeline.recipes.outstanding import Todo, device_of, todo_of
from corpusfit.pipeline.recipes.parts import Adapting, Companions, Made, Selecting, Tuning, Work
from corpusfit.pipeline.recipes.steps import AdaptOne, Report, TuneOne, tried
from corpusfit.pipeline.run import Machine

__all__ = ["Under", "make"]

T = TypeVar("T", Adapting, Tuning, Look)


@dataclass
class Under:
    """A recipe under way.

    Attributes:
        made: what steps are made of.
        work: all steps.
        looks: at models and selections.
        todo: the steps that have to be made.
        machine: where.
        failed: by digest, why a step failed.
    """

    made: Made
    work: Work
    looks: Mapping[Cell, Look]
    todo: Todo
    machine: Machine
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> RecipeFolder:
        """Where all of it lies."""
        return self.made.folder

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


def make(under: Under) -> None:
    """Make every step that has to be made.

    Raises:
        CorpusfitError: the disk is full, or a worker died; everything finished is kept.
    """
    _select(under)
    _adapt(under)
    _augment(under)
    _tune(under)
    _look(under)


def _select(under: Under) -> None:
    """Make selections, one after another."""
    todo = under.todo.selections
    under.begin("selections")
    for nth, step in enumerate(todo, 1):
        under.machine.progress.note(f"Selection {nth} of {len(todo)}: {step.label}.")
        report = tried(step.key, partial(_selected, step, under), under.folder.costs)
        under.take(report, f"Selection {step.label}")


def _selected(step: Selecting, under: Under) -> dict[str, Any]:
    """Select; another amount of what is scored is chosen from a copy of those scores."""
    place = under.folder.selections / step.key
    told: dict[str, Any] = {"engine": under.machine.engine}
    if RunFolder(place).scored_so_far() is None:
        twins = under.folder.selections.glob(f"{step.scoring}-*[!y]")  # no .copy
        scored = [twin for twin in twins if RunFolder(twin).scored_so_far() is not None]
        if not scored:
            target, pile = [str(step.target)], under.made.recipe.pile
            select(step.plan, target, pile, place, machine=under.machine, overwrite=True)
            return told | {"scored": True}
        aside = place.with_name(f"{place.name}.copy")
        for left in (aside, place):
            remove(left)
        unwanted = shutil.ignore_patterns(
            *("selected", "manifest.json", "chosen.json", "examples", "examples.parquet")
        )
        shutil.copytree(scored[0], aside, ignore=unwanted)
        aside.rename(place)
    choose(place, step.plan.choose, machine=under.machine)
    return told


def _adapt(under: Under) -> None:
    """Adapt models, several at once."""
    folder = under.folder
    under.begin("adaptations")
    todo = [s for s in under.todo.adaptations if under.ready(s.key, [s.selection])]
    job = AdaptOne(folder.models, folder.costs, under.machine.cache)
    _each(under, "adapting", job, todo, lambda s: (s.key, f"Adaptation {s.label}"))


def _augment(under: Under) -> None:
    """Make companions, one task after another."""
    under.begin("companions")
    for step in under.todo.companions:
        report = tried(step.key, partial(_accompanied, step, under), under.folder.costs)
        under.take(report, f"Augmentation {step.plan.kind}")


def _accompanied(step: Companions, under: Under) -> dict[str, Any]:
    """Companions of one task."""
    task, recipe = load_task(step.task), under.made.recipe
    make_companions(
        task.train,
        step.plan,
        under.folder.companions / f"{step.key}.json",
        kind=task.kind,
        labels=task.labels,
        seed=recipe.seed,
        device=recipe.evaluate.tune.device,
        machine=under.machine,
    )
    return {}


def _tune(under: Under) -> None:
    """Fine-tune, several at once."""
    under.begin("fine-tunings")
    todo = [t for t in under.todo.tunings if under.ready(t.name, [t.adapted, t.extra])]
    names = {
        tuning.name: f"{column} for {cell.task}, seed {tuning.seed}"
        for cell, column in columns_of(under.work.cells).items()
        for tuning in under.work.cells[cell]
    }
    job = TuneOne(under.folder.companions, under.folder.costs)
    _each(under, "fine-tuning", job, todo, lambda t: (t.name, f"Fine-tuning {names[t.name]}"))


def _look(under: Under) -> None:
    """Measure what may go with the scores, several at once."""
    folder = under.folder
    if under.failed:  # what a failed selection was to be held against, another is
        under.looks = looks_of(under.made, under.work, under.failed)
        under.todo = todo_of(under.work, under.looks, folder)
    under.begin("forecasts")
    todo = [k for k in under.todo.looks if under.ready(k.key, [k.model, *k.selections])]
    names = {look.key: f"{cell.selector} for {cell.task}" for cell, look in under.looks.items()}
    job = LookAt(folder.selections, folder.costs, under.machine.cache)
    _each(under, "forecasting", job, todo, lambda k: (k.key, f"Forecast {names[k.key]}"))


def _each(
    under: Under,
    stage: str,
    job: Job[T, Report],
    todo: Sequence[T],
    named: Callable[[T], tuple[str, str]],
) -> None:
    """Do a job on every step, several at once; on a GPU one at a time."""
    if not todo:
        return
    labels, progress = dict(map(named, todo)), under.machine.progress
    progress.begin(stage, len(todo), "steps")
    try:
        with under.machine.for_training(device_of(todo)).start() as engine:
            engine.require_shared(under.folder.work, "--out")
            for report in engine.map(job, todo):
                progress.advance(1, 1)
                under.take(report, labels[report.key])
    finally:
        progress.end()
