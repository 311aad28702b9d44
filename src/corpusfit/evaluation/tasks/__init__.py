"""Kinds of tasks: one in each file of this folder, named like the file."""

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
    files = Path(__file__).parent.glob("*.py")
    return tuple(sorted(p.stem for p in files if not p.stem.startswith("_")))


@cache
def load(kind: str) -> TaskType:
    """The type of a kind of task; raises `UsageError` for no such kind."""
    from corpusfit.evaluation.contract import TaskType

    one_of("task.kind", kind, names())
    module = importlib.import_module(f"{__name__}.{kind}")
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
    """Detect a task's kind from its format (`reading.FORMS`) and the labels of train, if any."""
    able = [kind for kind in names() if form in load(kind).forms]
    claiming = [kind for kind in able if labels and load(kind).claims(labels)]
    return next(iter([*claiming, *(kind for kind in able if load(kind).usual)]))
