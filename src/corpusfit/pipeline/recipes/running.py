"""The command `run`: from a recipe to its table.

What: stores the tasks, selects, adapts, makes companions and fine-tunes, each step that is missing
and each once, then judges.
Why: a table of eight cells and eight seeds is hours of work; whatever stops it, the same command
goes on and repeats no finished step.
Trade-off: selections come one after another, as each uses all workers; adaptations and
fine-tunings come several at once with one compute thread each, or one at a time on a GPU.
Reference: TADPOLE, sections 4 to 4.2.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from corpusfit.artifacts import is_local, listed, remove, write_bytes
from corpusfit.embed.hardware import resolve
from corpusfit.engine import Job
from corpusfit.errors import bad_setting
from corpusfit.evaluate.augment import augmented
from corpusfit.evaluate.tables import Table
from corpusfit.evaluate.task import load_task, store_examples
from corpusfit.manifest import RecipeFolder, RunFolder, versions
from corpusfit.pipeline.commands import choose, select
from corpusfit.pipeline.recipes.cells import check_plans, columns_of
from corpusfit.pipeline.recipes.judging import Judged, judged
from corpusfit.pipeline.recipes.linking import Look, LookAt, links_of, looks_of
from corpusfit.pipeline.recipes.outstanding import counts_of, tunings_of, whole
from corpusfit.pipeline.recipes.recipe import Recipe
from corpusfit.pipeline.recipes.reckoning import costs_of
from corpusfit.pipeline.recipes.steps import AdaptOne, Report, TuneOne, tried
from corpusfit.pipeline.recipes.storing import made_of
from corpusfit.pipeline.recipes.tabling import tables_of, write_tables
from corpusfit.pipeline.recipes.work import (
    Adapting,
    Companions,
    Made,
    Selecting,
    Tuning,
    Work,
    work_of,
)
from corpusfit.pipeline.run import Machine
from corpusfit.plan import EmbedPlan

__all__ = ["Ran", "run_recipe"]

HERE = Machine()
T = TypeVar("T", Adapting, Tuning, Look)


@dataclass(frozen=True)
class Ran:
    """A recipe that was run.

    Attributes:
        path: its folder, with `table.md`, `table.tex`, `table.csv` and `table.json`.
        judged: every figure.
        tables: as they are printed.
    """

    path: Path
    judged: Judged
    tables: list[Table]


@dataclass
class _Under:
    """A recipe under way."""

    made: Made
    work: Work
    machine: Machine
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> RecipeFolder:
        return self.made.folder

    def take(self, report: Report, label: str) -> None:
        """Keep what a step took, or why it failed."""
        for warning in report.warnings:
            self.machine.progress.warn(f"{label}: {warning}")
        failure = self.folder.failures / f"{report.key}.json"
        if report.error:
            self.failed[report.key] = report.error
            self.machine.progress.warn(f"{label} failed: {report.error}")
            write_bytes(failure, json.dumps(dataclasses.asdict(report)).encode())
            return
        cost = {"seconds": report.seconds, "cpu_seconds": report.cpu_seconds}
        write_bytes(self.folder.costs / f"{report.key}.json", json.dumps(cost).encode())
        failure.unlink(missing_ok=True)


def run_recipe(
    recipe: Recipe, out: Path, *, machine: Machine = HERE, overwrite: bool = False
) -> Ran:
    """Make a recipe's table.

    Args:
        recipe: what is asked for.
        out: a new or empty folder of this machine, or one of the same recipe: what it has of the
            steps is not made again.
        machine: where it runs.
        overwrite: throw away another recipe's steps in `out`.

    Returns:
        The tables; they name the cells that failed.

    Raises:
        CorpusfitError: nothing can begin, or a worker died; everything finished is kept.
    """
    check_plans(recipe)
    if not is_local(out):
        raise bad_setting("--out", "a folder of this machine", str(out))
    folder = RecipeFolder(out.absolute())
    folder.claim()
    identity = {"command": "run", "recipe": recipe.name}
    folder.begin(
        {**identity, "versions": {"corpusfit": versions()["corpusfit"]}}, overwrite=overwrite
    )
    made = made_of(recipe, folder, machine.progress, store=True)
    under = _Under(made, work_of(made), machine)
    if any(left for _, left in counts_of(under.work, folder).values()):
        folder.reopen()
    _select(under)
    _adapt(under)
    _augment(under)
    _tune(under)
    _look(under)
    return _judge(under)


def _judge(under: _Under) -> Ran:
    """Compare, write the tables and, if no cell failed, the manifest."""
    under.machine.progress.note("Comparing.")
    recipe, folder, work = under.made.recipe, under.folder, under.work
    found = judged(under.made, work, under.failed)
    costs = costs_of(recipe, folder, work, _device(recipe))
    links = links_of(under.made, work, found, under.failed)
    tables = tables_of(recipe, found, links, costs)
    facts = {
        "recipe": dataclasses.asdict(recipe),
        "tasks": [dataclasses.asdict(task) for task in under.made.tasks.values()],
        "pile": dict(under.made.pile),
        "models": dict(under.made.models),
        "versions": versions(),
        "adapted": list(_adapted(under)),
        "costs": [dataclasses.asdict(cost) for cost in costs],
        "forecasts": dataclasses.asdict(links),
    }
    write_tables(folder.path, tables, found, facts)
    if not found.failed:
        steps = {phase: total for phase, (total, _) in counts_of(work, folder).items()}
        folder.finish({**facts, "steps": steps})
    return Ran(folder.path, found, tables)


def _adapted(under: _Under) -> Iterator[dict[str, Any]]:
    """Of each adapted model its losses, and what of dev and test was kept out of its text."""
    for key, step in under.work.adaptations.items():
        manifest = under.folder.models / key / "manifest.json"
        if manifest.exists():
            found = json.loads(manifest.read_text("utf-8"))
            kept = {"losses": found["losses"], "guard": found["counts"].get("guard")}
            yield {"key": key, "label": step.label, "seed": step.plan.seed, **kept}


def _device(recipe: Recipe) -> str:
    """Where models are trained."""
    plan = recipe.evaluate.tune
    return resolve(EmbedPlan(device=plan.device, precision=plan.precision), "tune").device


def _begin(under: _Under, phase: str, total: int, left: int) -> None:
    """Say what comes."""
    if left:
        there = f", of which {total - left} are there" if left < total else ""
        under.machine.progress.note(f"{phase.capitalize()}: {total}{there}.")


def _select(under: _Under) -> None:
    """Make the selections that are missing, one after another."""
    folder, wanted = under.folder, under.work.selections
    todo = [s for s in wanted.values() if not whole(folder.selections / s.key)]
    _begin(under, "selections", len(wanted), len(todo))
    for nth, step in enumerate(todo, 1):
        under.machine.progress.note(f"Selection {nth} of {len(todo)}: {step.label}.")
        twins = [s.key for s in wanted.values() if s.scoring == step.scoring and s is not step]
        make = partial(_selected, step, twins, under)
        under.take(tried(step.key, make), f"Selection {step.label}")


def _selected(step: Selecting, twins: Sequence[str], under: _Under) -> None:
    """Select; another amount of what is scored is chosen from a copy of those scores."""
    place = under.folder.selections / step.key
    scored = [
        under.folder.selections / twin
        for twin in twins
        if RunFolder(under.folder.selections / twin).scored_so_far() is not None
    ]
    if scored and RunFolder(place).scored_so_far() is None:
        aside = place.with_name(f"{place.name}.copy")
        for left in (aside, place):
            remove(left)
        unwanted = shutil.ignore_patterns("selected", "manifest.json", "chosen.json")
        shutil.copytree(scored[0], aside, ignore=unwanted)
        aside.rename(place)
    if RunFolder(place).scored_so_far() is not None:
        choose(place, step.plan.choose, machine=under.machine)
        return
    target, pile = [str(step.target)], under.made.recipe.pile
    select(step.plan, target, pile, place, machine=under.machine, overwrite=True)


def _adapt(under: _Under) -> None:
    """Adapt the models that are missing, several at once."""
    folder, wanted = under.folder, under.work.adaptations
    todo = []
    for step in wanted.values():
        if step.selection in under.failed:
            under.failed[step.key] = under.failed[step.selection]
        elif not whole(folder.models / step.key):
            todo.append(step)
    _begin(under, "adaptations", len(wanted), len(todo))
    job = AdaptOne(folder.models, under.machine.cache)
    _each(under, "adapting", job, todo, lambda s: (s.key, f"Adaptation {s.label}"))


def _augment(under: _Under) -> None:
    """Make the companions that are missing, one task after another."""
    wanted, there = under.work.companions, listed(under.folder.companions)
    todo = [s for s in wanted.values() if f"{s.key}.json" not in there]
    _begin(under, "companions", len(wanted), len(todo))
    for step in todo:
        report = tried(step.key, partial(_accompanied, step, under))
        under.take(report, f"Augmentation {step.plan.kind}")


def _accompanied(step: Companions, under: _Under) -> None:
    """Companions of one task."""
    task, recipe = load_task(step.task), under.made.recipe
    found = augmented(
        task.train,
        step.plan,
        kind=task.kind,
        labels=task.labels,
        seed=recipe.seed,
        device=recipe.evaluate.tune.device,
        progress=under.machine.progress,
    )
    store_examples(found, under.folder.companions / f"{step.key}.json")


def _tune(under: _Under) -> None:
    """Make the fine-tunings that are missing, several at once."""
    wanted, there = tunings_of(under.work), listed(under.folder.scores)
    todo = []
    for step in wanted:
        lacking = [k for k in (step.adapted, step.extra) if k in under.failed]
        if lacking:
            under.failed[f"{step.key}-{step.seed}"] = under.failed[lacking[0]]
        elif step.out.name not in there:
            todo.append(step)
    _begin(under, "fine-tunings", len(wanted), len(todo))
    job = TuneOne(under.folder.companions)
    names = {
        f"{tuning.key}-{tuning.seed}": f"{column} for {cell.task}, seed {tuning.seed}"
        for cell, column in columns_of(under.work.cells).items()
        for tuning in under.work.cells[cell]
    }

    def named(step: Tuning) -> tuple[str, str]:
        key = f"{step.key}-{step.seed}"
        return key, f"Fine-tuning {names[key]}"

    _each(under, "fine-tuning", job, todo, named)


def _look(under: _Under) -> None:
    """Measure what is missing of what may go with the scores, several at once."""
    looks = looks_of(under.made, under.work, under.failed)
    wanted, there = {look.key: look for look in looks.values()}, listed(under.folder.forecasts)
    todo = [look for look in wanted.values() if look.out.name not in there]
    _begin(under, "forecasts", len(wanted), len(todo))
    names = {look.key: f"{cell.selector} for {cell.task}" for cell, look in looks.items()}
    job = LookAt(under.folder.selections, under.machine.cache)
    _each(under, "forecasting", job, todo, lambda s: (s.key, f"Forecast {names[s.key]}"))


def _each(
    under: _Under,
    stage: str,
    job: Job[T, Report],
    todo: Sequence[T],
    named: Callable[[T], tuple[str, str]],
) -> None:
    """Do a job on every step, several at once; on a GPU one at a time."""
    if not todo:
        return
    labels = dict(map(named, todo))
    machine, progress = under.machine, under.machine.progress
    if machine.engine == "local" and _device(under.made.recipe) == "cuda":
        machine = dataclasses.replace(machine, workers=1)
    progress.begin(stage, len(todo), "steps")
    try:
        with machine.start() as engine:
            engine.require_shared(under.folder.work, "--out")
            for report in engine.map(job, todo):
                progress.advance(1, 1)
                under.take(report, labels[report.key])
    finally:
        progress.end()
