"""Find scoring methods by name.

What: lists the files of `score/methods/` and the entry-point group `corpusfit.methods`.
Why: adding a method touches one file; listing does not import any (some need torch or PyOD).
Trade-off: a method's name is its file's name, and there is no other way to name it.

`pyod:ECOD` names a family of methods in one file: what follows the colon is handed to the
method's field `detector`.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from collections.abc import Mapping
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.artifacts import packed, unpacked
from corpusfit.errors import ModelError, UsageError, bad_setting
from corpusfit.plan import MethodPlan
from corpusfit.score.contract import AnyMethod, CorpusMethod, LabelMethod, Method, Scorer
from corpusfit.score.names import GROUP, require
from corpusfit.settings import KINDS


def load(name: str) -> type[AnyMethod]:
    """The method's class.

    Raises:
        UnknownMethodError: no method has that name; names the nearest.
    """
    base = name.split(":", 1)[0]
    if base == "auto":
        raise bad_setting("--method", "one method by name here", name, "Or leave it out.")
    require(name)
    for entry in entry_points(group=GROUP):
        if entry.name == base:
            return _method_of(importlib.import_module(entry.module))
    return _method_of(importlib.import_module(f"corpusfit.score.methods.{base}"))


def _method_of(module: ModuleType) -> type[AnyMethod]:
    found: list[type[AnyMethod]] = [
        c
        for _, c in inspect.getmembers(module, inspect.isclass)
        if issubclass(c, AnyMethod) and c.__module__ == module.__name__
    ]
    if len(found) != 1:
        raise UsageError(f"{module.__name__} must define one Method; it defines {len(found)}.")
    return found[0]


def build(name: str, options: Mapping[str, Any]) -> AnyMethod:
    """The method with its settings.

    Args:
        name: a method's name, or `pyod:` and a PyOD detector's.
        options: settings by field name; the rest keep their defaults.

    Raises:
        UnknownMethodError: no such method.
        UsageError: no such setting, or a value it does not allow.
    """
    cls = load(name)
    given = dict(options)
    fields = {f.name: f for f in dataclasses.fields(cls)}
    if ":" in name:
        if "detector" not in fields:
            raise bad_setting(
                "--method", "a name; only pyod takes a detector's after a colon", name
            )
        given["detector"] = name.split(":", 1)[1]
    for key, value in given.items():
        if key not in fields:
            allowed = ", ".join(fields) or "nothing"
            raise bad_setting(f"A setting of {name}", f"one of: {allowed}", key)
        default = fields[key].default
        if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
            given[key] = float(value)
        elif default is not dataclasses.MISSING and type(default) is not type(value):
            raise bad_setting(f"method.{key}", KINDS[type(default).__name__], value)
    return cls(**given)


def given(plan: MethodPlan, embedder: str) -> MethodPlan:
    """The method with the run's embedder, if it has a setting for one that was not set."""
    if plan.name == "auto" or "embedder" in plan.options:
        return plan
    if "embedder" not in {f.name for f in dataclasses.fields(load(plan.name))}:
        return plan
    return dataclasses.replace(plan, options={**plan.options, "embedder": embedder})


def fitting(name: str, options: Mapping[str, Any]) -> Method[Any]:
    """As `build`, for a method that is fitted and then scores each unit by itself.

    Raises:
        UsageError: the method scores the corpus as a whole; or as `build` does.
    """
    method = build(name, options)
    if not isinstance(method, Method):
        raise bad_setting("--method", "one that scores each unit by itself here", name)
    return method


def of_corpus(name: str, options: Mapping[str, Any]) -> CorpusMethod:
    """As `build`, for a method that scores the corpus as a whole.

    Raises:
        UsageError: the method scores each unit by itself; or as `build` does.
    """
    method = build(name, options)
    if not isinstance(method, CorpusMethod):
        raise bad_setting("--method", "one that scores the corpus as a whole here", name)
    return method


def of_labels(name: str, options: Mapping[str, Any]) -> LabelMethod:
    """As `build`, for a method that goes by a row's label.

    Raises:
        UsageError: the method goes by texts; or as `build` does.
    """
    method = build(name, options)
    if not isinstance(method, LabelMethod):
        raise bad_setting("--method", "one that goes by a row's label here", name)
    return method


def scorer_class(name: str) -> type[Scorer[Any]]:
    """The class that a stored scorer of this method is restored as."""
    method = load(name)
    if not issubclass(method, Method):
        raise ModelError(f"{name} leaves no scorer: it does not score single texts.")
    cls: type[Scorer[Any]] = method.scorer
    return cls


def as_array(name: str, scorer: Scorer[Any]) -> NDArray[np.uint8]:
    """A method's scorer as stored, uint8, for a scorer that holds others."""
    return np.frombuffer(packed(name, scorer), np.uint8)


def from_array(stored: NDArray[np.uint8]) -> Scorer[Any]:
    """The scorer that `as_array` stored."""
    scorer: Scorer[Any] = unpacked(stored.tobytes(), scorer_class)
    return scorer
