"""A recipe: which tasks, which ways of selecting, and how often.

What: frozen dataclasses of all that a table of results is made from, with their checks.
Why: what two cells of a table differ in must be said, and nothing else may differ.
Trade-off: every selector has the same columns unless it has its own, so a table is a grid with
some places empty, and not a list of single trainings.
Reference: TADPOLE, sections 4 to 4.2: what its Table 3 compares.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from corpusfit.adapt.plan import TASK, AdaptPlan
from corpusfit.errors import UsageError, bad_setting
from corpusfit.evaluate.plan import METRICS, EvaluatePlan
from corpusfit.manifest import versions
from corpusfit.plan import Plan
from corpusfit.settings import one_of, positive

BASE, GENERAL, RANDOM, ORACLE = "base", "general", "random", "oracle"
OWN = (BASE, GENERAL, TASK)
"""Selectors that select nothing."""

WEIGHTS = ("off", "lambda", "resample", "mask+lambda")
ADAPTERS = ("", "pfeiffer", "lora")
AUGMENTS = ("", "tfidf", "backtranslate")


@dataclass(frozen=True)
class RecipeTask:
    """One task of a recipe.

    Attributes:
        name: as it stands in the tables.
        path: where it is, as `corpusfit evaluate --task` takes it.
        metric: the score that is compared; by the kind of task when left out.
        oracle: globs of the names of the pile's sources that are of its domain.
        other: name of a task of another domain, for selectors that take its model (mDAPT, 5.2).
    """

    name: str
    path: str
    metric: str = "auto"
    oracle: tuple[str, ...] = ()
    other: str = ""

    def check(self) -> None:
        """Raise `UsageError` for a value that is not allowed."""
        for needed in ("name", "path"):
            if not getattr(self, needed):
                raise bad_setting(f"tasks.{needed}", "given for every task", "nothing")
        one_of(f"tasks.metric of {self.name}", self.metric, ("auto", *METRICS))


@dataclass(frozen=True)
class Selector:
    """One way to come by a model: a baseline of TADPOLE's section 4.1, a method, or a variant.

    Attributes:
        name: `base` (no adaptation), `general` (adapted on the pile as it is), `task` (on the
            training texts), `random`, `oracle` (the pile's sources of the task's domain), `auto`,
            a method, or the name of a variant.
        select: settings of its selection; the amount and the weights are the cell's.
        adapt: settings of its adaptation; the model, the weights and the adapter are the cell's.
        fractions: shares of the pile to select, one column each.
        weights: what relevance weights do in training, one column each.
        adapters: what is trained, one column each.
        augment: companions of the training examples, one column each.
        of: for a cross-domain control, the selector whose model for the task's `other` is taken;
            all settings are that selector's (mDAPT, section 5.2 and Table 5).
    """

    name: str
    select: Plan
    adapt: AdaptPlan
    fractions: tuple[float, ...]
    weights: tuple[str, ...]
    adapters: tuple[str, ...]
    augment: tuple[str, ...]
    of: str = ""

    @property
    def way(self) -> str:
        """How it comes by its text: by its name, or as the selector that it is `of`."""
        return self.of or self.name

    @property
    def selects(self) -> bool:
        """Whether a part of the pile is selected for it."""
        return self.way not in OWN

    @property
    def graded(self) -> bool:
        """Whether its scores say more or less, so that an amount and weights make sense."""
        return self.selects and self.way != ORACLE

    def check(self) -> None:
        """Raise `UsageError` for a value that is not allowed."""
        for share in self.fractions:
            if not 0 < share <= 1:
                raise bad_setting("fractions", "in (0, 1]", share, "For a tenth say 0.1.")
        for setting, allowed in (
            ("weights", WEIGHTS),
            ("adapters", ADAPTERS),
            ("augment", AUGMENTS),
        ):
            for value in getattr(self, setting):
                one_of(setting, value, allowed)
        for setting in ("fractions", "weights", "adapters", "augment"):
            _several(f"{setting} of {self.name}", getattr(self, setting))
        if self.way not in (BASE, TASK) and self.adapt.train.steps is None:
            needed = f"given for {self.name}: models are compared after so many steps each"
            cure = "For instance [adapt] train.steps = 2000 for all (TADPOLE, section 4.1)."
            raise bad_setting("adapt.train.steps", needed, "nothing", cure)


@dataclass(frozen=True)
class Recipe:
    """A table of results to be made.

    Attributes:
        name: of the table.
        models: model folders or hub ids that are adapted and fine-tuned.
        tasks: the rows.
        selectors: the columns, with their settings.
        pile: inputs to select from.
        evaluate: settings of the fine-tunings.
        seeds: fine-tunings of each cell.
        seed: the first of them, and the seed of selections and adaptations.
        train_sizes: training examples; each size is a task of its own (TADPOLE, section 4.2), and
            all of them when left out.
        adaptations: adapted models of each cell; fine-tuning k begins from number k modulo this.
        compare: the column that all others are compared with.
        pairs: further pairs of columns to compare.
        keep_overlap: train on copies of dev and test texts too.
        watts: power of a processor core at work, for the estimate of energy.
        gpu_watts: power of a GPU at work.
    """

    name: str
    models: tuple[str, ...]
    tasks: tuple[RecipeTask, ...]
    selectors: tuple[Selector, ...]
    pile: tuple[str, ...] = ()
    evaluate: EvaluatePlan = field(default_factory=EvaluatePlan)
    seeds: int = 8
    seed: int = 0
    train_sizes: tuple[int, ...] = ()
    adaptations: int = 1
    compare: str = BASE
    pairs: tuple[tuple[str, ...], ...] = ()
    keep_overlap: bool = False
    watts: float = 10.0
    gpu_watts: float = 400.0

    @property
    def identity(self) -> dict[str, Any]:
        """Under what its folder is gone on with; steps know for themselves what they are of."""
        own = {"corpusfit": versions()["corpusfit"]}
        return {"command": "run", "recipe": self.name, "versions": own}

    def check(self) -> Recipe:
        """The recipe itself, after everything in it was checked.

        Raises:
            UsageError: names the setting, what is allowed, what came, and the cure.
        """
        if not self.name:
            raise bad_setting("name", "given: it names the table", "nothing")
        for setting in ("models", "tasks", "selectors"):
            _several(setting, [getattr(t, "name", t) for t in getattr(self, setting)])
        for setting in ("seeds", "adaptations", "watts", "gpu_watts"):
            positive(setting, getattr(self, setting))
        if self.adaptations > self.seeds:
            allowed = f"at most seeds ({self.seeds}): every adapted model is fine-tuned"
            raise bad_setting("adaptations", allowed, self.adaptations)
        if not 0 <= self.seed < 2**31 - self.seeds:
            raise bad_setting("seed", "0 or more, and below 2^31", self.seed)
        for size in self.train_sizes:
            positive("train_sizes", size)
        for task in self.tasks:
            task.check()
        for selector in self.selectors:
            selector.check()
        self._check_names()
        self._check_others()
        return self

    def taught(self, selector: Selector, task: str) -> RecipeTask:
        """The task whose text a selector's model for a task is adapted on: itself, or its other."""
        entries = {entry.name: entry for entry in self.tasks}
        return entries[entries[task].other] if selector.of else entries[task]

    def _check_others(self) -> None:
        """Raise `UsageError` where a control's model, or a task's other, is not said."""
        names = [s.name for s in self.selectors]
        tasks = [t.name for t in self.tasks]
        for control in (s for s in self.selectors if s.of):
            if control.of not in names:
                raise near(f"selector.{control.name}.of", control.of, names)
            if control.of in (BASE, GENERAL, RANDOM):
                allowed = "a selector whose text depends on the task"
                raise bad_setting(f"selector.{control.name}.of", allowed, control.of)
            for task in self.tasks:
                if task.other == task.name or task.other not in tasks:
                    cure = f"The selector {control.name} takes the model of that task."
                    allowed = "the name of another task of the recipe"
                    came = task.other or "nothing"
                    raise bad_setting(f"tasks.other of {task.name}", allowed, came, cure)

    def _check_names(self) -> None:
        """Raise `UsageError` where what is needed for a selector is not said."""
        names = [s.name for s in self.selectors]
        reading = [s.name for s in self.selectors if s.way not in (BASE, TASK)]
        if reading and not self.pile:
            raise bad_setting("pile", f"given for {', '.join(reading)}", "nothing")
        lacking = [t.name for t in self.tasks if not t.oracle]
        if any(s.way == ORACLE for s in self.selectors) and lacking:
            cure = 'For instance oracle = ["bio_*"]: names of the pile\'s sources.'
            allowed = "given for every task with the selector oracle"
            raise bad_setting("tasks.oracle", allowed, f"nothing for {', '.join(lacking)}", cure)
        for setting, named in [
            ("compare", self.compare),
            *(("pairs", name) for pair in self.pairs for name in pair),
        ]:
            if named not in names:
                raise near(setting, named, names)
        for pair in self.pairs:
            if len(pair) != 2 or pair[0] == pair[1]:
                raise bad_setting("pairs", 'of two selectors, as ["auto", "random"]', list(pair))
            ours, theirs = (s for name in pair for s in self.selectors if s.name == name)
            for setting in ("adapters", "augment"):
                if not set(getattr(ours, setting)) & set(getattr(theirs, setting)):
                    allowed = f"of selectors that have one of their {setting} in common"
                    raise bad_setting("pairs", allowed, list(pair))


def _several(setting: str, values: Sequence[Any]) -> None:
    """Raise `UsageError` for an empty list, and for a value that is there twice."""
    if not values:
        raise bad_setting(setting, "at least one", "nothing")
    twice = [v for i, v in enumerate(values) if v in values[:i]]
    if twice:
        raise bad_setting(setting, "different from each other", f"{twice[0]} twice")


def near(setting: str, came: object, allowed: Sequence[str]) -> UsageError:
    """The error for an unknown word, with the nearest that is known."""
    nearest = difflib.get_close_matches(str(came), allowed, n=1, cutoff=0.0)
    cure = f"Perhaps {nearest[0]}?" if nearest else ""
    return bad_setting(setting, f"one of {', '.join(allowed)}", came, cure)
