"""What a recipe's steps are, and what they are made of, as plain data.

What: stored tasks, selections, adaptations, companions and fine-tunings, each under a digest.
Why: they travel to workers, and a step of one kind names those of another by digest alone.
Trade-off: none of note.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from corpusfit.adapt.plan import AdaptPlan
from corpusfit.evaluate.plan import AugmentPlan, EvaluatePlan
from corpusfit.manifest import RecipeFolder
from corpusfit.pipeline.recipes.config import Recipe
from corpusfit.pipeline.recipes.grid import Cell
from corpusfit.plan import EmbedPlan, Plan


@dataclass(frozen=True)
class StoredTask:
    """A task of some size, in the recipe's folder.

    Attributes:
        name: as the recipe names it.
        size: training examples as the recipe asks for them; 0 for all.
        examples: how many that is, where the task has fewer.
        kind: `classification` or `tagging`.
        metric: what is compared.
        key: digest of all of it.
        texts: digest of its training texts.
        learned: digest of its training examples with their labels.
        judged: digest of the texts of dev and test.
        splits: examples of dev and of test.
        copies: test examples whose text is in train too.
        notes: what the user should know of how it was read.
    """

    name: str
    size: int
    examples: int
    kind: str
    metric: str
    key: str
    texts: str
    learned: str
    judged: str
    splits: tuple[int, int] = (0, 0)
    copies: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class SelectNode:
    """One selection.

    Attributes:
        key: its digest: that of its scores, and that of its amount.
        scoring: the first of both: equal for those that share their scores.
        plan: of the selection.
        target: file of the training texts.
        sampled: whether it keeps a sample of the pile.
        label: in words.
    """

    key: str
    scoring: str
    plan: Plan
    target: Path
    sampled: bool
    label: str


@dataclass(frozen=True)
class AdaptNode:
    """One adapted model.

    Attributes:
        key: its digest.
        plan: of the adaptation.
        selection: digest of its selection, if it has one.
        data: what it is trained on.
        task: texts to measure on, where the data does not bring them.
        guard: files of texts that may not be trained on: dev and test.
        shared: whether it is one model for all tasks.
        label: in words.
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
    """Companions of one task's training examples: their digest, plan and task."""

    key: str
    plan: AugmentPlan
    task: Path


@dataclass(frozen=True)
class TuneNode:
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

    @property
    def name(self) -> str:
        """The digest with the seed."""
        return f"{self.key}-{self.seed}"


@dataclass
class StepGraph:
    """All steps of a recipe, by digest, and which of them a cell needs."""

    cells: dict[Cell, list[TuneNode]] = field(default_factory=dict)
    selections: dict[str, SelectNode] = field(default_factory=dict)
    adaptations: dict[str, AdaptNode] = field(default_factory=dict)
    companions: dict[str, AugmentNode] = field(default_factory=dict)


@dataclass(frozen=True)
class RecipeInputs:
    """What steps are made of.

    Attributes:
        recipe: what is asked for.
        folder: where it is made.
        tasks: those stored, by name and size.
        pile: fingerprints of the pile's sources, by name.
        models: fingerprints of the models, by name; those that translate among them.
        encoders: fingerprints of what makes vectors, by plan.
        files: fingerprints of the files that methods name, by path.
    """

    recipe: Recipe
    folder: RecipeFolder
    tasks: Mapping[tuple[str, int], StoredTask]
    pile: Mapping[str, str]
    models: Mapping[str, str]
    encoders: Mapping[EmbedPlan, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)

    def first(self) -> StoredTask:
        """The task that stands for all where it does not matter which."""
        return next(iter(self.tasks.values()))
