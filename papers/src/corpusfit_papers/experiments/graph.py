"""Builds the step graph of a recipe: every step that its cells need, once."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from corpusfit import EvaluatePlan
from corpusfit.contracts import AnsweredTaskType, bad_setting
from corpusfit.core.artifacts import names_in
from corpusfit.evaluation.task import Outcome
from corpusfit.evaluation.tasks import load
from corpusfit.training.plan import TASK
from corpusfit_papers.experiments import fingerprints
from corpusfit_papers.experiments.config import (
    BASE,
    COMPOSE,
    GENERAL,
    ORACLE,
    RANDOM,
    TRANSLATION,
    Selector,
)
from corpusfit_papers.experiments.folder import RecipeFolder
from corpusfit_papers.experiments.grid import (
    Cell,
    adapt_plan,
    augmentation_of,
    columns_of,
    grid,
    select_plan,
    tune_plan,
)
from corpusfit_papers.experiments.inputs import RecipeInputs, StoredTask
from corpusfit_papers.experiments.steps import Adapt, Augment, Compose, Select, Step, Tune


@dataclass
class StepGraph:
    """All steps of a recipe, by digest, and the fine-tunings of each cell."""

    cells: dict[Cell, list[Tune]] = field(default_factory=dict)
    # by task and size, the fine-tunings of the search with their settings, in order
    searches: dict[tuple[str, int], list[tuple[dict[str, int], Tune]]] = field(default_factory=dict)
    selections: dict[str, Select | Compose] = field(default_factory=dict)
    adaptations: dict[str, Adapt] = field(default_factory=dict)
    augmentations: dict[str, Augment] = field(default_factory=dict)

    @property
    def phases(self) -> dict[str, Mapping[str, Step]]:
        """All steps in the order in which they run; a step needs those of earlier phases."""
        searched = [tuning for settings in self.searches.values() for _, tuning in settings]
        tunings = [*searched, *(tuning for steps in self.cells.values() for tuning in steps)]
        return {
            "selections": self.selections,
            "adaptations": self.adaptations,
            "companions": self.augmentations,
            "fine-tunings": {tuning.name: tuning for tuning in tunings},
        }

    def pending(self, folder: RecipeFolder, cells: Path | None = None) -> dict[str, list[Step]]:
        """By phase the missing outcomes, and the missing steps that they depend on."""
        # A selection or a model that was deleted is made again only if a pending step needs it.
        # What `cells` has is not pending.
        scored = names_in(folder.scores)
        if cells is not None:
            scored |= names_in(RecipeFolder(cells).scores)
        *before, tunings = self.phases.items()
        left: dict[str, list[Step]] = {
            tunings[0]: [t for t in tunings[1].values() if f"{t.name}.json" not in scored]
        }
        for phase, steps in reversed(before):
            needed = {key for later in left.values() for step in later for key in step.needs}
            left[phase] = [s for k, s in steps.items() if k in needed and not s.finished(folder)]
        return dict(reversed(left.items()))


def build_graph(inputs: RecipeInputs) -> StepGraph:
    """The steps of all cells, each once."""
    # A step's digest covers everything that can change its result, so cells share steps, and a
    # changed recipe reuses finished ones. Tasks, corpus and models count by content.
    # Reference: TADPOLE, sections 4.1 and 4.2; mDAPT, section 5.2 for the controls.
    sizes: dict[str, list[int]] = {}
    for name, size in inputs.tasks:
        sizes.setdefault(name, []).append(size)
    selectors = {s.name: s for s in inputs.recipe.selectors}
    graph = StepGraph()
    for name, size in inputs.tasks:
        if inputs.runs(name):
            graph.searches[name, size] = _search_steps(inputs, name, size)
    cells = [cell for cell in grid(inputs.recipe, sizes) if inputs.runs(cell.task)]
    for cell, column in columns_of(cells).items():
        stored = inputs.tasks[cell.task, cell.size]
        selector = selectors[cell.selector]
        adapted = []
        if selector.strategy != BASE:
            for number in range(inputs.recipe.adaptations):
                step = _adaptation(inputs, selector, cell, number, graph)
                graph.adaptations.setdefault(step.key, step)
                adapted.append(step.key)
        plan = tune_plan(inputs.recipe, selector, cell, inputs.recipe.task(cell.task))
        search = inputs.recipe.search
        if search is not None and search.covers(cell.task):
            # until the search is finished, its first setting is a placeholder
            settings = inputs.found.get((cell.task, cell.size), search.settings()[0])
            plan = plan.with_values({"finetune": settings})
        extra = ""
        if cell.augment:
            augmentation = augmentation_of(inputs.recipe, cell.augment)
            extra = fingerprints.step(
                "augment",
                plan=fingerprints.augmenting(augmentation, inputs.models, plan.finetune.device),
                examples=stored.learned,
                seed=inputs.recipe.seed,
            )
            graph.augmentations[extra] = Augment(
                extra,
                cell.augment,
                augmentation,
                inputs.folder.task(stored.key),
                inputs.recipe.seed,
                inputs.recipe.evaluate.finetune.device,
            )
        number = inputs.recipe.seeds
        # a task without training is evaluated once for each adapted model
        if isinstance(load(stored.kind), AnsweredTaskType):
            number = inputs.recipe.adaptations
        graph.cells[cell] = [
            _fine_tuning(inputs, plan, cell, f"{column} for {cell.task}", adapted, extra, k)
            for k in range(number)
        ]
    return graph


def _search_steps(inputs: RecipeInputs, task: str, size: int) -> list[tuple[dict[str, int], Tune]]:
    """The fine-tunings of the search for a task, with their settings; none without a search."""
    # They use the recipe's first seed, so the table reuses the one with the best settings.
    recipe = inputs.recipe
    search = inputs.recipe.search
    if search is None or not search.covers(task):
        return []
    selector = next(s for s in recipe.selectors if s.name == search.selector)
    cell = Cell(task, size, recipe.models[0], selector.name, None, "off", "", "")
    plan = tune_plan(recipe, selector, cell, recipe.task(task))
    searched = []
    for settings in search.settings():
        cell_plan = plan.with_values({"finetune": settings})
        label = f"search for {task}, {settings}"
        searched.append((settings, _fine_tuning(inputs, cell_plan, cell, label, [], "", 0)))
    return searched


def with_found(inputs: RecipeInputs) -> RecipeInputs:
    """The inputs with the settings of every search that is finished: the best on dev."""
    best = {}
    for key, stored in inputs.tasks.items():
        searched = _search_steps(inputs, *key)
        if searched and all(tuning.out.exists() for _, tuning in searched):
            scores = [
                Outcome.read(tuning.out).scores["dev"][stored.metric] for _, tuning in searched
            ]
            best[key] = searched[scores.index(max(scores))][0]
    return dataclasses.replace(inputs, found=best)


def _adaptation(
    inputs: RecipeInputs, selector: Selector, cell: Cell, number: int, graph: StepGraph
) -> Adapt:
    """One adaptation of a cell; adds its selection to the graph."""
    # `general`, `random` and compositions do not depend on the task, so all tasks share their
    # models, which leave out the dev and test texts of every task. A control trains on another
    # task's selection without the dev and test texts of both tasks.
    stored = inputs.tasks[cell.task, cell.size]
    recipe = inputs.recipe
    training_task = _training_task(inputs, selector, cell)
    dev = [next(t for t in inputs.tasks.values() if t.name == name) for name in selector.dev]
    if without := [task.name for task in dev if not task.splits[0]]:
        raise bad_setting(f"selector.{selector.name}.dev", "tasks with a dev split", without[0])
    # The task's texts decide on the model if they pick the best weights or are trained on.
    # Otherwise, or if dev splits take their place, they must not be part of the digest.
    best = selector.adapt.train.keep == "best"
    uses_train = not dev and (best or selector.trains_on_task)
    measured = [(task, "dev") for task in dev] or [(training_task, "train")] * uses_train
    shared = not uses_train and bool(
        selector.name == GENERAL
        or (selector.name == RANDOM and _ignores_task(selector))
        or selector.strategy == COMPOSE
        or selector.sources
    )
    guard_tasks = list(inputs.tasks.values()) if shared else [stored, training_task, *dev]
    held_out = {} if recipe.keep_overlap else {t.judged: t for t in guard_tasks}
    data = (TASK,) if selector.strategy == TASK else recipe.corpus
    key = ""
    if selector.selects:
        selection = _selection(inputs, selector, cell, number)
        graph.selections.setdefault(selection.key, selection)
        data = (str(inputs.folder.selections / selection.key),)
        key = selection.key
    if selector.strategy == COMPOSE:
        file = selector.composition_for(recipe.training_task(selector, cell.task))
        composition, decides = inputs.compositions[file]
        key = fingerprints.step("compose", plan=decides)
        label = f"{composition.composition} of {Path(file).stem}"
        graph.selections.setdefault(key, Compose(key, label, composition))
        data = (str(inputs.folder.selections / key / "composed"),)
    plan = adapt_plan(recipe, selector, cell, inputs.recipe.task(cell.task), number)
    identity = {
        "plan": fingerprints.adapting(plan),
        "model": inputs.models[selector.model_for(inputs.recipe.task(cell.task), cell.model)],
        "selection": key,
        "data": inputs.pile if selector.name == GENERAL else {},
        "texts": [t.judged for t in dev] if dev else training_task.texts if uses_train else "",
        "guard": sorted(held_out),
    }
    return Adapt(
        fingerprints.step("adapt", **identity),
        f"{_model_text(cell)} for {'all tasks' if shared else _task_text(stored)}"
        f"{f' ({selector.of} for {_task_text(training_task)})' if selector.of else ''}"
        f"{_ordinal(number)}",
        plan,
        key,
        data,
        tuple(
            f"pair:{inputs.folder.pairs(task.key, split)}"
            if task.kind == TRANSLATION
            else str(inputs.folder.texts(task.key, split))
            for task, split in measured
        ),
        tuple(
            str(inputs.folder.texts(task.key, split))
            for task in held_out.values()
            for split in ("dev", "test")
        ),
        shared,
    )


def _training_task(inputs: RecipeInputs, selector: Selector, cell: Cell) -> StoredTask:
    """The task that a cell's model is adapted on, in the cell's size or else its largest."""
    name = inputs.recipe.training_task(selector, cell.task).name
    sizes = [size for task, size in inputs.tasks if task == name]
    return inputs.tasks[name, cell.size if cell.size in sizes else sizes[-1]]


def _selection(inputs: RecipeInputs, selector: Selector, cell: Cell, number: int) -> Select:
    """The selection of one adaptation of a cell; only `random` has one for each adaptation."""
    entry = inputs.recipe.training_task(selector, cell.task)
    ignores_task = _ignores_task(selector)
    random = selector.name == RANDOM
    stored = _training_task(inputs, selector, cell)
    if (random and ignores_task) or selector.sources:
        stored = inputs.first()
    random_number = number if random else 0
    plan = select_plan(inputs.recipe, selector, cell, entry, random_number)
    scores = fingerprints.step(
        "score",
        plan=fingerprints.scoring(plan, inputs.encoders, inputs.files),
        pile=inputs.pile,
        target="" if ignores_task else stored.target,
    )
    key = f"{scores}-{fingerprints.step('choose', plan=dataclasses.asdict(plan.choose))}"
    text = _model_text(
        dataclasses.replace(cell, selector=selector.strategy, weights="off", adapter="")
    )
    label = f"{text} for {_task_text(stored)}{_ordinal(random_number)}"
    target = inputs.folder.texts(stored.key, "train")
    return Select(key, label, scores, plan, target, inputs.recipe.corpus)


def _ignores_task(selector: Selector) -> bool:
    """Whether a selector reads no text of the task."""
    return selector.strategy in (RANDOM, ORACLE)


def _model_text(cell: Cell) -> str:
    amount = "" if cell.fraction is None else f"{cell.fraction:g}"
    weights = "" if cell.weights == "off" else cell.weights
    return " ".join(filter(None, (cell.selector, amount, weights, cell.adapter)))


def _task_text(stored: StoredTask) -> str:
    """A task's name, with its size unless that is all examples."""
    return f"{stored.name} of {stored.size}" if stored.size else stored.name


def _ordinal(number: int) -> str:
    """The number of an adaptation, after the first."""
    return f", number {number + 1}" if number else ""


def _fine_tuning(
    inputs: RecipeInputs,
    plan: EvaluatePlan,
    cell: Cell,
    label: str,
    adapted: Sequence[str],
    extra: str,
    number: int,
) -> Tune:
    stored = inputs.tasks[cell.task, cell.size]
    adapted_model = adapted[number % len(adapted)] if adapted else ""
    selector = next(s for s in inputs.recipe.selectors if s.name == cell.selector)
    base = selector.model_for(inputs.recipe.task(cell.task), cell.model)
    key = fingerprints.step(
        "tune",
        plan=fingerprints.tuning(plan, stored.kind, adapter=bool(cell.adapter)),
        companions=extra,
        task=stored.key,
        weights=adapted_model or inputs.models[base],
    )
    answers = isinstance(load(stored.kind), AnsweredTaskType) and not adapted
    seed = inputs.recipe.seed + (0 if answers else number)  # a model's answer has no seed
    model = str(inputs.folder.models / adapted_model) if adapted_model else base
    plan = dataclasses.replace(plan, model=dataclasses.replace(plan.model, name=model))
    task = inputs.folder.task(stored.key)
    out = inputs.folder.outcome(key, seed)
    return Tune(key, f"{label}, seed {seed}", seed, plan, task, adapted_model, extra, out)
