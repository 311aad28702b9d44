"""What a recipe needs, and what of it is not there yet: `run --dry-run`, and where a run goes on.

What: counts the steps of each phase, and says how long the missing ones will take.
Why: a table takes hours; before and after a stop one wants to know how many.
Trade-off: the time is what finished steps of the kind took on average, so that before the first of
each kind nothing is said; a step of another model or task may take longer.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpusfit.artifacts import is_local, listed
from corpusfit.errors import bad_setting
from corpusfit.manifest import RecipeFolder
from corpusfit.pipeline.recipes.config import Recipe
from corpusfit.pipeline.recipes.fingerprints import on_machine
from corpusfit.pipeline.recipes.graph import build_graph
from corpusfit.pipeline.recipes.grid import Cell, check_plans
from corpusfit.pipeline.recipes.inputs import load_inputs
from corpusfit.pipeline.recipes.nodes import AdaptNode, AugmentNode, SelectNode, StepGraph, TuneNode
from corpusfit.pipeline.recipes.predictors import PredictorNode, predictors_of
from corpusfit.pipeline.run import Machine

PHASES = ("selections", "adaptations", "companions", "fine-tunings", "forecasts")

HERE = Machine()


@dataclass(frozen=True)
class Missing:
    """What a recipe needs, and what of it is not there yet.

    Attributes:
        cells: names of rows and columns.
        steps: by phase, how many there are and how many have to be made.
        seconds: estimate of what is missing, by what finished steps of the kind took; None where
            a phase has none.
    """

    cells: list[dict[str, Any]]
    steps: dict[str, tuple[int, int]]
    seconds: float | None


def missing(
    recipe: Recipe, out: Path, *, machine: Machine = HERE, overwrite: bool = False
) -> Missing:
    """What `run_recipe` would do; nothing is written but encoders into the cache.

    Raises:
        CorpusfitError: something that it reads cannot be read, or it would not begin in `out`.
    """
    if not is_local(out):
        raise bad_setting("--out", "a folder of this machine", str(out))
    check_plans(recipe)
    recipe = on_machine(recipe, machine)
    folder = RecipeFolder(out.absolute())
    folder.claim()
    if folder.differs(recipe.identity, overwrite=overwrite):
        folder = RecipeFolder(folder.path / "anew")  # where nothing is
    inputs = load_inputs(recipe, folder, machine, store=False)
    work = build_graph(inputs)
    todo = todo_of(work, predictors_of(inputs, work), folder)
    cells = [
        {**dataclasses.asdict(cell), "missing": sum(not t.out.exists() for t in tunings)}
        for cell, tunings in work.cells.items()
    ]
    return Missing(cells, todo.counts(), _estimate(todo, folder, machine))


def tunings_of(work: StepGraph) -> list[TuneNode]:
    """All fine-tunings, once."""
    return list({(t.key, t.seed): t for own in work.cells.values() for t in own}.values())


@dataclass(frozen=True)
class Todo:
    """All steps by phase, and those that have to be made: by phase, key, and the step."""

    all: dict[str, list[str]]
    selections: list[SelectNode]
    adaptations: list[AdaptNode]
    companions: list[AugmentNode]
    tunings: list[TuneNode]
    looks: list[PredictorNode]

    @property
    def left(self) -> dict[str, Sequence[Any]]:
        """The steps to make, by phase."""
        steps = (self.selections, self.adaptations, self.companions, self.tunings, self.looks)
        return dict(zip(PHASES, steps, strict=True))

    def counts(self) -> dict[str, tuple[int, int]]:
        """By phase, how many steps there are and how many have to be made."""
        return {phase: (len(self.all[phase]), len(left)) for phase, left in self.left.items()}


def todo_of(work: StepGraph, looks: Mapping[Cell, PredictorNode], folder: RecipeFolder) -> Todo:
    """What has to be made: outcomes that are missing, and what they, in turn, are made of.

    A selection or a model that was thrown away is made again only where something needs it.
    """
    tunings, scored = tunings_of(work), listed(folder.scores)
    wanted = {look.key: look for look in looks.values()}
    looked, extra = listed(folder.forecasts), listed(folder.companions)
    tune = [t for t in tunings if t.out.name not in scored]
    look = [k for k in wanted.values() if k.out.name not in looked]
    models = {t.adapted for t in tune} | {k.model for k in look}
    adapt = [
        step
        for key, step in work.adaptations.items()
        if key in models and not whole(folder.models / key)
    ]
    texts = {s.selection for s in adapt} | {key for k in look for key in k.selections}
    select = [
        step
        for key, step in work.selections.items()
        if key in texts and not whole(folder.selections / key)
    ]
    companions = {t.extra for t in tune}
    augment = [
        step
        for key, step in work.companions.items()
        if key in companions and f"{key}.json" not in extra
    ]
    keys = [
        *(list(steps) for steps in (work.selections, work.adaptations, work.companions)),
        [t.name for t in tunings],
        list(wanted),
    ]
    return Todo(dict(zip(PHASES, keys, strict=True)), select, adapt, augment, tune, look)


def whole(folder: Path) -> bool:
    """Whether a selection or a model is finished."""
    return (folder / "manifest.json").exists()


def _estimate(todo: Todo, folder: RecipeFolder, machine: Machine) -> float | None:
    """Seconds for what is missing, by the mean of finished steps; None where there is none."""
    there, total = listed(folder.costs), 0.0
    for phase, left in todo.left.items():
        if not left:
            continue
        done = [folder.costs / f"{n}.json" for n in todo.all[phase] if f"{n}.json" in there]
        if not done:
            return None
        took = [json.loads(path.read_bytes())["seconds"] for path in done]
        several = phase not in ("selections", "companions")
        at_once = machine.for_training(device_of(left)).start().workers if several else 1
        total += len(left) * sum(took) / len(took) / min(at_once, len(left))
    return total


def device_of(steps: Sequence[AdaptNode | TuneNode | PredictorNode]) -> str:
    """Where a phase's models are trained: on a GPU as soon as one of them is."""
    trains = [s.plan.tune if isinstance(s, TuneNode) else s.plan.train for s in steps]
    return "cuda" if any(train.device == "cuda" for train in trains) else "cpu"
