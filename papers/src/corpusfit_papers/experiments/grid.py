"""The cells of a recipe, the names of their columns, and the plans of their steps."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from corpusfit import AdaptPlan, EvaluatePlan, Plan
from corpusfit.contracts import bad_setting
from corpusfit.embed.folders import require_extra
from corpusfit.evaluation.plan import HeadPlan
from corpusfit.training.plan import AdapterPlan
from corpusfit_papers.augmenting import BACKTRANSLATE, Augmentation
from corpusfit_papers.experiments.config import (
    BASE,
    INIT,
    ORACLE,
    Recipe,
    RecipeTask,
    Selector,
    in_table,
)
from corpusfit_papers.experiments.fingerprints import method_of

RESERVED = ("dataset", "metric")
"""Column names that every table uses."""


@dataclass(frozen=True)
class Cell:
    """One cell of the table: a mean over seeds."""

    task: str
    size: int  # number of training examples that the recipe asks for; 0 for all
    model: str  # base model, which is adapted unless the selector is `base`
    selector: str
    # None for selectors without a selection and for continuous weights, which use the whole corpus
    # (TADPOLE, appendix E)
    fraction: float | None
    weights: str
    adapter: str  # empty for all weights
    augment: str  # empty for none

    @property
    def row(self) -> tuple[str, int, str]:
        """The row: task, size and model; cells are compared within it."""
        return self.task, self.size, self.model


def columns_of(cells: Iterable[Cell]) -> dict[Cell, str]:
    """The column names of cells; with the fraction where a selector has several."""
    all_cells = list(cells)
    amounts: dict[str, set[float]] = {}
    for cell in all_cells:
        if cell.fraction is not None:
            amounts.setdefault(cell.selector, set()).add(cell.fraction)
    names = {}
    for cell in all_cells:
        several = cell.fraction is not None and len(amounts[cell.selector]) > 1
        weights = "" if cell.weights == "off" else cell.weights
        amount = f"{cell.fraction:g}" if several else ""
        parts = filter(None, (cell.selector, amount, weights, cell.adapter))
        names[cell] = " ".join(parts) + (f" + {cell.augment}" if cell.augment else "")
    return names


def grid(recipe: Recipe, sizes: Mapping[str, Sequence[int]]) -> list[Cell]:
    """Every cell, once, in the order of the tables."""
    cells: dict[Cell, None] = {}
    for task in recipe.tasks:
        for size in sizes[task.name]:
            for model in recipe.models:
                for selector in recipe.selectors:
                    if not selector.has_model(task):
                        continue
                    for choice in _choices(selector):
                        cells[Cell(task.name, size, model, selector.name, *choice)] = None
    return list(cells)


def _choices(selector: Selector) -> Iterator[tuple[float | None, str, str, str]]:
    """Fraction, weights, adapter and augmentation of a selector's columns."""
    for weights in selector.weights if selector.has_scores else ("off",):
        has_fraction = selector.has_scores and weights not in ("lambda", "resample")
        for fraction in selector.fractions if has_fraction else (None,):
            for adapter in selector.adapters:
                for augment in selector.augment:
                    yield fraction, weights, adapter, augment


def check_plans(recipe: Recipe) -> None:
    """Check the plans of every cell."""
    require_extra("corpusfit run", "train")
    selectors = {s.name: s for s in recipe.selectors}
    tasks = {t.name: t for t in recipe.tasks}
    cells = grid(recipe, {t.name: (0,) for t in recipe.tasks})
    _require_distinct_names(recipe, cells)
    for cell in cells:
        selector = selectors[cell.selector]
        if selector.selects:
            training_task = recipe.training_task(selector, cell.task)
            with in_table("select"):
                method_of(select_plan(recipe, selector, cell, training_task, 0).check())
        if selector.strategy != BASE:
            with in_table("adapt"):
                adapt_plan(recipe, selector, cell, tasks[cell.task], 0).check()
        elif cell.adapter == "lora" and selector.adapt.adapter.alpha != AdapterPlan().alpha:
            allowed = f"{AdapterPlan().alpha} for a base that is fine-tuned with lora"
            raise bad_setting("adapt.adapter.alpha", allowed, selector.adapt.adapter.alpha)
        with in_table("evaluate"):
            tune_plan(recipe, selector, cell, tasks[cell.task]).check()
        if cell.augment:
            with in_table("augmentation"):
                augmentation_of(recipe, cell.augment)


def _require_distinct_names(recipe: Recipe, cells: Sequence[Cell]) -> None:
    """Raise `UsageError` for two columns, or two models, of one name."""
    names = columns_of(cells)
    first: dict[tuple[tuple[str, int, str], str], Cell] = {}
    for cell, name in names.items():
        if name in RESERVED:
            allowed = f"names other than {', '.join(RESERVED)}"
            raise bad_setting("selectors", allowed, name, "Rename the selector.")
        other = first.setdefault((cell.row, name), cell)
        if other != cell:
            allowed = "selectors whose columns have different names"
            raise bad_setting("selectors", allowed, f"{name} twice", "Rename one of the selectors.")
    model_names = [Path(model).name for model in recipe.models]  # those in names of rows
    if len(set(model_names)) < len(model_names):
        cure = "Rename a folder, as the tables show only its name."
        raise bad_setting("models", "folders of different names", ", ".join(recipe.models), cure)


def select_plan(
    recipe: Recipe, selector: Selector, cell: Cell, task: RecipeTask, number: int
) -> Plan:
    """The plan of a cell's selection for a task; `number` is added to the random seed."""
    plan = selector.select
    choose = selector.select.choose
    if selector.strategy == ORACLE:
        options = {"domain": ",".join(selector.sources or task.oracle)}
        plan = dataclasses.replace(plan, method=type(plan.method)(ORACLE, options))
        # an oracle scores 1 or 0, so this threshold selects exactly the domain's documents
        choose = dataclasses.replace(choose, threshold=0.5)
    elif cell.fraction is None:
        choose = dataclasses.replace(choose, policy="continuous")
    elif choose.threshold is None:
        choose = dataclasses.replace(choose, fraction=cell.fraction)
    return dataclasses.replace(plan, choose=choose, seed=recipe.seed + number)


def adapt_plan(
    recipe: Recipe, selector: Selector, cell: Cell, task: RecipeTask, number: int
) -> AdaptPlan:
    """The plan of one adaptation of a cell; `number` is added to the random seed."""
    plan = selector.adapt
    name = selector.model_for(task, cell.model)
    init = name.removeprefix(INIT) if name.startswith(INIT) else ""
    if plan.train.keep == "auto":  # a table shows what a training does, even if it harms
        plan = plan.with_value("train.keep", "last")
    return dataclasses.replace(
        plan,
        model=dataclasses.replace(plan.model, name="" if init else name, init=init),
        weights=dataclasses.replace(plan.weights, policy=cell.weights),
        adapter=dataclasses.replace(plan.adapter, kind=cell.adapter),
        seed=recipe.seed + number,
    )


def task_plan(recipe: Recipe, task: RecipeTask) -> EvaluatePlan:
    """The plan of all fine-tunings on a task."""
    plan = recipe.evaluate.with_values(task.evaluate)
    metric = dataclasses.replace(plan.task, metric=task.metric)
    return dataclasses.replace(plan, task=metric, seed=recipe.seed)


def tune_plan(recipe: Recipe, selector: Selector, cell: Cell, task: RecipeTask) -> EvaluatePlan:
    """The plan of a cell's fine-tunings.

    An adapted model has its adapter already; the base gets a new one of the same size.
    """
    plan = task_plan(recipe, task)
    sizes = selector.adapt.adapter
    adapter = cell.adapter if selector.strategy == BASE else ""
    model = HeadPlan(adapter=adapter, rank=sizes.rank)
    return dataclasses.replace(plan, model=model)


def augmentation_of(recipe: Recipe, kind: str) -> Augmentation:
    """How a cell's training examples are augmented."""
    without = () if kind == BACKTRANSLATE else ("mt", "mt_back")  # the only one with models
    return Augmentation(
        kind, **{name: v for name, v in recipe.augmentation.items() if name not in without}
    )
