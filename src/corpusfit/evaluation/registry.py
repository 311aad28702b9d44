"""Find kinds of tasks by name: files of `evaluation/tasks/`."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from corpusfit.core.settings import one_of

if TYPE_CHECKING:
    from corpusfit.evaluation.contract import TaskType


def names() -> tuple[str, ...]:
    """All kinds, sorted; nothing is imported."""
    folder = Path(__file__).parent / "tasks"
    return tuple(sorted(p.stem for p in folder.glob("*.py") if not p.stem.startswith("_")))


@cache
def load(kind: str) -> TaskType:
    """The type of a kind of task."""
    # Raises: UsageError: no such kind.
    from corpusfit.evaluation.contract import TaskType

    one_of("task.kind", kind, names())
    module = importlib.import_module(f"corpusfit.evaluation.tasks.{kind}")
    (task_type,) = (
        c
        for _, c in inspect.getmembers(module, inspect.isclass)
        if issubclass(c, TaskType) and c.__module__ == module.__name__
    )
    return task_type()


def metrics(kind: str = "auto") -> tuple[str, ...]:
    """The metrics of a kind, or of all kinds for `auto`, each once."""
    kinds = names() if kind == "auto" else (kind,)
    return tuple(dict.fromkeys(m for name in kinds for m in load(name).metrics))


def detect(form: str, labels: Sequence[object]) -> str:
    """The kind of a task: the one that claims its labels, else the usual one of its form."""
    # form: one of `splits.FORMS`.
    # labels: values of the label field in train, as read; empty if the form has tags.
    able = [kind for kind in names() if form in load(kind).forms]
    claiming = [kind for kind in able if labels and load(kind).claims(labels)]
    return next(iter([*claiming, *(kind for kind in able if load(kind).usual)]))
