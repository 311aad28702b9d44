"""The command `run`: from a recipe to its table.

What: reads what the recipe names, makes the steps that are missing, judges, and writes the tables.
Why: a table of eight cells and eight seeds is hours of work; whatever stops it, the same command
goes on and repeats no finished step.
Trade-off: outcomes count, so what they were made of (selections, models) may be thrown away.
Reference: TADPOLE, sections 4 to 4.2.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpusfit.adapt.plan import TASK
from corpusfit.artifacts import is_local
from corpusfit.errors import bad_setting
from corpusfit.evaluate.tables import Table
from corpusfit.manifest import RecipeFolder, versions
from corpusfit.pipeline.recipes.config import Recipe
from corpusfit.pipeline.recipes.correlation import correlations_of
from corpusfit.pipeline.recipes.costs import costs_of
from corpusfit.pipeline.recipes.executor import RecipeContext, make
from corpusfit.pipeline.recipes.export import write_tables
from corpusfit.pipeline.recipes.fingerprints import on_machine
from corpusfit.pipeline.recipes.graph import build_graph
from corpusfit.pipeline.recipes.grid import check_plans
from corpusfit.pipeline.recipes.inputs import load_inputs
from corpusfit.pipeline.recipes.lock import exclusive
from corpusfit.pipeline.recipes.nodes import StepGraph
from corpusfit.pipeline.recipes.predictors import predictors_of
from corpusfit.pipeline.recipes.results import Judged
from corpusfit.pipeline.recipes.scoring import judged
from corpusfit.pipeline.recipes.status import todo_of
from corpusfit.pipeline.recipes.tables import tables_of
from corpusfit.pipeline.run import Machine

HERE = Machine()


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


def run_recipe(
    recipe: Recipe,
    out: Path,
    *,
    file: Path | None = None,
    machine: Machine = HERE,
    overwrite: bool = False,
) -> Ran:
    """Make a recipe's table.

    Args:
        recipe: what is asked for.
        out: a new or empty folder of this machine, or one of the same recipe: what it has of the
            steps is not made again.
        file: where the recipe was read from, to be named in the results.
        machine: where it runs.
        overwrite: throw away another recipe's steps in `out`.

    Returns:
        The tables; they name the cells that failed.

    Raises:
        CorpusfitError: nothing can begin, or a worker died; everything finished is kept.
    """
    check_plans(recipe)
    recipe = on_machine(recipe, machine)
    if not is_local(out):
        raise bad_setting("--out", "a folder of this machine", str(out))
    folder = RecipeFolder(out.absolute())
    folder.claim()
    with exclusive(folder.work):
        folder.begin(recipe.identity, overwrite=overwrite)
        inputs = load_inputs(recipe, folder, machine, store=True)
        work = build_graph(inputs)
        looks = predictors_of(inputs, work)
        context = RecipeContext(inputs, work, looks, todo_of(work, looks, folder), machine)
        if any(context.todo.left.values()):
            folder.reopen()
        make(context)
        return _judge(context, file)


def _judge(context: RecipeContext, file: Path | None) -> Ran:
    """Compare, write the tables and, if no cell failed, the manifest."""
    context.machine.progress.note("Comparing.")
    recipe, folder, work = context.inputs.recipe, context.folder, context.work
    found = judged(context.inputs, work, context.failed)
    costs = costs_of(recipe, folder, work, context.looks.values())
    for name, versions_of in costs.differing.items():
        words = f"Steps were made with different {name}: {', '.join(versions_of)}."
        context.machine.progress.warn(words)
    links = correlations_of(work, found, context.looks)
    adapted = list(adapted_of(work, folder))
    tables = tables_of(context.inputs, found, links, costs, adapted)
    facts = {
        "command": "run",
        "repeat": _repeat(recipe, file),
        "recipe": dataclasses.asdict(recipe),
        "tasks": [dataclasses.asdict(task) for task in context.inputs.tasks.values()],
        "pile": dict(context.inputs.pile),
        "models": dict(context.inputs.models),
        "versions": versions(),
        "selections": {key: step.label for key, step in work.selections.items()},
        "adapted": adapted,
        "costs": dataclasses.asdict(costs),
        "forecasts": dataclasses.asdict(links),
    }
    write_tables(folder.path, tables, found, costs, facts)
    if not found.failed:
        steps = {phase: total for phase, (total, _) in context.todo.counts().items()}
        folder.finish({**facts, "steps": steps})
    return Ran(folder.path, found, tables)


def _repeat(recipe: Recipe, file: Path | None) -> list[str]:
    """The command that makes it again, if it was read from a file."""
    if file is None:
        return []
    return ["corpusfit", "run", str(file.absolute()), *["--keep-overlap"] * recipe.keep_overlap]


def adapted_of(work: StepGraph, folder: RecipeFolder) -> Iterator[dict[str, Any]]:
    """Of each adapted model how it was trained, its losses, and what was kept out of its text."""
    for key, step in work.adaptations.items():
        manifest = folder.models / key / "manifest.json"
        if not manifest.exists():
            continue
        found = json.loads(manifest.read_text("utf-8"))
        losses = found["losses"]
        if step.shared:  # it was measured on a task that is not its own
            losses = {when: {k: v for k, v in s.items() if k != TASK} for when, s in losses.items()}
        yield {
            "key": key,
            "label": step.label,
            "seed": step.plan.seed,
            "training": found["training"],
            **{name: found[name] for name in ("tokens", "rows", "precision", "device")},
            "losses": losses,
            "guard": found["counts"].get("guard"),
        }
