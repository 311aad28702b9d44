"""The steps that a recipe's cells need, each once.

What: for every cell its selection, its adapted models, its companions and its fine-tunings, each
under a digest of all that decides it.
Why: what two cells share has one digest, so it is made once, and a recipe that is changed later
finds what it had.
Trade-off: a digest goes by the content of tasks, pile and models, so all are read at the start.
`general` and `random` do not look at the task, so all tasks share their models, which may then
hold no dev or test text of any of them: another task is another model of these two. A control is
adapted on another task's selection but without dev and test texts of both, so it is a model of its
own.
Reference: TADPOLE, sections 4.1 and 4.2; mDAPT, section 5.2.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from corpusfit.evaluate.plan import EvaluatePlan
from corpusfit.pipeline.given import TASK
from corpusfit.pipeline.recipes import content
from corpusfit.pipeline.recipes.cells import Cell, adapt_plan, grid, select_plan, tune_plan
from corpusfit.pipeline.recipes.parts import (
    Adapting,
    Companions,
    Made,
    Selecting,
    StoredTask,
    Tuning,
    Work,
)
from corpusfit.pipeline.recipes.recipe import BASE, GENERAL, ORACLE, RANDOM, Selector

__all__ = ["work_of"]


def work_of(made: Made) -> Work:
    """The steps of all cells, each once."""
    sizes: dict[str, list[int]] = {}
    for name, size in made.tasks:
        sizes.setdefault(name, []).append(size)
    selectors = {s.name: s for s in made.recipe.selectors}
    entries = {t.name: t for t in made.recipe.tasks}
    work = Work()
    for cell in grid(made.recipe, sizes):
        stored, selector = made.tasks[cell.task, cell.size], selectors[cell.selector]
        adapted = _adapted(made, selector, cell, work)
        plan = tune_plan(made.recipe, selector, cell, entries[cell.task])
        extra = _companions(made, plan, stored, work)
        work.cells[cell] = [
            _tuning(made, plan, cell, adapted, extra, k) for k in range(made.recipe.seeds)
        ]
    return work


def _adapted(made: Made, selector: Selector, cell: Cell, work: Work) -> list[str]:
    """The digests of a cell's adapted models; none for the base."""
    if selector.name == BASE:
        return []
    found = [_adapting(made, selector, cell, nth, work) for nth in range(made.recipe.adaptations)]
    for step in found:
        work.adaptations.setdefault(step.key, step)
    return [step.key for step in found]


def _adapting(made: Made, selector: Selector, cell: Cell, nth: int, work: Work) -> Adapting:
    """A cell's nth adaptation; its selection goes to the work."""
    stored, recipe = made.tasks[cell.task, cell.size], made.recipe
    taught = _taught(made, selector, cell)
    best = selector.adapt.train.keep == "best"  # then the task decides which weights are kept
    shared = not best and (
        selector.name == GENERAL or (selector.name == RANDOM and _blind(selector))
    )
    guarded = list(made.tasks.values()) if shared else [stored, taught]
    judged = {} if recipe.keep_overlap else {t.judged: t for t in guarded}
    data, key = (TASK,) if selector.way == TASK else recipe.pile, ""
    if selector.selects:
        selecting = _selecting(made, selector, cell, nth)
        work.selections.setdefault(selecting.key, selecting)
        data, key = (str(made.folder.selections / selecting.key),), selecting.key
    own = best or selector.way == TASK  # else texts of the task are at most measured on
    plan = adapt_plan(recipe, selector, cell, nth)
    identity = {
        "plan": content.adapting(plan),
        "model": made.models[cell.model],
        "selection": key,
        "data": made.pile if selector.name == GENERAL else {},
        "texts": taught.texts if own else "",
        "guard": sorted(judged),
    }
    return Adapting(
        content.step("adapt", **identity),
        plan,
        key,
        data,
        (str(made.folder.texts(taught.key, "train")),) if own else (),
        _held_out(made, judged.values()),
        shared,
        f"{_words(cell)} for {'all tasks' if shared else _named(stored)}"
        f"{f' ({selector.of} for {_named(taught)})' if selector.of else ''}{_nth(nth)}",
    )


def _taught(made: Made, selector: Selector, cell: Cell) -> StoredTask:
    """The task whose text a cell's model is adapted on, in the cell's size or as large as it is."""
    name = made.recipe.taught(selector, cell.task).name
    sizes = [size for task, size in made.tasks if task == name]
    return made.tasks[name, cell.size if cell.size in sizes else sizes[-1]]


def _held_out(made: Made, tasks: Iterable[StoredTask]) -> tuple[str, ...]:
    """The files of the dev and test texts of some tasks."""
    return tuple(
        str(made.folder.texts(task.key, split)) for task in tasks for split in ("dev", "test")
    )


def _selecting(made: Made, selector: Selector, cell: Cell, nth: int) -> Selecting:
    """The selection of a cell's nth adaptation; `random` alone draws anew for each."""
    entry = made.recipe.taught(selector, cell.task)
    blind, random = _blind(selector), selector.name == RANDOM
    stored = made.first() if random and blind else _taught(made, selector, cell)
    drawn = nth if random else 0
    plan = select_plan(made.recipe, selector, cell, entry, drawn)
    scores = content.step(
        "score",
        plan=content.scoring(plan, made.encoders, made.files),
        pile=made.pile,
        target="" if blind else stored.texts,
    )
    key = f"{scores}-{content.step('choose', plan=dataclasses.asdict(plan.choose))}"
    words = _words(dataclasses.replace(cell, selector=selector.way, weights="off", adapter=""))
    label = f"{words} for {_named(stored)}{_nth(drawn)}"
    target = made.folder.texts(stored.key, "train")
    return Selecting(key, scores, plan, target, content.sampled(plan), label)


def _blind(selector: Selector) -> bool:
    """Whether it looks at no text of the task; the stages of a cascade do."""
    return selector.way in (RANDOM, ORACLE) and not selector.select.cascade.stages


def _words(cell: Cell) -> str:
    """How a cell comes by its text and model."""
    amount = "" if cell.fraction is None else f"{cell.fraction:g}"
    weights = "" if cell.weights == "off" else cell.weights
    return " ".join(filter(None, (cell.selector, amount, weights, cell.adapter)))


def _named(stored: StoredTask) -> str:
    """A task with its size, where that is not all of it."""
    return f"{stored.name} of {stored.size}" if stored.size else stored.name


def _nth(nth: int) -> str:
    """Which of several, after the first."""
    return f", number {nth + 1}" if nth else ""


def _companions(made: Made, plan: EvaluatePlan, stored: StoredTask, work: Work) -> str:
    """The digest of a task's companions; none without augmentation."""
    if not plan.augment.kind:
        return ""
    how = content.augmenting(plan.augment, made.models, plan.tune.device)
    key = content.step("augment", plan=how, examples=stored.learned, seed=made.recipe.seed)
    work.companions[key] = Companions(key, plan.augment, made.folder.task(stored.key))
    return key


def _tuning(
    made: Made, plan: EvaluatePlan, cell: Cell, adapted: Sequence[str], extra: str, nth: int
) -> Tuning:
    """The nth fine-tuning of a cell."""
    stored = made.tasks[cell.task, cell.size]
    parent = adapted[nth % len(adapted)] if adapted else ""
    key = content.step(
        "tune",
        plan=content.tuning(plan, stored.kind, adapter=bool(cell.adapter)),
        companions=extra,
        task=stored.key,
        weights=parent or made.models[cell.model],
    )
    seed = made.recipe.seed + nth
    place = str(made.folder.models / parent) if parent else cell.model
    plan = dataclasses.replace(plan, model=dataclasses.replace(plan.model, name=place))
    task, out = made.folder.task(stored.key), made.folder.outcome(key, seed)
    return Tuning(key, seed, plan, task, parent, extra, out)
