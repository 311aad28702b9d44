"""The targets of a recipe with `[separation]`: texts of tasks, or of sources of the corpus."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Sequence
from typing import Any

import numpy as np

from corpusfit.core.errors import bad_setting
from corpusfit.core.manifest import digest, source_identity
from corpusfit.core.plan import Plan
from corpusfit.core.types import Documents, Source, text_array
from corpusfit.evaluation.plan import settled
from corpusfit.evaluation.reading import read_task
from corpusfit.experiments.config import Recipe
from corpusfit.experiments.entries import RecipeTask
from corpusfit.experiments.grid import task_plan
from corpusfit.experiments.inputs import scored_texts
from corpusfit.experiments.separation.settings import Separation
from corpusfit.text import normalise
from corpusfit.text.reading import cut_units

LONGEST = 512


@dataclasses.dataclass(frozen=True)
class Target:
    """A target.

    Attributes:
        name: its name.
        digest: of its texts and labels, or of the sources that they are drawn from.
        texts: its n units; empty for a target that is drawn from the corpus.
        labels: the label of each unit, 0 or 1; empty unless it is one task with two labels.
        sources: names of the sources of the corpus that it is drawn from.
        kind: kind of its task; empty for a target that is drawn or of several tasks.
    """

    name: str
    digest: str
    texts: tuple[str, ...] = ()
    labels: tuple[int, ...] = ()
    sources: tuple[str, ...] = ()
    kind: str = ""


def targets_of(
    recipe: Recipe, separation: Separation, sources: Sequence[Source]
) -> dict[str, Target]:
    """The targets by name; a task without a path has units of its `oracle` sources."""
    entries = {task.name: task for task in recipe.tasks}
    named = dict(separation.targets) or {name: (name,) for name in entries}
    found = {}
    for name, tasks in named.items():
        own = [entries[task] for task in tasks]
        drawn = [task for task in own if not task.path]
        if drawn and len(own) > 1:
            allowed = "tasks with a path, or one task without"
            raise bad_setting(f"separation.targets.{name}", allowed, list(tasks))
        target = _drawn(name, drawn[0], sources) if drawn else _read(recipe, separation, name, own)
        if any(separation.finetuned) and not target.labels:
            allowed = f"false for {name}, which is not one task with two labels"
            raise bad_setting("separation.finetuned", allowed, True)
        found[name] = target
    return found


def _drawn(name: str, task: RecipeTask, sources: Sequence[Source]) -> Target:
    own = [s for s in sources if any(fnmatch.fnmatch(s.name, glob) for glob in task.oracle)]
    if not own:
        known = ", ".join(s.name for s in sources)
        allowed = f"globs for some of {known}, as the task has no path"
        raise bad_setting(f"tasks.oracle of {task.name}", allowed, list(task.oracle))
    names = tuple(source.name for source in own)
    return Target(name, digest(source_identity(own)), sources=names)


def _read(recipe: Recipe, separation: Separation, name: str, tasks: list[RecipeTask]) -> Target:
    """The different units of the training texts of some tasks, at most as many as asked for."""
    label_of: dict[str, int] = {}
    kinds, binary = [], len(tasks) == 1
    plan: Plan = recipe.selectors[0].select
    for entry in tasks:
        task = read_task(entry.path, task_plan(recipe, entry).task, seed=recipe.seed)
        kinds.append(task.kind)
        binary = binary and task.learnable == 2
        scored = scored_texts(task.train, task.kind, plan.read)
        texts = [normalise(text) if plan.fit.normalise else text for text in scored]
        for text, label in zip(texts, task.train.labels, strict=True):
            label_of.setdefault(text, label[0] if binary else 0)
    label_of.pop("", None)
    units, cut = cut_units(
        Documents(np.arange(len(label_of)), text_array(list(label_of))), plan.cut
    )
    order = np.random.default_rng(recipe.seed).permutation(len(cut))
    places = np.sort(order[: separation.texts])
    pieces, labels = cut.to_pylist(), list(label_of.values())
    chosen = tuple(pieces[i].strip() for i in places)
    numbers = tuple(int(labels[units.row[i]]) for i in places) if binary else ()
    return Target(name, digest([chosen, numbers]), chosen, numbers, kind=kinds[0])


def tuning_of(recipe: Recipe, target: Target) -> dict[str, Any]:
    """Epochs, rate and batch size of the encoder's fine-tuning on a target."""
    plan = settled(recipe.evaluate, target.kind, adapter=False, longest=LONGEST).finetune
    return {name: getattr(plan, name) for name in ("epochs", "rate", "batch")}
