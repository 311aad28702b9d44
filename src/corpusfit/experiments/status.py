"""Finished and pending steps of a recipe, with an estimate of the time left (`run --dry-run`)."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpusfit.core.artifacts import is_local, listed
from corpusfit.core.errors import bad_setting
from corpusfit.experiments.checks import faults_of
from corpusfit.experiments.config import Recipe
from corpusfit.experiments.fingerprints import on_machine
from corpusfit.experiments.folder import RecipeFolder
from corpusfit.experiments.graph import build_graph
from corpusfit.experiments.grid import Cell, check_plans
from corpusfit.experiments.inputs import load_inputs
from corpusfit.experiments.nodes import (
    AdaptNode,
    AugmentNode,
    ComposeNode,
    SelectNode,
    StepGraph,
    TuneNode,
)
from corpusfit.experiments.predictors import PredictorNode, predictors_of
from corpusfit.experiments.separation.measuring import measurements_of
from corpusfit.text.context import HERE, Machine

PHASES = ("selections", "adaptations", "companions", "fine-tunings", "forecasts")
LABELS = {"companions": "augmentations", "forecasts": "predictors"}
"""Names of phases for the user, where they differ."""


@dataclass(frozen=True)
class Missing:
    """The steps of a recipe, and how many are pending.

    Attributes:
        cells: names of rows and columns, with the number of pending fine-tunings.
        steps: by phase, the numbers of all and of pending steps.
        seconds: estimate for the pending steps, from the mean time of finished steps of the same
            phase; None if a phase has no finished step.
    """

    cells: list[dict[str, Any]]
    steps: dict[str, tuple[int, int]]
    seconds: float | None


def missing(
    recipe: Recipe,
    out: Path,
    *,
    cells: Path | None = None,
    only: Sequence[str] = (),
    machine: Machine = HERE,
    overwrite: bool = False,
) -> Missing:
    """A dry run of `run_recipe`; it writes nothing but encoders to the cache."""
    if not is_local(out):
        raise bad_setting("`out`", "a folder of this machine", str(out))
    recipe.check_only(only)
    if recipe.separation is None:
        check_plans(recipe)
        recipe = on_machine(recipe, machine)
    folder = RecipeFolder(out.absolute())
    folder.claim()
    if folder.differs(recipe.identity, overwrite=overwrite):
        folder = RecipeFolder(folder.path / "anew")  # an empty folder
    if recipe.separation is not None:
        return _missing_measurements(recipe, folder, cells, machine)
    inputs = load_inputs(recipe, folder, machine, store=False)
    inputs = dataclasses.replace(inputs, only=tuple(only))
    graph = build_graph(inputs)
    pending = pending_steps(graph, predictors_of(inputs, graph), folder, cells)
    for fault in faults_of(inputs, graph, pending, machine.progress.warn):
        machine.progress.warn(f"The run would stop before its first step: {fault}")
    left = {t.name for t in pending.tunings}
    table = [
        {**dataclasses.asdict(cell), "missing": sum(t.name in left for t in tunings)}
        for cell, tunings in graph.cells.items()
    ]
    return Missing(table, pending.counts(), _estimate(pending, folder, machine))


def _missing_measurements(
    recipe: Recipe, folder: RecipeFolder, cells: Path | None, machine: Machine
) -> Missing:
    """The measurements of a recipe with `[separation]`."""
    found = measurements_of(recipe, folder, machine)
    left = found.pending(folder.scores)
    if cells is not None:
        there = listed(RecipeFolder(cells).scores)
        left = [node for node in left if node.out.name not in there]
    names = {node.out.name for node in left}
    every = [node.out.name for nodes in found.cells.values() for node in nodes]
    table = [
        {**dataclasses.asdict(cell), "missing": sum(n.out.name in names for n in nodes)}
        for cell, nodes in found.cells.items()
    ]
    done = [folder.costs / name for name in every if (folder.costs / name).exists()]
    took = [json.loads(path.read_bytes())["seconds"] for path in done]
    workers = min(machine.start().workers, max(1, len(left)))
    seconds = len(left) * sum(took) / len(took) / workers if took else None
    return Missing(table, {"measurements": (len(every), len(left))}, seconds)


def all_tunings(graph: StepGraph) -> list[TuneNode]:
    """All fine-tunings, each once."""
    found = [t for tried in graph.searches.values() for _, t in tried]
    found += [t for own in graph.cells.values() for t in own]
    return list({(t.key, t.seed): t for t in found}.values())


@dataclass(frozen=True)
class PendingSteps:
    """All steps by phase, as keys, and the pending steps."""

    all: dict[str, list[str]]
    selections: list[SelectNode | ComposeNode]
    adaptations: list[AdaptNode]
    augmentations: list[AugmentNode]
    tunings: list[TuneNode]
    predictors: list[PredictorNode]

    @property
    def left(self) -> dict[str, Sequence[Any]]:
        """The pending steps, by phase."""
        return dict(zip(PHASES, list(vars(self).values())[1:], strict=True))

    def counts(self) -> dict[str, tuple[int, int]]:
        """By phase, the numbers of all and of pending steps."""
        return {phase: (len(self.all[phase]), len(left)) for phase, left in self.left.items()}


def pending_steps(
    graph: StepGraph,
    predictors: Mapping[Cell, PredictorNode],
    folder: RecipeFolder,
    cells: Path | None = None,
) -> PendingSteps:
    """The pending steps: missing outcomes, and the missing steps that they depend on.

    A selection or a model that was deleted is made again only if a pending step needs it. What
    `cells` has is not pending.
    """
    there = RecipeFolder(cells or folder.path)
    tunings, scored = all_tunings(graph), listed(folder.scores) | listed(there.scores)
    wanted = {predictor.key: predictor for predictor in predictors.values()}
    measured = listed(folder.forecasts) | listed(there.forecasts)
    augmented = listed(folder.companions)
    tune = [t for t in tunings if t.out.name not in scored]
    predict = [k for k in wanted.values() if k.out.name not in measured]
    models = {t.adapted for t in tune} | {k.model for k in predict}
    adapt = [
        step
        for key, step in graph.adaptations.items()
        if key in models and not is_finished(folder.models / key)
    ]
    texts = {s.selection for s in adapt} | {key for k in predict for key in k.selections}
    select = [
        step
        for key, step in graph.selections.items()
        if key in texts and not is_finished(folder.selections / key)
    ]
    extra = {t.extra for t in tune}
    augment = [
        step
        for key, step in graph.augmentations.items()
        if key in extra and f"{key}.json" not in augmented
    ]
    keys = [
        *(list(steps) for steps in (graph.selections, graph.adaptations, graph.augmentations)),
        [t.name for t in tunings],
        list(wanted),
    ]
    return PendingSteps(dict(zip(PHASES, keys, strict=True)), select, adapt, augment, tune, predict)


def is_finished(folder: Path) -> bool:
    """Whether a selection or a model is finished."""
    return (folder / "manifest.json").exists()


def _estimate(pending: PendingSteps, folder: RecipeFolder, machine: Machine) -> float | None:
    """Seconds for the pending steps, from the mean of finished ones; None without any."""
    there, total = listed(folder.costs), 0.0
    for phase, left in pending.left.items():
        if not left:
            continue
        done = [folder.costs / f"{n}.json" for n in pending.all[phase] if f"{n}.json" in there]
        if not done:
            return None
        took = [json.loads(path.read_bytes())["seconds"] for path in done]
        parallel = phase not in ("selections", "companions")
        at_once = machine.for_training(device_of(left)).start().workers if parallel else 1
        total += len(left) * sum(took) / len(took) / min(at_once, len(left))
    return total


def device_of(steps: Sequence[AdaptNode | TuneNode | PredictorNode]) -> str:
    """The device of a phase: `cuda` if any of its steps uses it."""
    trains = [s.plan.finetune if isinstance(s, TuneNode) else s.plan.train for s in steps]
    return "cuda" if any(train.device == "cuda" for train in trains) else "cpu"
