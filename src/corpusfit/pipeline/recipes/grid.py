"""The cells of a recipe, and the plans that they are made by.

What: the grid of tasks, models and columns, each cell once, under the name of its column.
Why: what a selector leaves no choice of (an amount, without a selection) may not multiply its
cells.
Trade-off: continuous weights go over the whole pile, so their cells have no fraction.
Reference: TADPOLE, sections 4.1 and 4.2; appendix E for weights.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from corpusfit.adapt.plan import AdapterPlan, AdaptPlan
from corpusfit.errors import MissingDependencyError, bad_setting
from corpusfit.evaluate.plan import AugmentPlan, EvaluatePlan, HeadPlan
from corpusfit.pipeline.recipes.config import BASE, ORACLE, Recipe, RecipeTask, Selector
from corpusfit.pipeline.recipes.fingerprints import methods_of
from corpusfit.plan import Plan

RESERVED = ("dataset", "metric")
"""Names of columns that every table has."""


@dataclass(frozen=True)
class Cell:
    """One number of the table, with its spread.

    Attributes:
        task: its name.
        size: training examples, as the recipe asks for them; 0 for all.
        model: what is adapted or, with `base`, fine-tuned as it is.
        selector: how the text is selected.
        fraction: of the pile; none where the selector or the weights leave no choice.
        weights: what relevance weights do in training.
        adapter: what is trained.
        augment: companions of the training examples.
    """

    task: str
    size: int
    model: str
    selector: str
    fraction: float | None
    weights: str
    adapter: str
    augment: str

    @property
    def row(self) -> tuple[str, int, str]:
        """What it is compared within."""
        return self.task, self.size, self.model


def columns_of(cells: Iterable[Cell]) -> dict[Cell, str]:
    """The names of cells' columns; fractions are named where a selector has several."""
    found = list(cells)
    amounts: dict[str, set[float]] = {}
    for cell in found:
        if cell.fraction is not None:
            amounts.setdefault(cell.selector, set()).add(cell.fraction)
    names = {}
    for cell in found:
        several = cell.fraction is not None and len(amounts[cell.selector]) > 1
        weights = "" if cell.weights == "off" else cell.weights
        amount = f"{cell.fraction:g}" if several else ""
        parts = filter(None, (cell.selector, amount, weights, cell.adapter))
        names[cell] = " ".join(parts) + (f" + {cell.augment}" if cell.augment else "")
    return names


def grid(recipe: Recipe, sizes: Mapping[str, Sequence[int]]) -> list[Cell]:
    """Every cell, once, in the tables' order.

    Args:
        recipe: what is asked for.
        sizes: of each task, the numbers of training examples that it has; 0 for all.
    """
    found: dict[Cell, None] = {}
    for task in recipe.tasks:
        for size in sizes[task.name]:
            for model in recipe.models:
                for selector in recipe.selectors:
                    for choice in _choices(selector):
                        found[Cell(task.name, size, model, selector.name, *choice)] = None
    return list(found)


def _choices(selector: Selector) -> Iterator[tuple[float | None, str, str, str]]:
    """Fraction, weights, adapter and augmentation of a selector's columns."""
    for weights in selector.weights if selector.graded else ("off",):
        chosen = selector.graded and weights not in ("lambda", "resample")
        for fraction in selector.fractions if chosen else (None,):
            for adapter in selector.adapters:
                for augment in selector.augment:
                    yield fraction, weights, adapter, augment


def check_plans(recipe: Recipe) -> None:
    """Raise `UsageError` for settings that some cell could not be made with.

    Raises:
        MissingDependencyError: what models are trained and judged with is not installed.
    """
    _require_train()
    selectors = {s.name: s for s in recipe.selectors}
    tasks = {t.name: t for t in recipe.tasks}
    cells = grid(recipe, {t.name: (0,) for t in recipe.tasks})
    _require_apart(recipe, cells)
    for cell in cells:
        selector = selectors[cell.selector]
        if selector.selects:
            taught = recipe.taught(selector, cell.task)
            plan = select_plan(recipe, selector, cell, taught, 0).check()
            methods_of(plan)
        if selector.name != BASE:
            adapt_plan(recipe, selector, cell, 0).check()
        elif cell.adapter == "lora" and selector.adapt.adapter.alpha != AdapterPlan().alpha:
            allowed = f"{AdapterPlan().alpha} where the base is fine-tuned with lora"
            raise bad_setting("adapt.adapter.alpha", allowed, selector.adapt.adapter.alpha)
        tune_plan(recipe, selector, cell, tasks[cell.task]).check()


def _require_train() -> None:
    """Raise `MissingDependencyError` unless models can be trained and judged."""
    for needed in ("torch", "transformers", "accelerate", "scipy", "seqeval"):
        if find_spec(needed) is None:
            raise MissingDependencyError("corpusfit run", "train")


def _require_apart(recipe: Recipe, cells: Sequence[Cell]) -> None:
    """Raise `UsageError` for two columns, or rows, that would stand under one name."""
    names = columns_of(cells)
    found: dict[tuple[tuple[str, int, str], str], Cell] = {}
    for cell, name in names.items():
        if name in RESERVED:
            raise bad_setting("selectors", f"named otherwise than {', '.join(RESERVED)}", name)
        twin = found.setdefault((cell.row, name), cell)
        if twin != cell:
            cure = "Name one of the selectors otherwise."
            raise bad_setting(
                "selectors", "such that each column has a name", f"{name} twice", cure
            )
    called = [Path(model).name for model in recipe.models]
    if len(set(called)) < len(called):
        cure = "The tables tell them apart by it: rename a folder."
        raise bad_setting("models", "of different names", ", ".join(recipe.models), cure)


def select_plan(recipe: Recipe, selector: Selector, cell: Cell, task: RecipeTask, nth: int) -> Plan:
    """The plan of a cell's selection for a task; one that draws, its nth draw."""
    plan, choose = selector.select, selector.select.choose
    if selector.way == ORACLE:
        options = {"domain": ",".join(task.oracle)}
        plan = dataclasses.replace(plan, method=type(plan.method)(ORACLE, options))
        choose = dataclasses.replace(choose, threshold=0.5)  # all of the domain, and nothing else
    elif cell.fraction is None:
        choose = dataclasses.replace(choose, policy="continuous")
    else:
        choose = dataclasses.replace(choose, fraction=cell.fraction)
    return dataclasses.replace(plan, choose=choose, seed=recipe.seed + nth)


def adapt_plan(recipe: Recipe, selector: Selector, cell: Cell, nth: int) -> AdaptPlan:
    """The plan of a cell's nth adaptation."""
    plan = selector.adapt
    return dataclasses.replace(
        plan,
        model=dataclasses.replace(plan.model, name=cell.model),
        weigh=dataclasses.replace(plan.weigh, policy=cell.weights),
        adapter=dataclasses.replace(plan.adapter, kind=cell.adapter),
        seed=recipe.seed + nth,
    )


def task_plan(recipe: Recipe, task: RecipeTask) -> EvaluatePlan:
    """The plan of all fine-tunings on a task."""
    plan = recipe.evaluate
    metric = dataclasses.replace(plan.task, metric=task.metric)
    return dataclasses.replace(plan, task=metric, seed=recipe.seed)


def tune_plan(recipe: Recipe, selector: Selector, cell: Cell, task: RecipeTask) -> EvaluatePlan:
    """The plan of a cell's fine-tunings.

    An adapted model brings its adapter along; that of the base is as wide as those.
    """
    plan, sizes = task_plan(recipe, task), selector.adapt.adapter
    adapter = cell.adapter if cell.selector == BASE else ""
    model = HeadPlan(adapter=adapter, reduction=sizes.reduction, rank=sizes.rank)
    return dataclasses.replace(
        plan,
        model=model,
        augment=_augment_plan(plan.augment, cell.augment),
    )


def _augment_plan(plan: AugmentPlan, kind: str) -> AugmentPlan:
    """The plan of a cell's companions; models are for translation only."""
    if kind == "backtranslate":
        return dataclasses.replace(plan, kind=kind)
    return dataclasses.replace(plan, kind=kind, mt="", mt_back="")
