"""What is known of a model and a selection before any score: losses and n-grams, as jobs.

What: for each row the loss of each model on the task's training texts and the KL reduction of each
selection, each a job that leaves a file.
Why: if these go with the scores, the next adaptation need not be paid for to be judged.
Trade-off: the `task` selector has learned those texts by heart and is left out; so are adapters,
which no masked language model is opened with, and companions, which change the score alone. What
all tasks share (`random`, the domain of `oracle`) has its n-grams counted where the selection's own
target is the row's.
Reference: TADPOLE, Figures 2 and 3; Xie et al. (2023), Data Selection for Language Models via
Importance Resampling, section 4.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpusfit import corpus
from corpusfit.adapt.plan import TASK, AdapterPlan, AdaptPlan, WeighPlan
from corpusfit.artifacts import write_bytes
from corpusfit.engine import Job
from corpusfit.manifest import RunFolder
from corpusfit.pipeline.forecasting import forecast
from corpusfit.pipeline.recipes import fingerprints
from corpusfit.pipeline.recipes.config import BASE
from corpusfit.pipeline.recipes.grid import Cell, adapt_plan
from corpusfit.pipeline.recipes.nodes import RecipeInputs, SelectNode, StepGraph
from corpusfit.pipeline.recipes.workers import Report, WarningCollector, run_step
from corpusfit.pipeline.run import Machine


@dataclass(frozen=True)
class PredictorNode:
    """One model held against one task.

    Attributes:
        key: digest of both.
        plan: of an adaptation, with the model's folder.
        selections: digests of the selections; each has the task as its target.
        model: digest of the adapted model, nothing for the base.
        out: file of what was found.
    """

    key: str
    plan: AdaptPlan
    selections: tuple[str, ...]
    model: str
    out: Path


@dataclass(frozen=True)
class PredictorJob(Job[PredictorNode, Report]):
    """Measure a model's loss on a task's text, and count what was selected for it.

    Attributes:
        selections: the folder of all selections.
        costs: that of records.
        cache: of token ids.
    """

    selections: Path
    costs: Path
    cache: Path | str | None

    @property
    def encodes(self) -> bool:
        """A network is called."""
        return True

    def start(self) -> Callable[[PredictorNode], Report]:
        """Nothing to open: each piece has a model of its own."""
        return self._done

    def _done(self, piece: PredictorNode) -> Report:
        heard = WarningCollector()
        machine = Machine(workers=1, cache=self.cache, progress=heard)

        def step() -> dict[str, Any]:
            data = [str(self.selections / key) for key in piece.selections]
            found = forecast(piece.plan, data, machine=machine).prospects
            kept = {
                "loss": found[0].losses.get("task"),
                "falls": {Path(p.data).name: p.kl.falls for p in found},
            }
            write_bytes(piece.out, json.dumps(kept).encode())
            train = piece.plan.train
            return {"device": train.device, "precision": train.precision}

        return run_step(piece.key, step, self.costs, heard)


def predictors_of(
    inputs: RecipeInputs, work: StepGraph, failed: Collection[str] = ()
) -> dict[Cell, PredictorNode]:
    """What to look at: in each row every model, on a selection that was made for the row.

    Nothing without the base, whose loss all others are held against.

    Args:
        inputs: what steps are made of.
        work: the steps.
        failed: digests of steps that failed: a selection among them is left out.
    """
    selectors = {s.name: s for s in inputs.recipe.selectors}
    if BASE not in selectors:
        return {}
    plan = adapt_plan(inputs.recipe, selectors[BASE], next(iter(work.cells)), 0)
    found: dict[Cell, PredictorNode] = {}
    for cell in work.cells:
        if cell.adapter or cell.augment or cell.selector == TASK:
            continue
        own = [s for s in _own_selections(inputs, work, cell.row) if s.key not in failed]
        keys = tuple(s.key for s in own)
        if own and own[0].sampled:
            # the base says what all of them hold, the others need a target and a sample alone
            adapted = work.cells[cell][0].adapted
            found[cell] = _look(inputs, cell, plan, keys[:1] if adapted else keys, adapted)
    return found


def _look(
    inputs: RecipeInputs, cell: Cell, plan: AdaptPlan, selections: tuple[str, ...], adapted: str
) -> PredictorNode:
    """A model held against a task: all as the recipe's adaptations measure, unweighted."""
    place = str(inputs.folder.models / adapted) if adapted else cell.model
    plan = dataclasses.replace(
        plan,
        model=dataclasses.replace(plan.model, name=place),
        adapter=AdapterPlan(),
        weigh=WeighPlan(),
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


def _own_selections(
    inputs: RecipeInputs, work: StepGraph, row: tuple[str, int, str]
) -> list[SelectNode]:
    """The selections of a row whose target is the row's.

    Those that keep a sample of the pile come first; the others (a method that goes by labels draws
    none) are held against them.
    """
    target = inputs.folder.texts(inputs.tasks[row[:2]].key, "train")
    adapted = (tunings[0].adapted for c, tunings in work.cells.items() if c.row == row)
    keys = dict.fromkeys(work.adaptations[key].selection for key in adapted if key)
    own = [work.selections[key] for key in keys if key]
    own = [step for step in own if step.target == target and _aimed(inputs, step)]
    return sorted(own, key=lambda step: not step.sampled)


def _aimed(inputs: RecipeInputs, step: SelectNode) -> bool:
    """Whether a selection has its target; one that looks at none may have another, from before."""
    begun = RunFolder(inputs.folder.selections / step.key).work / "run.json"
    if not begun.exists() or not step.target.exists():
        return True
    before = json.loads(begun.read_text("utf-8"))["target"].values()
    return list(before) == [corpus.fingerprint(str(step.target))[0]]
