"""The steps of a recipe and their inputs, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from corpusfit.core.plan import EmbedPlan, Plan
from corpusfit.evaluation.plan import AugmentPlan, EvaluatePlan
from corpusfit.experiments.config import Recipe
from corpusfit.experiments.folder import RecipeFolder
from corpusfit.experiments.grid import Cell
from corpusfit.mixing.plan import CompositionPlan
from corpusfit.training.plan import AdaptPlan


@dataclass(frozen=True)
class StoredTask:
    """A task of some size, in the recipe's folder.

    Attributes:
        name: its name in the recipe.
        size: number of training examples that the recipe asks for; 0 for all.
        examples: number of training examples that it has.
        kind: kind of the task.
        metric: the metric that is compared.
        key: digest of the whole task.
        texts: digest of its training texts.
        target: digest of their scored side, for selections.
        learned: digest of its training examples with their labels.
        judged: digest of its dev and test texts.
        splits: numbers of dev and test examples.
        copies: test examples whose text is in train too.
        notes: warnings from reading it.
    """

    name: str
    size: int
    examples: int
    kind: str
    metric: str
    key: str
    texts: str
    target: str
    learned: str
    judged: str
    splits: tuple[int, int] = (0, 0)
    copies: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class SelectNode:
    """One selection.

    Attributes:
        key: digest of its scores, and digest of its amount.
        scoring: the first of both; selections that share scores have the same.
        plan: plan of the selection.
        target: file with the training texts.
        sampled: whether it keeps a sample of the corpus.
        label: description for the user.
    """

    key: str
    scoring: str
    plan: Plan
    target: Path
    sampled: bool
    label: str


@dataclass(frozen=True)
class ComposeNode:
    """One composition: its digest, its recipe and its description for the user."""

    key: str
    plan: CompositionPlan
    label: str


@dataclass(frozen=True)
class AdaptNode:
    """One adapted model.

    Attributes:
        plan: plan of the adaptation.
        selection: digest of its selection or composition; empty for none.
        data: inputs that it trains on.
        task: files with the task's texts, where the data has no target.
        guard: files with the dev and test texts to leave out.
        shared: whether all tasks share the model.
        label: description for the user.
    """

    key: str
    plan: AdaptPlan
    selection: str
    data: tuple[str, ...]
    task: tuple[str, ...]
    guard: tuple[str, ...]
    shared: bool
    label: str


@dataclass(frozen=True)
class AugmentNode:
    """Augmentation of one task's training examples: digest, plan and task file."""

    key: str
    plan: AugmentPlan
    task: Path


@dataclass(frozen=True)
class TuneNode:
    """One fine-tuning.

    Attributes:
        key: its digest; with the seed the name of its file.
        seed: random seed of the head, the order and dropout.
        plan: plan of the fine-tuning, with its model.
        task: file of the task.
        adapted: digest of the adapted model; empty for the base.
        extra: digest of the augmentation; empty for none.
        out: file of the outcome.
    """

    key: str
    seed: int
    plan: EvaluatePlan
    task: Path
    adapted: str
    extra: str
    out: Path

    @property
    def name(self) -> str:
        """The digest with the seed."""
        return f"{self.key}-{self.seed}"


@dataclass
class StepGraph:
    """All steps of a recipe, by digest, and the fine-tunings of each cell.

    Attributes:
        searches: by task and size, the fine-tunings of the search with their settings, in order.
    """

    cells: dict[Cell, list[TuneNode]] = field(default_factory=dict)
    searches: dict[tuple[str, int], list[tuple[dict[str, int], TuneNode]]] = field(
        default_factory=dict
    )
    selections: dict[str, SelectNode | ComposeNode] = field(default_factory=dict)
    adaptations: dict[str, AdaptNode] = field(default_factory=dict)
    augmentations: dict[str, AugmentNode] = field(default_factory=dict)


@dataclass(frozen=True)
class RecipeInputs:
    """Everything that steps depend on, by content.

    Attributes:
        tasks: stored tasks, by name and size.
        corpus: fingerprints of the corpus's sources, by name.
        models: fingerprints of the models, by name, with those of translation models.
        encoders: fingerprints of the encoders, by plan.
        files: fingerprints of the files that methods read, by path.
        compositions: plans of compositions with what decides their text, by recipe.
        found: settings that the search found, by task and size.
        only: names of the tasks whose cells are run; empty for all. No digest depends on it.
    """

    recipe: Recipe
    folder: RecipeFolder
    tasks: Mapping[tuple[str, int], StoredTask]
    pile: Mapping[str, str]
    models: Mapping[str, str]
    encoders: Mapping[EmbedPlan, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    compositions: Mapping[str, tuple[CompositionPlan, str]] = field(default_factory=dict)
    found: Mapping[tuple[str, int], dict[str, int]] = field(default_factory=dict)
    only: tuple[str, ...] = ()

    def runs(self, task: str) -> bool:
        """Whether the cells of a task are run."""
        return not self.only or task in self.only

    def first(self) -> StoredTask:
        """The first task, for selections that do not depend on the task."""
        return next(iter(self.tasks.values()))
