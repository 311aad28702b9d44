"""A recipe's settings: tasks, selectors, training variants and seeds, with their checks."""

from __future__ import annotations

import contextlib
import difflib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from corpusfit import AdaptPlan, CorpusfitError, EvaluatePlan, Plan
from corpusfit.contracts import UsageError, bad_setting
from corpusfit.core.manifest import versions
from corpusfit.core.settings import one_of, positive
from corpusfit.evaluation.plan import check_metric
from corpusfit.training.plan import TASK, WEIGHTS, AdapterPlan
from corpusfit_papers.augmenting import BACKTRANSLATE, TFIDF

BASE = "base"
GENERAL = "general"
RANDOM = "random"
ORACLE = "oracle"
COMPOSE = "compose"
TRANSLATION = "translation"
"""The kind of task whose label is a text, the translation."""
INIT = "init:"  # prefix of an untrained model, initialized anew for every adaptation
WITHOUT_SELECTION = (BASE, GENERAL, TASK, COMPOSE)  # selectors without a selection from the corpus


@dataclass(frozen=True)
class RecipeTask:
    """One task of a recipe; `path` is in the form of `corpusfit evaluate --task`."""

    name: str
    path: str
    metric: str = "auto"  # the score that is compared; the default of the kind of task
    oracle: tuple[str, ...] = ()  # globs for names of the corpus's sources of its domain
    other: str = ""  # a task of another domain, for controls (mDAPT, 5.2)
    # by selector, the model or the recipe of the composition of its column for this task
    models: Mapping[str, str] = field(default_factory=dict)
    compose: Mapping[str, str] = field(default_factory=dict)
    evaluate: Mapping[str, Any] = field(default_factory=dict)  # settings of its fine-tunings alone

    def check(self) -> None:
        """Raise `UsageError` for a value that is not allowed."""
        for setting in ("name", "path"):
            if not getattr(self, setting):
                raise bad_setting(f"tasks.{setting}", "set for every task", "nothing")
        check_metric(f"tasks.metric of {self.name}", self.metric)


@dataclass(frozen=True)
class Search:
    """Settings of the fine-tuning that dev chooses for each task, with one model."""

    # Reference: mDAPT, section 4.2: the model of one language, and what it finds for all models.
    selector: str = BASE  # it is not adapted
    tasks: tuple[str, ...] = ()  # names of the tasks that are searched; empty for all
    batch: tuple[int, ...] = ()
    epochs: tuple[int, ...] = ()

    def covers(self, task: str) -> bool:
        """Whether a task is searched."""
        return not self.tasks or task in self.tasks

    def settings(self) -> list[dict[str, int]]:
        """Every combination, in order; the first wins a tie."""
        lists = {k: v for k, v in (("batch", self.batch), ("epochs", self.epochs)) if v}
        return [dict(zip(lists, v, strict=True)) for v in itertools.product(*lists.values())]


@dataclass(frozen=True)
class Selector:
    """A way to obtain a model: a baseline of TADPOLE's section 4.1, a method, or a variant."""

    # `base` (no adaptation), `general` (adapted on the corpus as it is), `task` (on the training
    # texts), `random`, `oracle` (the corpus's sources of the task's domain), a method, or
    # the name of a variant, of another model or of a composition
    name: str
    select: Plan  # the cell sets the amount and the weights
    adapt: AdaptPlan  # the cell sets the model, the weights and the adapter
    # one column for each of these
    fractions: tuple[float, ...]
    weights: tuple[str, ...]
    adapters: tuple[str, ...]  # empty for all weights
    augment: tuple[str, ...]
    of: str = ""  # of a control: the selector whose model for the task's `other` is used
    model: str = ""  # in place of the row's (mDAPT, Table 4)
    compose: str = ""  # recipe of the composition that it adapts on
    # globs for names of the corpus's sources; it adapts on these for every task, as a domain's
    # model that is tested on all domains (Aharoni and Goldberg 2020, Table 4)
    sources: tuple[str, ...] = ()
    # names of tasks whose dev split, in place of the row's training texts, decides on the best
    # weights of its adaptations in every row and on when to stop
    dev: tuple[str, ...] = ()
    plain: bool = False  # neither a method nor a composition: its model is not adapted

    @property
    def strategy(self) -> str:
        """The kind of selector: `base`, `compose`, its name, or for a control that of its `of`.

        Named sources are an `oracle` that is the same for every task.
        """
        if self.sources:
            return ORACLE
        if self.compose or self.plain:
            return COMPOSE if self.compose else BASE
        return self.of or self.name

    def model_for(self, task: RecipeTask, model: str) -> str:
        """The model that it adapts and fine-tunes for a task, in a row of `model`."""
        return task.models.get(self.of or self.name) or self.model or model

    def has_model(self, task: RecipeTask) -> bool:
        """Whether it has a cell for a task; a selector that only names models may have none."""
        return not self.plain or bool(self.model_for(task, ""))

    def composition_for(self, task: RecipeTask) -> str:
        """The recipe of the composition that it adapts on for a task."""
        return task.compose.get(self.of or self.name) or self.compose

    @property
    def selects(self) -> bool:
        """Whether it selects a part of the corpus."""
        return self.strategy not in WITHOUT_SELECTION

    @property
    def trains_on_task(self) -> bool:
        """Whether its models are trained on the task's texts, alone or in a second phase."""
        return self.strategy == TASK or self.adapt.then_task.on

    @property
    def has_scores(self) -> bool:
        """Whether its scores are graded, so that fractions and weights apply."""
        return self.selects and self.strategy != ORACLE

    def check(self) -> None:
        """Raise `UsageError` for a value that is not allowed."""
        for share in self.fractions:
            if not 0 < share <= 1:
                raise bad_setting("fractions", "in (0, 1]", share, "For a tenth, use 0.1.")
        for setting, allowed in (
            ("weights", WEIGHTS),
            ("augment", ("", TFIDF, BACKTRANSLATE)),
        ):
            for value in getattr(self, setting):
                one_of(setting, value, allowed)
        for kind in self.adapters:
            AdapterPlan(kind).check()
        self.adapt.objective.check()
        for setting in ("fractions", "weights", "adapters", "augment"):
            _require_distinct(f"{setting} of {self.name}", getattr(self, setting))
        train = self.adapt.train
        if self.strategy not in (BASE, TASK) and train.max_steps is None and train.epochs is None:
            needed = f"set for {self.name}, or adapt.train.epochs"
            cure = (
                "For the same number of steps of all models, put train.max_steps = 2000 in [adapt]."
            )
            raise bad_setting("adapt.train.max_steps", needed, "nothing", cure)
        if self.dev:
            _require_distinct(f"selector.{self.name}.dev", self.dev)
        if self.dev and (self.strategy == BASE or self.trains_on_task):
            setting = f"selector.{self.name}.dev"
            needed = "left out for a model that is not adapted, or adapted on the task's texts"
            raise bad_setting(setting, needed, list(self.dev))
        if self.strategy == TASK and self.adapt.then_task.on:
            cure = "Set it for the other selectors: [selector.NAME.adapt.then_task]."
            raise bad_setting("adapt.then_task.on", f"left out for {self.name}", True, cure)


@dataclass(frozen=True)
class Recipe:
    """Settings of a table of results: its rows, columns, models and seeds."""

    # Cells differ only in what the table's axes name. All selectors have the same columns, unless
    # they set their own. Reference: TADPOLE, sections 4 to 4.2 and Table 3.
    name: str
    models: tuple[str, ...]  # folders, hub ids, or untrained ones such as `init:small`
    tasks: tuple[RecipeTask, ...]  # the rows
    selectors: tuple[Selector, ...]  # the columns
    corpus: tuple[str, ...] = ()
    evaluate: EvaluatePlan = field(default_factory=EvaluatePlan)
    augmentation: Mapping[str, Any] = field(default_factory=dict)  # fields of `Augmentation`
    search: Search | None = None
    seeds: int = 8  # number of fine-tunings per cell
    seed: int = 0  # the first of the fine-tunings, and that of selections and adaptations
    train_sizes: tuple[int, ...] = ()  # each a task of its own (TADPOLE, section 4.2)
    adaptations: int = 1  # models per cell; fine-tuning k starts from number k modulo this
    compare: str = BASE  # the column that others are compared with
    pairs: tuple[tuple[str, ...], ...] = ()
    keep_overlap: bool = False  # train on copies of dev and test texts too
    watts: float = 10.0  # of a busy processor core, and of a busy GPU
    gpu_watts: float = 400.0

    @property
    def every_model(self) -> dict[str, str]:
        """All models that are adapted or fine-tuned, each with the first key that names it."""
        models = dict.fromkeys(self.models, "models")
        for selector in self.selectors:
            models.setdefault(selector.model, f"selector.{selector.name}.model")
        for task in self.tasks:
            for column, model in task.models.items():
                models.setdefault(model, f"tasks.models.{column} of {task.name}")
        models.pop("", None)
        return models

    @property
    def identity(self) -> dict[str, Any]:
        """What must be equal to resume in a folder; steps have their own digests."""
        version = {"corpusfit": versions()["corpusfit"]}
        return {"command": "run", "recipe": self.name, "versions": version}

    def check(self) -> Recipe:
        """The recipe itself, if every value is allowed."""
        if not self.name:
            raise bad_setting("name", "set: the table's name", "nothing")
        for setting in ("models", "tasks", "selectors"):
            _require_distinct(setting, [getattr(t, "name", t) for t in getattr(self, setting)])
        for setting in ("seeds", "adaptations", "watts", "gpu_watts"):
            positive(setting, getattr(self, setting))
        if self.adaptations > self.seeds:
            allowed = f"at most seeds ({self.seeds}), as every adapted model is fine-tuned"
            raise bad_setting("adaptations", allowed, self.adaptations)
        if not 0 <= self.seed < 2**31 - self.seeds:
            raise bad_setting("seed", "0 or more, and below 2^31", self.seed)
        for size in self.train_sizes:
            positive("train_sizes", size)
        entries: list[RecipeTask | Selector] = [*self.tasks, *self.selectors]
        for entry in entries:
            entry.check()
        for task in self.tasks:
            self.evaluate.with_values(task.evaluate).task.check()
        self._check_columns_of_tasks()
        self._check_names()
        self._check_untrained()
        self._check_others()
        self._check_search()
        return self

    def _check_columns_of_tasks(self) -> None:
        """Raise `UsageError` for a task's unknown selector, or a selector's unknown task."""
        names = [selector.name for selector in self.selectors]
        tasks = [task.name for task in self.tasks]
        for task in self.tasks:
            for name in (*task.models, *task.compose):
                if name not in names:
                    setting = f"tasks.models or tasks.compose of {task.name}"
                    cure = "Add it to selectors, or remove the entry."
                    raise bad_setting(setting, f"one of {', '.join(names)}", name, cure)
        for selector in self.selectors:
            for name in selector.dev:
                if name not in tasks:
                    raise unknown_name(f"selector.{selector.name}.dev", name, tasks)

    def _check_search(self) -> None:
        """Raise `UsageError` for a search with a selector that adapts, or for nothing to try."""
        if self.search is None:
            return
        plain = [s.name for s in self.selectors if s.strategy == BASE and not s.of]
        if self.search.selector not in plain:
            raise unknown_name("search.selector", self.search.selector, plain or [BASE])
        for name in self.search.tasks:
            if name not in (names := [task.name for task in self.tasks]):
                raise unknown_name("search.tasks", name, names)
        for value in (*self.search.batch, *self.search.epochs):
            positive("search", value)
        if len(self.search.settings()) < 2:
            allowed = "two settings or more, such as batch = [16, 32]"
            raise bad_setting("search", allowed, self.search.settings())

    def check_only(self, only: Sequence[str]) -> None:
        """Raise `UsageError` for a name in `only` that no task has."""
        names = [task.name for task in self.tasks]
        for name in only:
            if name not in names:
                raise unknown_name("`only`", name, names)

    def task(self, name: str) -> RecipeTask:
        """The task of a name."""
        return next(task for task in self.tasks if task.name == name)

    def training_task(self, selector: Selector, task: str) -> RecipeTask:
        """The task whose text a selector adapts on: the task, or for a control its `other`."""
        return self.task(self.task(task).other if selector.of else task)

    def _check_others(self) -> None:
        """Raise `UsageError` for a control whose `of`, or whose tasks' `other`, is not valid."""
        names = [s.name for s in self.selectors]
        tasks = [t.name for t in self.tasks]
        for control in (s for s in self.selectors if s.of):
            if control.of not in names:
                raise unknown_name(f"selector.{control.name}.of", control.of, names)
            if control.of in (GENERAL, RANDOM) or control.strategy == BASE or control.sources:
                allowed = "a selector whose selection depends on the task"
                raise bad_setting(f"selector.{control.name}.of", allowed, control.of)
            for task in self.tasks:
                if task.other == task.name or task.other not in tasks:
                    cure = f"The selector {control.name} uses the model of that task."
                    allowed = "the name of another task of the recipe"
                    got = task.other or "nothing"
                    raise bad_setting(f"tasks.other of {task.name}", allowed, got, cure)

    def _check_untrained(self) -> None:
        """Raise `UsageError` for a column that would evaluate an untrained model as it is."""
        for selector in (s for s in self.selectors if s.strategy == BASE):
            for task in self.tasks:
                models = [selector.model_for(task, model) for model in self.models]
                untrained = [model for model in models if model.startswith(INIT)]
                if untrained:
                    cure = "Leave the selector out, and set compare to another one."
                    allowed = f"trained models for {selector.name}, which is not adapted"
                    raise bad_setting("models", allowed, untrained[0], cure)

    def _check_names(self) -> None:
        """Raise `UsageError` for a setting that a selector needs, or an unknown selector."""
        names = [s.name for s in self.selectors]
        readers = [s.name for s in self.selectors if s.strategy not in (BASE, TASK, COMPOSE)]
        if readers and not self.corpus:
            raise bad_setting("corpus", f"set for {', '.join(readers)}", "nothing")
        missing = [t.name for t in self.tasks if not t.oracle]
        if any(s.strategy == ORACLE and not s.sources for s in self.selectors) and missing:
            cure = 'For instance oracle = ["bio_*"], globs for names of the corpus\'s sources.'
            allowed = "set for every task with the selector oracle"
            raise bad_setting("tasks.oracle", allowed, f"nothing for {', '.join(missing)}", cure)
        for setting, selector_name in [
            ("compare", self.compare),
            *(("pairs", name) for pair in self.pairs for name in pair),
        ]:
            if selector_name not in names:
                raise unknown_name(setting, selector_name, names)
        for pair in self.pairs:
            if len(pair) != 2 or pair[0] == pair[1]:
                raise bad_setting(
                    "pairs", 'two selectors, such as ["cynical", "random"]', list(pair)
                )
            ours, theirs = (s for name in pair for s in self.selectors if s.name == name)
            for setting in ("adapters", "augment"):
                if not set(getattr(ours, setting)) & set(getattr(theirs, setting)):
                    allowed = f"two selectors with at least one of {setting} in common"
                    raise bad_setting("pairs", allowed, list(pair))


def _require_distinct(setting: str, values: Sequence[Any]) -> None:
    if not values:
        raise bad_setting(setting, "at least one", "nothing")
    repeated = [v for i, v in enumerate(values) if v in values[:i]]
    if repeated:
        raise bad_setting(setting, "different from each other", f"{repeated[0]} twice")


def unknown_name(setting: str, got: object, allowed: Sequence[str]) -> UsageError:
    """The error for an unknown name, with the nearest known one."""
    nearest = difflib.get_close_matches(str(got), allowed, n=1, cutoff=0.0)
    cure = f"Perhaps {nearest[0]}?" if nearest else ""
    return bad_setting(setting, f"one of {', '.join(allowed)}", got, cure)


@contextlib.contextmanager
def in_table(table: str) -> Iterator[None]:
    """A block whose errors name the table of the recipe that has the settings."""
    try:
        yield
    except CorpusfitError as e:
        e.within.append(f"[{table}] of the recipe")
        raise
