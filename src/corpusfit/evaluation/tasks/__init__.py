"""Kinds of tasks: one in each file of this folder, named like the file, and of other packages."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from corpusfit.core.registry import Registry
from corpusfit.core.settings import one_of

if TYPE_CHECKING:
    from corpusfit.evaluation.contract import TaskType


TASKS = Registry("corpusfit.tasks", "corpusfit.evaluation.tasks")
names = TASKS.names


@cache
def load(kind: str) -> TaskType:
    """The type of a kind of task; raises `UsageError` for no such kind."""
    from corpusfit.evaluation.contract import TaskType

    one_of("task.kind", kind, tuple(names()))
    task_type: TaskType = TASKS.load(kind, TaskType)(kind)
    return task_type


def metrics(kind: str = "auto") -> tuple[str, ...]:
    """The metrics of a kind, or of all kinds for `auto`, each once."""
    kinds = names() if kind == "auto" else (kind,)
    return tuple(dict.fromkeys(m for name in kinds for m in load(name).metrics))


def detect(form: str, labels: Sequence[object]) -> str:
    """Detect a task's kind from its format, one of `FORMS`, and the labels of train, if any."""
    able = [kind for kind in names() if form in load(kind).forms]
    claiming = [kind for kind in able if labels and load(kind).claims(labels)]
    return next(iter([*claiming, *(kind for kind in able if load(kind).usual)]))
