"""Checks the models of a recipe's pending steps before the first of them runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from corpusfit.core.errors import CorpusfitError
from corpusfit.embed.hardware import resolve
from corpusfit.evaluation.augment import BackTranslator, require_allowed
from corpusfit.evaluation.finetune import require_models
from corpusfit.evaluation.plan import EvaluatePlan
from corpusfit.evaluation.reading import read_task
from corpusfit.evaluation.task import load_task
from corpusfit.experiments.grid import task_plan
from corpusfit.experiments.nodes import RecipeInputs, StepGraph, StoredTask
from corpusfit.experiments.recipe_keys import in_table
from corpusfit.training.adapting import open_base
from corpusfit.training.plan import AdaptPlan

if TYPE_CHECKING:
    from corpusfit.experiments.status import PendingSteps


def faults_of(
    inputs: RecipeInputs, graph: StepGraph, pending: PendingSteps, on_warn: Callable[[str], None]
) -> Iterator[CorpusfitError]:
    """What would make pending steps fail, found by opening each base model once for each use.

    That takes seconds for each, before hours of work. An adapted model is of its base's
    architecture, so the base stands for it.
    """

    def adapts(plan: AdaptPlan) -> None:
        open_base(plan, resolve(plan.train, "train"), on_warn)

    def evaluates(name: str, stored: StoredTask, plan: EvaluatePlan) -> None:
        if plan.augment.kind:
            require_allowed(plan.augment, stored.kind)
        path = inputs.folder.task(stored.key)
        if path.exists():
            task = load_task(path)
        else:  # a dry run stores none
            entry = next(entry for entry in inputs.recipe.tasks if entry.name == name)
            place = task_plan(inputs.recipe, entry).task
            task = read_task(entry.path, place, seed=inputs.recipe.seed)
        require_models(task, [plan])

    plans = [step.plan for step in pending.adaptations if not step.plan.model.init]
    checks: dict[tuple[object, ...], Callable[[], object]] = {
        ("adapt", plan.model, plan.objective, plan.adapter, plan.train): partial(adapts, plan)
        for plan in plans
    }
    for step in pending.augmentations:
        if step.plan.mt:
            models = (step.plan.mt, step.plan.mt_back)
            checks["evaluate", models] = partial(BackTranslator.load, *models, device="cpu")
    for (name, _), stored in inputs.tasks.items():
        for tuning in pending.tunings:
            plan, adapted = tuning.plan, graph.adaptations.get(tuning.adapted)
            if adapted is not None:
                plan = plan.with_value("model.name", adapted.plan.model.name)
            if tuning.task == inputs.folder.task(stored.key) and plan.model.name:
                of = ("evaluate", name, plan.model, plan.augment.kind)
                checks[of] = partial(evaluates, name, stored, plan)
    for use, check in checks.items():
        try:
            with in_table(str(use[0])):
                check()
        except CorpusfitError as e:
            yield e
