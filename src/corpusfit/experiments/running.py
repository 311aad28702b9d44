"""The command `run`: from a recipe to its tables of results."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpusfit.core.artifacts import is_local
from corpusfit.core.errors import bad_setting
from corpusfit.core.manifest import locked, versions
from corpusfit.evaluation.tables import Table
from corpusfit.experiments.checks import faults_of
from corpusfit.experiments.config import Recipe
from corpusfit.experiments.correlation import correlations_of
from corpusfit.experiments.costs import costs_of
from corpusfit.experiments.executor import RecipeContext, run_searches, run_steps
from corpusfit.experiments.export import all_cells, write_tables
from corpusfit.experiments.fingerprints import on_machine
from corpusfit.experiments.folder import RecipeFolder
from corpusfit.experiments.graph import build_graph, with_found
from corpusfit.experiments.grid import check_plans
from corpusfit.experiments.inputs import load_inputs
from corpusfit.experiments.nodes import RecipeInputs, StepGraph
from corpusfit.experiments.predictors import predictors_of
from corpusfit.experiments.results import ScoredCells
from corpusfit.experiments.scoring import score_cells
from corpusfit.experiments.separation.measuring import measure_separation
from corpusfit.experiments.status import pending_steps
from corpusfit.experiments.tables import tables_of
from corpusfit.text.context import HERE, Machine
from corpusfit.training.plan import TASK


@dataclass(frozen=True)
class Ran:
    """The result of a recipe.

    Attributes:
        path: its folder, with `table.md`, `table.tex`, `table.csv` and `table.json`.
        judged: scores, comparisons and average gains.
        tables: the tables that are printed.
    """

    path: Path
    judged: ScoredCells
    tables: list[Table]


def run_recipe(
    recipe: Recipe,
    out: Path,
    *,
    file: Path | None = None,
    cells: Path | None = None,
    only: Sequence[str] = (),
    machine: Machine = HERE,
    overwrite: bool = False,
) -> Ran:
    """Run a recipe: select, adapt, fine-tune, compare, and write the tables.

    A recipe with `[separation]` measures methods instead.

    Finished steps are not repeated. Finished outcomes do not need the selections and models that
    they were made from, so those may be deleted.

    Reference: TADPOLE, sections 4 to 4.2.
    """
    recipe.check_only(only)
    if recipe.separation is None:
        check_plans(recipe)
        recipe = on_machine(recipe, machine)
    if not is_local(out):
        raise bad_setting("`out`", "a folder of this machine", str(out))
    folder = RecipeFolder(out.absolute())
    folder.claim()
    with locked(folder.work, "run", make=True), contextlib.ExitStack() as stack:
        folder.begin(recipe.identity, overwrite=overwrite)
        if cells is not None:
            folder.exchange(cells)
            stack.callback(folder.exchange, cells)
        if recipe.separation is not None:
            return _measure(recipe, folder, file, machine)
        inputs = load_inputs(recipe, folder, machine, store=True)
        context = _context(dataclasses.replace(inputs, only=tuple(only)), machine)
        faults = faults_of(inputs, context.graph, context.pending, machine.progress.warn)
        if (fault := next(faults, None)) is not None:
            raise fault
        if any(context.pending.left.values()):
            folder.reopen()
        if recipe.search is not None:
            run_searches(context)
            context = _context(with_found(context.inputs), machine)
        run_steps(context)
        return _write_results(context, file)


def _measure(recipe: Recipe, folder: RecipeFolder, file: Path | None, machine: Machine) -> Ran:
    """Measure how well methods separate target and corpus."""
    scored, tables, facts = measure_separation(recipe, folder, machine)
    if not scored.failed:
        folder.finish({"command": "run", "repeat": _repeat(recipe, file), **facts})
    return Ran(folder.path, scored, tables)


def _context(inputs: RecipeInputs, machine: Machine) -> RecipeContext:
    graph = build_graph(inputs)
    predictors = predictors_of(inputs, graph)
    pending = pending_steps(graph, predictors, inputs.folder)
    return RecipeContext(inputs, graph, predictors, pending, machine)


def _write_results(context: RecipeContext, file: Path | None) -> Ran:
    """Compare the cells, write the tables and, unless a cell failed, the manifest."""
    context.machine.progress.note("Comparing the cells.")
    recipe, folder, graph = context.inputs.recipe, context.folder, context.graph
    scored = score_cells(context.inputs, graph, context.failed)
    costs = costs_of(recipe, folder, graph, context.predictors.values())
    for name, versions_of in costs.differing.items():
        message = f"Steps ran with different versions of {name}: {', '.join(versions_of)}."
        context.machine.progress.warn(message)
    correlations = correlations_of(graph, scored, context.predictors)
    adapted = list(adapted_of(graph, folder))
    tables = tables_of(context.inputs, scored, correlations, costs, adapted)
    facts = {
        "command": "run",
        "repeat": _repeat(recipe, file),
        "recipe": dataclasses.asdict(recipe),
        "tasks": [dataclasses.asdict(task) for task in context.inputs.tasks.values()],
        "pile": dict(context.inputs.pile),
        "models": dict(context.inputs.models),
        "versions": versions(),
        "selections": {key: step.label for key, step in graph.selections.items()},
        "adapted": adapted,
        "found": [
            {"task": task, "size": size, **settings}
            for (task, size), settings in context.inputs.found.items()
        ],
        "costs": dataclasses.asdict(costs),
        "forecasts": dataclasses.asdict(correlations),
    }
    cells = all_cells(scored, costs.cells)
    write_tables(folder.path, tables, cells, {**facts, **dataclasses.asdict(scored)})
    if not scored.failed:
        steps = {phase: total for phase, (total, _) in context.pending.counts().items()}
        folder.finish({**facts, "steps": steps})
    return Ran(folder.path, scored, tables)


def _repeat(recipe: Recipe, file: Path | None) -> list[str]:
    """The command that repeats the run, if the recipe was read from a file."""
    if file is None:
        return []
    return ["corpusfit", "run", str(file.absolute()), *["--keep-overlap"] * recipe.keep_overlap]


def adapted_of(graph: StepGraph, folder: RecipeFolder) -> Iterator[dict[str, Any]]:
    """How each adapted model was trained, its losses, and the texts that were left out.

    They come from the records of the steps, which last where a model was not kept.
    """
    for key, step in graph.adaptations.items():
        path = folder.costs / f"{key}.json"
        record = json.loads(path.read_bytes()) if path.exists() else {}
        if "adapted" not in record:
            continue
        losses = record["adapted"]["losses"]
        if step.shared:  # its loss on the task is that of one task of many
            losses = {when: {k: v for k, v in s.items() if k != TASK} for when, s in losses.items()}
        yield {
            "key": key,
            "label": step.label,
            "seed": step.plan.seed,
            **{name: record[name] for name in ("precision", "device")},
            **record["adapted"],
            "losses": losses,
        }
