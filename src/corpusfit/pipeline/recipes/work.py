"""The steps that a recipe's cells need, each once.

What: for every cell its selection, its adapted models, its companions and its fine-tunings, each
under a digest of all that decides it.
Why: what two cells share has one digest, so it is made once, and a recipe that is changed later
finds what it had.
Trade-off: a digest goes by the content of tasks, pile and models, so all are read at the start.
`general` and `random` do not look at the task, so all tasks share their model, which may then hold
no dev or test text of any of them.
Reference: TADPOLE, sections 4.1 and 4.2.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corpusfit.adapt.plan import AdaptPlan
from corpusfit.evaluate.plan import AugmentPlan, EvaluatePlan
from corpusfit.manifest import RecipeFolder, digest
from corpusfit.pipeline.given import TASK
from corpusfit.pipeline.recipes.cells import Cell, adapt_plan, grid, select_plan, tune_plan
from corpusfit.pipeline.recipes.recipe import BASE, GENERAL, ORACLE, RANDOM, Recipe, Selector
from corpusfit.plan import Plan
from corpusfit.settings import Settings

__all__ = [
    "Adapting",
    "Companions",
    "Made",
    "Selecting",
    "StoredTask",
    "Tuning",
    "Work",
    "without_names",
    "work_of",
]


@dataclass(frozen=True)
class StoredTask:
    """A task of some size, in the recipe's folder.

    Attributes:
        name: as the recipe names it.
        size: training examples as a cell names them; 0 for all.
        examples: how many that is.
        kind: `classification` or `tagging`.
        metric: what is compared.
        key: digest of all of it.
        texts: digest of its training texts.
        judged: digest of the texts of dev and test.
        notes: what the user should know of how it was read.
    """

    name: str
    size: int
    examples: int
    kind: str
    metric: str
    key: str
    texts: str
    judged: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Selecting:
    """One selection.

    Attributes:
        key: its digest.
        scoring: digest of all but the amount: equal for those that share their scores.
        plan: of the selection.
        target: file of the training texts.
        label: in words.
    """

    key: str
    scoring: str
    plan: Plan
    target: Path
    label: str


@dataclass(frozen=True)
class Adapting:
    """One adapted model.

    Attributes:
        key: its digest.
        plan: of the adaptation.
        selection: digest of its selection, if it has one.
        data: what it is trained on.
        task: texts to measure on, where the data does not bring them.
        guard: files of texts that may not be trained on: dev and test.
        label: in words.
    """

    key: str
    plan: AdaptPlan
    selection: str
    data: tuple[str, ...]
    task: tuple[str, ...]
    guard: tuple[str, ...]
    label: str


@dataclass(frozen=True)
class Companions:
    """Companions of one task's training examples: their digest, plan and task."""

    key: str
    plan: AugmentPlan
    task: Path


@dataclass(frozen=True)
class Tuning:
    """One fine-tuning.

    Attributes:
        key: its digest; with the seed its file's name.
        seed: of the head, the order and dropout.
        plan: of the fine-tuning, and of which model.
        task: file of the task.
        adapted: digest of the adapted model, if it is one.
        extra: digest of the companions, if there are some.
        out: file of the outcome.
    """

    key: str
    seed: int
    plan: EvaluatePlan
    task: Path
    adapted: str
    extra: str
    out: Path


@dataclass
class Work:
    """All steps of a recipe, by digest, and which of them a cell needs."""

    cells: dict[Cell, list[Tuning]] = field(default_factory=dict)
    selections: dict[str, Selecting] = field(default_factory=dict)
    adaptations: dict[str, Adapting] = field(default_factory=dict)
    companions: dict[str, Companions] = field(default_factory=dict)


@dataclass(frozen=True)
class Made:
    """What steps are made of.

    Attributes:
        recipe: what is asked for.
        folder: where it is made.
        tasks: those stored, by name and size.
        pile: fingerprints of the pile's sources, by name.
        models: fingerprints of the models, by name.
    """

    recipe: Recipe
    folder: RecipeFolder
    tasks: Mapping[tuple[str, int], StoredTask]
    pile: Mapping[str, str]
    models: Mapping[str, str]

    def first(self) -> StoredTask:
        """The task that stands for all where it does not matter which."""
        return next(iter(self.tasks.values()))


def work_of(made: Made) -> Work:
    """The steps of all cells, each once."""
    sizes: dict[str, list[int]] = {}
    for name, size in made.tasks:
        sizes.setdefault(name, []).append(size)
    selectors = {s.name: s for s in made.recipe.selectors}
    entries = {t.name: t for t in made.recipe.tasks}
    work = Work()
    for cell in grid(made.recipe, sizes):
        stored = made.tasks[cell.task, cell.size]
        adapted = _adapted(made, selectors[cell.selector], cell, work)
        plan = tune_plan(made.recipe, cell, entries[cell.task])
        extra = _companions(made, plan.augment, stored, work)
        work.cells[cell] = [
            _tuning(made, plan, stored, cell.model, adapted, extra, k)
            for k in range(made.recipe.seeds)
        ]
    return work


def _adapted(made: Made, selector: Selector, cell: Cell, work: Work) -> list[str]:
    """The digests of a cell's adapted models; none for the base."""
    if selector.name == BASE:
        return []
    best = selector.adapt.train.keep == "best"  # then the task decides which weights are kept
    shared = selector.name in (GENERAL, RANDOM) and not best
    stored = made.first() if shared else made.tasks[cell.task, cell.size]
    selecting = _selecting(made, selector, cell, stored) if selector.selects else None
    if selecting:
        work.selections[selecting.key] = selecting
    data = (TASK,) if selector.name == TASK else made.recipe.pile
    if selecting:
        data = (str(made.folder.selections / selecting.key),)
    task = () if shared and not selecting else (str(made.folder.texts(stored.key, "train")),)
    guarded = list(made.tasks.values()) if shared else [stored]
    keys = []
    for nth in range(made.recipe.adaptations):
        plan = adapt_plan(made.recipe, selector, cell, nth)
        key = digest(
            {
                "plan": without_names(plan),
                "model": made.models[cell.model],
                "selection": selecting.key if selecting else "",
                "data": made.pile if selector.name == GENERAL else {},
                "texts": stored.texts if task else "",
                "guard": [] if made.recipe.keep_overlap else sorted({t.judged for t in guarded}),
            }
        )
        keys.append(key)
        if key not in work.adaptations:
            judged = {t.judged: t for t in guarded}.values()
            label = f"{_words(cell)} for {'all tasks' if shared else _named(stored)}"
            work.adaptations[key] = Adapting(
                key,
                plan,
                selecting.key if selecting else "",
                data,
                task,
                () if made.recipe.keep_overlap else _held_out(made, judged),
                label,
            )
    return keys


def _held_out(made: Made, tasks: Iterable[StoredTask]) -> tuple[str, ...]:
    """The files of the dev and test texts of some tasks."""
    return tuple(
        str(made.folder.texts(task.key, split)) for task in tasks for split in ("dev", "test")
    )


def _selecting(made: Made, selector: Selector, cell: Cell, stored: StoredTask) -> Selecting:
    """The selection of a cell."""
    entry = next(t for t in made.recipe.tasks if t.name == cell.task)
    plan = select_plan(made.recipe, selector, cell, entry)
    target = made.folder.texts(stored.key, "train")
    blind = selector.name in (RANDOM, ORACLE)
    identity = {**plan.as_dict(), "pile": made.pile, "target": "" if blind else stored.texts}
    scoring = digest({**identity, "choose": None})
    label = f"{_words(dataclasses.replace(cell, weights='off', adapter=''))} for {_named(stored)}"
    return Selecting(digest(identity), scoring, plan, target, label)


def _words(cell: Cell) -> str:
    """How a cell comes by its text and model."""
    amount = "" if cell.fraction is None else f"{cell.fraction:g}"
    weights = "" if cell.weights == "off" else cell.weights
    return " ".join(filter(None, (cell.selector, amount, weights, cell.adapter)))


def _named(stored: StoredTask) -> str:
    """A task with its size, where that is not all of it."""
    return f"{stored.name} of {stored.size}" if stored.size else stored.name


def _companions(made: Made, plan: AugmentPlan, stored: StoredTask, work: Work) -> str:
    """The digest of a task's companions; none without augmentation."""
    if not plan.kind:
        return ""
    identity = {**dataclasses.asdict(plan), "task": stored.key, "seed": made.recipe.seed}
    key = digest(identity)
    work.companions[key] = Companions(key, plan, made.folder.task(stored.key))
    return key


def _tuning(
    made: Made,
    plan: EvaluatePlan,
    stored: StoredTask,
    model: str,
    adapted: Sequence[str],
    extra: str,
    nth: int,
) -> Tuning:
    """The nth fine-tuning of a cell."""
    parent = adapted[nth % len(adapted)] if adapted else ""
    identity = {
        **without_names(plan),
        "augment": extra,
        "task data": stored.key,
        "weights": parent or made.models[model],
    }
    key, seed = digest(identity), made.recipe.seed + nth
    place = str(made.folder.models / parent) if parent else model
    plan = dataclasses.replace(plan, model=dataclasses.replace(plan.model, name=place))
    task, out = made.folder.task(stored.key), made.folder.outcome(key, seed)
    return Tuning(key, seed, plan, task, parent, extra, out)


def without_names(plan: Settings) -> dict[str, Any]:
    """A plan's settings without the model's name: a model is known by its content."""
    settings = plan.as_dict()
    del settings["model"]["name"]
    return settings
