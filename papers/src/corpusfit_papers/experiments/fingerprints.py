"""What decides a step's result: settings by value, models and files by content."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from corpusfit import AdaptPlan, EvaluatePlan, Machine, Plan
from corpusfit.contracts import (
    AnsweredTaskType,
    EmbedPlan,
    LabelMethod,
    LearnedTaskType,
    resolve,
)
from corpusfit.core.manifest import FORMAT, digest
from corpusfit.core.plan import MethodPlan, kind_of
from corpusfit.evaluation.plan import FinetunePlan
from corpusfit.evaluation.tasks import load
from corpusfit.kernels.characters import VERSION as TOKENS
from corpusfit.scoring import registry
from corpusfit.scoring.contract import AnyMethod
from corpusfit.training.plan import TrainPlan
from corpusfit_papers.augmenting import BACKTRANSLATE, Augmentation
from corpusfit_papers.experiments.config import Recipe

_ANY_LENGTH = 2**20


def step(kind: str, **decides: Any) -> str:
    """The digest of a step, from everything that can change its result.

    Library versions are left out: a new one may change last bits, and a table that took days
    should survive it. They are in each step's record, and a table names the differences.
    """
    return digest({"format": FORMAT, "step": kind, **decides})


def on_machine(recipe: Recipe, machine: Machine) -> Recipe:
    """The recipe with `auto` devices and precisions resolved; unchanged on Ray.

    On Ray only a worker knows what `auto` resolves to.
    """
    if machine.engine == "ray":
        return recipe
    finetune = _settled(recipe.evaluate.finetune, "evaluate.finetune")
    selectors = tuple(
        dataclasses.replace(
            s, adapt=s.adapt.with_values({"train": _settled(s.adapt.train, "adapt.train")})
        )
        for s in recipe.selectors
    )
    evaluate = recipe.evaluate.with_values({"finetune": finetune})
    return dataclasses.replace(recipe, selectors=selectors, evaluate=evaluate)


def _settled(plan: TrainPlan | FinetunePlan, group: str) -> dict[str, str]:
    hardware = resolve(plan, group)
    return {"device": hardware.device, "precision": hardware.precision}


def method_of(plan: Plan) -> AnyMethod:
    """The method of a selection, with the embedder that it reads."""
    method = registry.with_embedder(plan.method, plan.embed.embedder)
    return registry.build(method.name, method.options)


def encoders_of(plan: Plan) -> list[EmbedPlan]:
    """The settings of the encoder that a selection's method reads; none if it reads none."""
    return [plan.embed] if method_of(plan).encodes else []


def sampled(plan: Plan) -> bool:
    """Whether a selection keeps a sample of the corpus; a method that reads labels draws none."""
    return not isinstance(method_of(plan), LabelMethod)


def scoring(
    plan: Plan, encoders: Mapping[EmbedPlan, str], files: Mapping[str, str]
) -> dict[str, Any]:
    """What decides the scores of a selection, except the texts."""
    method = registry.with_embedder(plan.method, plan.embed.embedder)
    settings = plan.identity()
    for group in ("choose", "embed", "method"):
        del settings[group]
    settings["read"] = plan.read.identity()
    settings["methods"] = [by_content(method, files)]
    if method_of(plan).reads != "embedding":
        settings["tokens"] = TOKENS
    return settings | {"encoders": [encoders[embed] for embed in encoders_of(plan)]}


def by_content(method: MethodPlan, files: Mapping[str, str]) -> dict[str, Any]:
    """A method with file fingerprints in place of the paths in its settings."""
    built = registry.build(method.name, method.options)
    remaining = {path: files[path] for path in built.files}
    options = {
        k: remaining.pop(v, v) if isinstance(v, str) else v for k, v in method.options.items()
    }
    if remaining:  # files of the model in `embedder`
        options["embedder"] = {
            Path(path).name: fingerprint for path, fingerprint in sorted(remaining.items())
        }
    return {"name": method.name, "options": options}


def adapting(plan: AdaptPlan) -> dict[str, Any]:
    """What decides an adapted model, except the base model and the texts."""
    settings = plan.decisive()
    if not plan.adapter.kind:
        settings["adapter"] = {}
    return settings


def tuning(plan: EvaluatePlan, kind: str, *, adapter: bool) -> dict[str, Any]:
    """What decides a fine-tuning, except the model, the examples, the augmentation and the seed."""
    task_type = load(kind)
    if isinstance(task_type, LearnedTaskType):
        whole = task_type.settled(plan, adapter=adapter, max_length=_ANY_LENGTH)
        new = plan.model
        size = new.rank if new.adapter else None
        return {
            "tune": dataclasses.asdict(whole.finetune) | {"device": kind_of(whole.finetune.device)},
            "metric": whole.task.metric,
            "adapter": [new.adapter, size],
        }
    if isinstance(task_type, AnsweredTaskType) and (group := task_type.group):
        return {
            group: dataclasses.asdict(getattr(plan, group)),
            "device": kind_of(plan.finetune.device),
        }
    return {
        kind: dataclasses.asdict(plan.task.own),
        "finetune": [kind_of(plan.finetune.device), plan.finetune.precision],
    }


def augmenting(plan: Augmentation, models: Mapping[str, str], device: str) -> dict[str, Any]:
    """What decides an augmentation, except the examples and the seed."""
    settings = dataclasses.asdict(plan)
    if plan.kind != BACKTRANSLATE:
        return settings
    return (
        settings
        | {"share": 0.0, "device": kind_of(device)}
        | {name: models[getattr(plan, name)] for name in ("mt", "mt_back")}
    )


def translators(recipe: Recipe) -> dict[str, str]:
    """The translation models with the settings that name them; empty without back-translation."""
    if not any(BACKTRANSLATE in s.augment for s in recipe.selectors):
        return {}
    return {recipe.augmentation[name]: f"augmentation.{name}" for name in ("mt", "mt_back")}
