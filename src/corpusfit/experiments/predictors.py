"""Predictors of the gain, measured before fine-tuning: loss on the task's text, KL reduction."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpusfit import text as corpus
from corpusfit.core.artifacts import write_bytes
from corpusfit.core.engine import PlainJob, WarningCollector
from corpusfit.evaluation.forecasting import forecast
from corpusfit.evaluation.tasks import load
from corpusfit.experiments import fingerprints
from corpusfit.experiments.entries import BASE
from corpusfit.experiments.grid import Cell, adapt_plan
from corpusfit.experiments.nodes import RecipeInputs, SelectNode, StepGraph
from corpusfit.experiments.workers import Report, run_step
from corpusfit.selection.folder import SelectionFolder
from corpusfit.text.context import Machine
from corpusfit.training.plan import AdapterPlan, AdaptPlan, WeightsPlan


@dataclass(frozen=True)
class PredictorNode:
    """Predictors of one model on one task.

    Attributes:
        key: digest of both.
        plan: plan of an adaptation, with the model's folder.
        selections: digests of the selections, each with the task as its target.
        model: digest of the adapted model; empty for the base.
        out: file with the result.
    """

    key: str
    plan: AdaptPlan
    selections: tuple[str, ...]
    model: str
    out: Path


@dataclass(frozen=True)
class PredictorJob(PlainJob[PredictorNode, Report]):
    """Measure a model's loss on a task's text, and the KL reduction of the task's selections.

    Attributes:
        selections: folder of all selections.
    """

    selections: Path
    costs: Path
    cache: Path | str | None

    encodes = True  # it runs a network

    def _work(self, piece: PredictorNode) -> Report:
        collector = WarningCollector()
        machine = Machine(workers=1, cache=self.cache, progress=collector)

        def step() -> dict[str, Any]:
            data = [str(self.selections / key) for key in piece.selections]
            found = forecast(piece.plan, data, machine=machine).prospects
            record = {
                "loss": found[0].losses.get("task"),
                "general": found[0].losses.get("general"),
                "falls": {Path(p.data).name: p.kl.falls for p in found},
            }
            write_bytes(piece.out, json.dumps(record).encode())
            train = piece.plan.train
            return {"device": train.device, "precision": train.precision}

        return run_step(piece.key, step, self.costs, collector)


def predictors_of(
    inputs: RecipeInputs, graph: StepGraph, failed: Collection[str] = ()
) -> dict[Cell, PredictorNode]:
    """The predictors by cell: every model of a row, with a selection whose target is the row's.

    Empty without the base, as all losses are compared with its loss. Models trained on the row's
    task are left out, as they have memorised the texts; so are columns of another model, adapters,
    which a masked language model is not opened with, augmentations, which change only the score,
    and tasks without fine-tuning (translation, likelihoods). For selections that all tasks share
    (`random`, `oracle`), KL is measured only where their own target is the row's.

    Reference: TADPOLE, Figures 2 and 3; Xie et al. (2023), Data Selection for Language Models via
    Importance Resampling, section 4.
    """
    selectors = {s.name: s for s in inputs.recipe.selectors}
    if BASE not in selectors:
        return {}
    entries = {t.name: t for t in inputs.recipe.tasks}
    first = next(iter(graph.cells))
    plan = adapt_plan(inputs.recipe, selectors[BASE], first, entries[first.task], 0)
    found: dict[Cell, PredictorNode] = {}
    for cell in graph.cells:
        selector = selectors[cell.selector]
        memorised = selector.trains_on_task and not selector.of
        other = selector.model_for(entries[cell.task], cell.model) != cell.model
        learns = load(inputs.tasks[cell.row[:2]].kind).learns
        if cell.adapter or cell.augment or memorised or other or not learns:
            continue
        own = [s for s in _row_selections(inputs, graph, cell.row) if s.key not in failed]
        keys = tuple(s.key for s in own)
        if own and own[0].sampled:
            # the base measures all selections; other models need only a target and a sample
            adapted = graph.cells[cell][0].adapted
            found[cell] = _predictor(inputs, cell, plan, keys[:1] if adapted else keys, adapted)
    return found


def _predictor(
    inputs: RecipeInputs, cell: Cell, plan: AdaptPlan, selections: tuple[str, ...], adapted: str
) -> PredictorNode:
    """The predictors of one model, measured as the recipe's adaptations measure, unweighted."""
    model = str(inputs.folder.models / adapted) if adapted else cell.model
    plan = dataclasses.replace(
        plan,
        model=dataclasses.replace(plan.model, name=model),
        adapter=AdapterPlan(),
        weights=WeightsPlan(),
    )
    settings, train = plan.decisive(), plan.train
    key = fingerprints.step(
        "look",
        plan={name: settings[name] for name in ("read", "objective", "mix", "seed")},
        train=[train.length, train.device, train.precision],
        model=adapted or inputs.models[cell.model],
        selections=selections,
        texts=inputs.tasks[cell.row[:2]].texts,
    )
    return PredictorNode(key, plan, selections, adapted, inputs.folder.forecasts / f"{key}.json")


def _row_selections(
    inputs: RecipeInputs, graph: StepGraph, row: tuple[str, int, str]
) -> list[SelectNode]:
    """The selections whose target is the row's, those with a sample of the corpus first."""
    target = inputs.folder.texts(inputs.tasks[row[:2]].key, "train")
    adapted = (tunings[0].adapted for c, tunings in graph.cells.items() if c.row == row)
    keys = dict.fromkeys(graph.adaptations[key].selection for key in adapted if key)
    steps = [graph.selections[key] for key in keys if key]
    own = [
        step
        for step in steps
        if isinstance(step, SelectNode) and step.target == target and _has_target(inputs, step)
    ]
    return sorted(own, key=lambda step: not step.sampled)


def _has_target(inputs: RecipeInputs, step: SelectNode) -> bool:
    """Whether a selection was made with this target; one that ignores the target may not be."""
    run_file = SelectionFolder(inputs.folder.selections / step.key).work / "run.json"
    if not run_file.exists() or not step.target.exists():
        return True
    before = json.loads(run_file.read_text("utf-8"))["target"].values()
    return list(before) == [corpus.fingerprint(str(step.target))[0]]
