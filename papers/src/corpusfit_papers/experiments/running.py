"""The command `run`: from a recipe to its tables of results."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from corpusfit import AdaptPlan, CorpusfitError, EvaluatePlan, Machine
from corpusfit.contracts import bad_setting, resolve, write_bytes
from corpusfit.core.artifacts import is_local
from corpusfit.core.engine import Call, Meter
from corpusfit.core.errors import TrainingError
from corpusfit.core.manifest import locked, versions
from corpusfit.evaluation.finetune import require_models
from corpusfit.evaluation.reading import read_task
from corpusfit.evaluation.task import load_task
from corpusfit.training.adapting import open_base
from corpusfit.training.plan import TASK
from corpusfit_papers.augmenting import open_translators, require_allowed
from corpusfit_papers.experiments.config import Recipe, in_table
from corpusfit_papers.experiments.costs import costs_of
from corpusfit_papers.experiments.fingerprints import on_machine
from corpusfit_papers.experiments.folder import RecipeFolder
from corpusfit_papers.experiments.graph import StepGraph, build_graph, with_found
from corpusfit_papers.experiments.grid import check_plans, task_plan
from corpusfit_papers.experiments.inputs import RecipeInputs, StoredTask, load_inputs
from corpusfit_papers.experiments.rendering import Table
from corpusfit_papers.experiments.scoring import ScoredCells, score_cells
from corpusfit_papers.experiments.steps import (
    Adapt,
    Augment,
    Compose,
    Report,
    Step,
    Tune,
    run_in_worker,
    run_step,
)
from corpusfit_papers.experiments.tables import all_cells, tables_of, write_tables
from corpusfit_papers.mixing.composing import estimate_composition

_STAGES = {"adaptations": "adapt", "fine-tunings": "fine-tune"}  # what runs in parallel


@dataclass(frozen=True)
class Ran:
    """The result of a recipe."""

    path: Path  # its folder, with `table.md`, `table.tex`, `table.csv` and `table.json`
    judged: ScoredCells  # scores, comparisons and average gains
    tables: list[Table]  # the tables that are printed


@dataclass(frozen=True)
class Missing:
    """The steps of a recipe, and how many are pending."""

    cells: list[dict[str, Any]]  # rows and columns, with the number of pending fine-tunings
    steps: dict[str, tuple[int, int]]  # by phase, the numbers of all and of pending steps
    # estimate from the mean time of finished steps of the same phase; None if a phase has none
    seconds: float | None
    unknown: list[str]  # phases without a finished step


def run_recipe(
    recipe: Recipe,
    out: Path,
    *,
    file: Path | None = None,
    cells: Path | None = None,
    only: Sequence[str] = (),
    machine: Machine,
    overwrite: bool = False,
) -> Ran:
    """Run a recipe: select, adapt, fine-tune, compare, and write the tables."""
    # Finished steps are not repeated. Finished outcomes do not need the selections and models
    # that they were made from, so those may be deleted. Reference: TADPOLE, sections 4 to 4.2.
    recipe, folder = _checked(recipe, out, only, machine)
    failed: dict[str, str] = {}
    with locked(folder.work, "run", make=True), contextlib.ExitStack() as stack:
        folder.begin(recipe.identity, overwrite=overwrite)
        if cells is not None:
            folder.exchange(cells)
            stack.callback(folder.exchange, cells)
        inputs = load_inputs(recipe, folder, machine, store=True)
        inputs = with_found(dataclasses.replace(inputs, only=tuple(only)))
        graph = build_graph(inputs)
        pending = graph.pending(folder)
        for fault in _faults_of(inputs, graph, pending, machine.progress.warn):
            raise fault
        if any(pending.values()):
            folder.reopen()
        # the searches decide the settings of all other fine-tunings
        searches = {t.name: t for searched in graph.searches.values() for _, t in searched}
        search_steps = [step for step in pending["fine-tunings"] if step.name in searches]
        if search_steps:
            machine.progress.note(f"Search of settings on dev: {len(search_steps)} fine-tunings.")
            _run_steps("fine-tunings", search_steps, folder, machine, failed)
            for name in filter(failed.get, searches):
                raise TrainingError(f"The search of settings on dev failed: {failed[name]}")
            inputs = with_found(inputs)
            graph = build_graph(inputs)
            pending = graph.pending(folder)
        for phase, steps in pending.items():
            if steps:
                total = len(graph.phases[phase])
                left = f" ({len(steps)} pending)" if len(steps) < total else ""
                title = "augmentations" if phase == "companions" else phase
                machine.progress.note(f"{title.capitalize()}: {total}{left}.")
                _run_steps(phase, steps, folder, machine, failed)
        return _write_results(inputs, graph, failed, file, machine)


def missing(
    recipe: Recipe,
    out: Path,
    *,
    cells: Path | None = None,
    only: Sequence[str] = (),
    machine: Machine,
    overwrite: bool = False,
) -> Missing:
    """A dry run of `run_recipe`; it writes nothing but encoders to the cache.

    It reads the texts of all compositions that are missing.
    """
    recipe, folder = _checked(recipe, out, only, machine)
    if folder.differs(recipe.identity, overwrite=overwrite):
        folder = RecipeFolder(folder.path / "anew")  # an empty folder
    inputs = load_inputs(recipe, folder, machine, store=False)
    inputs = with_found(dataclasses.replace(inputs, only=tuple(only)))
    graph = build_graph(inputs)
    pending = graph.pending(folder, cells)
    for fault in dict.fromkeys(map(str, _faults_of(inputs, graph, pending, machine.progress.warn))):
        machine.progress.warn(f"The run would stop before its first step: {fault}")
    # whether the texts of a composition fill its budget is known when all are read
    for step in pending["selections"]:
        if isinstance(step, Compose):
            try:
                estimate_composition(step.plan, machine=machine)
            except CorpusfitError as e:
                machine.progress.warn(f"{step.kind} {step.label} would fail: {e}")
    left = {step.name for step in pending["fine-tunings"]}
    table = [
        {**dataclasses.asdict(cell), "missing": sum(t.name in left for t in tunings)}
        for cell, tunings in graph.cells.items()
    ]
    counts = {phase: (len(steps), len(pending[phase])) for phase, steps in graph.phases.items()}
    seconds = 0.0
    unknown = list[str]()
    for phase, steps in graph.phases.items():
        records = [folder.costs / f"{step.name}.json" for step in steps.values()]
        took = [json.loads(path.read_bytes())["seconds"] for path in records if path.exists()]
        if not pending[phase]:
            continue
        if not took:
            unknown.append(phase)
            continue
        at_once = 1
        if phase in _STAGES:
            at_once = machine.for_training(_device_of(pending[phase])).start().workers
        number = len(pending[phase])
        seconds += number * sum(took) / len(took) / min(at_once, number)
    return Missing(table, counts, None if unknown else seconds, unknown)


def _checked(
    recipe: Recipe, out: Path, only: Sequence[str], machine: Machine
) -> tuple[Recipe, RecipeFolder]:
    """The recipe with its devices resolved, and its folder, before anything is read."""
    recipe.check_only(only)
    check_plans(recipe)
    recipe = on_machine(recipe, machine)
    if not is_local(out):
        raise bad_setting("`out`", "a folder of this machine", str(out))
    folder = RecipeFolder(out.absolute())
    folder.claim()
    return recipe, folder


def _faults_of(
    inputs: RecipeInputs,
    graph: StepGraph,
    pending: Mapping[str, Sequence[Step]],
    on_warn: Callable[[str], None],
) -> Iterator[CorpusfitError]:
    """Errors that pending steps would meet, found by opening each base model once per use."""
    # Seconds now can save hours. A model that is not adapted yet will have its base's architecture,
    # so the base is checked in its place.

    def adapts(plan: AdaptPlan) -> None:
        open_base(plan, resolve(plan.train, "train"), on_warn)

    def evaluates(name: str, stored: StoredTask, plan: EvaluatePlan) -> None:
        path = inputs.folder.task(stored.key)
        if path.exists():
            task = load_task(path)
        else:  # a dry run stores no tasks
            entry = inputs.recipe.task(name)
            task_settings = task_plan(inputs.recipe, entry).task
            task = read_task(entry.path, task_settings, seed=inputs.recipe.seed)
        require_models(task, [plan])

    checks: dict[tuple[object, ...], Callable[[], object]] = {}
    kinds = {inputs.folder.task(stored.key): stored.kind for stored in inputs.tasks.values()}
    for step in (step for steps in pending.values() for step in steps):
        if isinstance(step, Adapt) and not step.plan.model.init:
            plan = step.plan
            decides = (plan.model, str(plan.objective), plan.adapter, plan.train)
            checks["adapt", *decides] = partial(adapts, plan)
        if isinstance(step, Augment):
            kind = kinds[step.task]
            checks["augmentation", step.plan, kind] = partial(require_allowed, step.plan, kind)
            if step.plan.mt:
                checks["augmentation", step.plan] = partial(open_translators, step.plan, "cpu")
    for (name, _), stored in inputs.tasks.items():
        for tuning in pending["fine-tunings"]:
            if not isinstance(tuning, Tune) or tuning.task != inputs.folder.task(stored.key):
                continue
            tuned = tuning.plan
            if tuning.adapted:
                tuned = tuned.with_value(
                    "model.name", graph.adaptations[tuning.adapted].plan.model.name
                )
            if tuned.model.name:  # untrained models have no name, and nothing to check
                key = ("evaluate", name, tuned.model)
                checks[key] = partial(evaluates, name, stored, tuned)
    for use, check in checks.items():
        try:
            with in_table(str(use[0])):
                check()
        except CorpusfitError as e:
            yield e


def _run_steps(
    phase: str,
    steps: Sequence[Step],
    folder: RecipeFolder,
    machine: Machine,
    failed: dict[str, str],
) -> None:
    """Run steps of one phase; a failed step fails only the steps that need it."""
    progress = machine.progress
    ready = []
    for step in steps:
        errors = [failed[need] for need in step.needs if need in failed]
        if errors:
            failed[step.name] = errors[0]
        else:
            ready.append(step)
    titles = {step.name: f"{step.kind} {step.label}" for step in ready}

    def handle(report: Report) -> None:
        for warning in report.warnings:
            progress.warn(f"{titles[report.key]}: {warning}")
        failure = folder.failures / f"{report.key}.json"
        if report.error:
            failed[report.key] = report.error
            progress.warn(f"{titles[report.key]} failed: {report.error}")
            write_bytes(failure, json.dumps(dataclasses.asdict(report)).encode())
        else:
            failure.unlink(missing_ok=True)

    if phase not in _STAGES:  # one at a time, as each uses all workers
        for number, step in enumerate(ready, 1):
            if phase == "selections":
                progress.note(f"Selection {number} of {len(ready)}: {step.label}.")
            handle(run_step(step, folder, machine))
    elif ready:
        # in parallel, with one compute thread each, or one at a time on a GPU
        machine = machine.for_training(_device_of(ready))
        with progress.showing(_STAGES[phase], len(ready), "steps"), machine.start() as engine:
            engine.require_shared(folder.work, "`out`")
            meter = Meter(progress)
            run = partial(
                run_in_worker, recipe=folder.path, cache=machine.cache, verify=machine.verify
            )
            job = Call(run, encodes=True)
            for report in engine.map(job, meter.weighed(ready), meter):
                progress.advance(0, 1)
                handle(report)


def _device_of(steps: Sequence[Step]) -> str:
    # on Ray, `auto` is left to the workers
    return next((step.device for step in steps if step.device not in ("auto", "cpu")), "cpu")


def _write_results(
    inputs: RecipeInputs,
    graph: StepGraph,
    failed: Mapping[str, str],
    file: Path | None,
    machine: Machine,
) -> Ran:
    """Compare the cells, write the tables and, unless a cell failed, the manifest."""
    machine.progress.note("Comparing the cells.")
    recipe = inputs.recipe
    folder = inputs.folder
    scored = score_cells(inputs, graph, failed)
    costs = costs_of(recipe, folder, graph)
    for name, versions_of in costs.differing.items():
        message = f"Steps ran with different versions of {name}: {', '.join(versions_of)}."
        machine.progress.warn(message)
    adapted = list(_adapted(graph, folder))
    repeat = []
    if file is not None:
        overlap = ["--keep-overlap"] if recipe.keep_overlap else []
        only = [word for name in inputs.only for word in ("--only", name)]
        repeat = ["corpusfit", "run", str(file.absolute()), *overlap, *only]
    tables = tables_of(inputs, scored, costs, adapted)
    facts = {
        "command": "run",
        "repeat": repeat,
        "recipe": dataclasses.asdict(recipe),
        "tasks": [dataclasses.asdict(task) for task in inputs.tasks.values()],
        "pile": dict(inputs.pile),
        "models": dict(inputs.models),
        "versions": versions(),
        "selections": {key: step.label for key, step in graph.selections.items()},
        "adapted": adapted,
        "found": [
            {"task": task, "size": size, **settings}
            for (task, size), settings in inputs.found.items()
        ],
        "costs": dataclasses.asdict(costs),
    }
    cells = all_cells(scored, costs.cells)
    write_tables(folder.path, tables, cells, {**facts, **dataclasses.asdict(scored)})
    # without a manifest the next run continues with the failed cells
    if not scored.failed:
        steps = {phase: len(steps) for phase, steps in graph.phases.items()}
        folder.finish({**facts, "steps": steps})
    return Ran(folder.path, scored, tables)


def _adapted(graph: StepGraph, folder: RecipeFolder) -> Iterator[dict[str, Any]]:
    """How each adapted model was trained, its losses, and the texts that were left out."""
    # Read from the records of the steps, which outlive deleted models.
    for key, step in graph.adaptations.items():
        path = folder.costs / f"{key}.json"
        record = json.loads(path.read_bytes()) if path.exists() else {}
        if "adapted" not in record:
            continue
        losses = record["adapted"]["losses"]
        if step.shared:  # the loss on a single task of many means nothing
            losses = {when: {k: v for k, v in s.items() if k != TASK} for when, s in losses.items()}
        yield {
            "key": key,
            "label": step.label,
            "seed": step.plan.seed,
            **{name: record[name] for name in ("precision", "device")},
            **record["adapted"],
            "losses": losses,
        }
