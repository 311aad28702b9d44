"""Entries of a recipe: its tasks, and the settings that it searches."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from corpusfit.core.errors import bad_setting
from corpusfit.evaluation.plan import check_metric

BASE = "base"
"""The selector whose model is not adapted."""


@dataclass(frozen=True)
class RecipeTask:
    """One task of a recipe.

    Attributes:
        name: its name in the tables.
        path: its location, in the form of `corpusfit evaluate --task`.
        metric: the score that is compared; `auto` takes the default of the kind of task.
        oracle: globs for the names of the corpus's sources of the task's domain.
        other: name of a task of another domain, for cross-domain controls (mDAPT, 5.2).
        models: by selector, the model of its column where it is another one for this task.
        compose: by selector, the recipe of its composition where it is another one for this task.
        evaluate: settings of the fine-tunings that differ from the recipe's.
    """

    name: str
    path: str
    metric: str = "auto"
    oracle: tuple[str, ...] = ()
    other: str = ""
    models: Mapping[str, str] = field(default_factory=dict)
    compose: Mapping[str, str] = field(default_factory=dict)
    evaluate: Mapping[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        """Raise `UsageError` for a value that is not allowed."""
        for setting in ("name", "path"):
            if not getattr(self, setting):
                raise bad_setting(f"tasks.{setting}", "set for every task", "nothing")
        check_metric(f"tasks.metric of {self.name}", self.metric)


@dataclass(frozen=True)
class Search:
    """Settings of the fine-tuning that dev chooses for each task, with one model.

    Reference: mDAPT, section 4.2: the model of one language, and what it finds for all models.

    Attributes:
        selector: the selector whose model is searched with; it is not adapted.
        tasks: names of the tasks that are searched; empty for all.
        batch: batch sizes to try.
        epochs: numbers of epochs to try.
    """

    selector: str = BASE
    tasks: tuple[str, ...] = ()
    batch: tuple[int, ...] = ()
    epochs: tuple[int, ...] = ()

    def covers(self, task: str) -> bool:
        """Whether a task is searched."""
        return not self.tasks or task in self.tasks

    def settings(self) -> list[dict[str, int]]:
        """Every combination, in order; of equally good ones the first is used."""
        tried = [("batch", self.batch), ("epochs", self.epochs)]
        names = [name for name, values in tried if values]
        return [
            dict(zip(names, values, strict=True))
            for values in itertools.product(*(values for _, values in tried if values))
        ]
