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

from corpusfit.adapt.plan import TASK
from corpusfit.evaluate.plan import EvaluatePlan
from corpusfit.pipeline.recipes import fingerprints
from corpusfit.pipeline.recipes.config import BASE, GENERAL, ORACLE, RANDOM, Selector
from corpusfit.pipeline.recipes.grid import Cell, adapt_plan, grid, select_plan, tune_plan
from corpusfit.pipeline.recipes.nodes import (
    AdaptNode,
    AugmentNode,
    RecipeInputs,
    SelectNode,
    StepGraph,
    StoredTask,
    TuneNode,
)


def build_graph(inputs: RecipeInputs) -> StepGraph:
    """The steps of all cells, each once."""
    sizes: dict[str, list[int]] = {}
    for name, size in inputs.tasks:
        sizes.setdefault(name, []).append(size)
    selectors = {s.name: s for s in inputs.recipe.selectors}
    entries = {t.name: t for t in inputs.recipe.tasks}
    work = StepGraph()
    for cell in grid(inputs.recipe, sizes):
        stored, selector = inputs.tasks[cell.task, cell.size], selectors[cell.selector]
        adapted = _adapted(inputs, selector, cell, work)
        plan = tune_plan(inputs.recipe, selector, cell, entries[cell.task])
        extra = _companions(inputs, plan, stored, work)
        work.cells[cell] = [
            _tuning(inputs, plan, cell, adapted, extra, k) for k in range(inputs.recipe.seeds)
        ]
    return work


def _adapted(inputs: RecipeInputs, selector: Selector, cell: Cell, work: StepGraph) -> list[str]:
    """The digests of a cell's adapted models; none for the base."""
    if selector.name == BASE:
        return []
    found = [
        _adapting(inputs, selector, cell, nth, work) for nth in range(inputs.recipe.adaptations)
    ]
    for step in found:
        work.adaptations.setdefault(step.key, step)
    return [step.key for step in found]


def _adapting(
    inputs: RecipeInputs, selector: Selector, cell: Cell, nth: int, work: StepGraph
) -> AdaptNode:
    """A cell's nth adaptation; its selection goes to the work."""
    stored, recipe = inputs.tasks[cell.task, cell.size], inputs.recipe
    taught = _taught(inputs, selector, cell)
    best = selector.adapt.train.keep == "best"  # then the task decides which weights are kept
    shared = not best and (
        selector.name == GENERAL or (selector.name == RANDOM and _blind(selector))
    )
    guarded = list(inputs.tasks.values()) if shared else [stored, taught]
    judged = {} if recipe.keep_overlap else {t.judged: t for t in guarded}
    data, key = (TASK,) if selector.way == TASK else recipe.pile, ""
    if selector.selects:
        selecting = _selecting(inputs, selector, cell, nth)
        work.selections.setdefault(selecting.key, selecting)
        data, key = (str(inputs.folder.selections / selecting.key),), selecting.key
    own = best or selector.way == TASK  # else texts of the task are at most measured on
    plan = adapt_plan(recipe, selector, cell, nth)
    identity = {
        "plan": fingerprints.adapting(plan),
        "model": inputs.models[cell.model],
        "selection": key,
        "data": inputs.pile if selector.name == GENERAL else {},
        "texts": taught.texts if own else "",
        "guard": sorted(judged),
    }
    return AdaptNode(
        fingerprints.step("adapt", **identity),
        plan,
        key,
        data,
        (str(inputs.folder.texts(taught.key, "train")),) if own else (),
        _held_out(inputs, judged.values()),
        shared,
        f"{_words(cell)} for {'all tasks' if shared else _named(stored)}"
        f"{f' ({selector.of} for {_named(taught)})' if selector.of else ''}{_nth(nth)}",
    )


def _taught(inputs: RecipeInputs, selector: Selector, cell: Cell) -> StoredTask:
    """The task whose text a cell's model is adapted on, in the cell's size or as large as it is."""
    name = inputs.recipe.taught(selector, cell.task).name
    sizes = [size for task, size in inputs.tasks if task == name]
    return inputs.tasks[name, cell.size if cell.size in sizes else sizes[-1]]


def _held_out(inputs: RecipeInputs, tasks: Iterable[StoredTask]) -> tuple[str, ...]:
    """The files of the dev and test texts of some tasks."""
    return tuple(
        str(inputs.folder.texts(task.key, split)) for task in tasks for split in ("dev", "test")
    )


def _selecting(inputs: RecipeInputs, selector: Selector, cell: Cell, nth: int) -> SelectNode:
    """The selection of a cell's nth adaptation; `random` alone draws anew for each."""
    entry = inputs.recipe.taught(selector, cell.task)
    blind, random = _blind(selector), selector.name == RANDOM
    stored = inputs.first() if random and blind else _taught(inputs, selector, cell)
    drawn = nth if random else 0
    plan = select_plan(inputs.recipe, selector, cell, entry, drawn)
    scores = fingerprints.step(
        "score",
        plan=fingerprints.scoring(plan, inputs.encoders, inputs.files),
        pile=inputs.pile,
        target="" if blind else stored.texts,
    )
    key = f"{scores}-{fingerprints.step('choose', plan=dataclasses.asdict(plan.choose))}"
    words = _words(dataclasses.replace(cell, selector=selector.way, weights="off", adapter=""))
    label = f"{words} for {_named(stored)}{_nth(drawn)}"
    target = inputs.folder.texts(stored.key, "train")
    return SelectNode(key, scores, plan, target, fingerprints.sampled(plan), label)


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


def _companions(
    inputs: RecipeInputs, plan: EvaluatePlan, stored: StoredTask, work: StepGraph
) -> str:
    """The digest of a task's companions; none without augmentation."""
    if not plan.augment.kind:
        return ""
    how = fingerprints.augmenting(plan.augment, inputs.models, plan.tune.device)
    key = fingerprints.step("augment", plan=how, examples=stored.learned, seed=inputs.recipe.seed)
    work.companions[key] = AugmentNode(key, plan.augment, inputs.folder.task(stored.key))
    return key


def _tuning(
    inputs: RecipeInputs,
    plan: EvaluatePlan,
    cell: Cell,
    adapted: Sequence[str],
    extra: str,
    nth: int,
) -> TuneNode:
    """The nth fine-tuning of a cell."""
    stored = inputs.tasks[cell.task, cell.size]
    parent = adapted[nth % len(adapted)] if adapted else ""
    key = fingerprints.step(
        "tune",
        plan=fingerprints.tuning(plan, stored.kind, adapter=bool(cell.adapter)),
        companions=extra,
        task=stored.key,
        weights=parent or inputs.models[cell.model],
    )
    seed = inputs.recipe.seed + nth
    place = str(inputs.folder.models / parent) if parent else cell.model
    plan = dataclasses.replace(plan, model=dataclasses.replace(plan.model, name=place))
    task, out = inputs.folder.task(stored.key), inputs.folder.outcome(key, seed)
    return TuneNode(key, seed, plan, task, parent, extra, out)
