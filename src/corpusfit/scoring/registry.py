"""Find scoring methods by name: files of `scoring/methods/` and entry points."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError

from corpusfit.core.artifacts import deserialise, serialize
from corpusfit.core.errors import ModelError, UnknownMethodError, bad_setting
from corpusfit.core.plan import MethodPlan
from corpusfit.core.settings import own_values, renamed
from corpusfit.embed.folders import require_extra
from corpusfit.scoring.contract import AnyMethod, Method, Scorer
from corpusfit.scoring.names import METHODS, names, require


def load(name: str, setting: str = "`method.name`") -> type[AnyMethod]:
    """The class of a method; only its own module is imported."""
    require(name, setting)
    method: type[AnyMethod] = METHODS.load(name.split(":", 1)[0], AnyMethod)
    return method


def higher(name: str) -> str:
    """What a higher score of a method means; the default if it is no longer installed."""
    with contextlib.suppress(UnknownMethodError):
        return load(name).higher
    return AnyMethod.higher


def with_argument() -> list[str]:
    """The methods whose names take an argument, such as `fasttext:FILE`."""
    classes = ((name, load(name).argument) for name in names())
    return [f"{name}:{argument.upper()}" for name, argument in classes if argument]


def build(name: str, options: Mapping[str, Any]) -> AnyMethod:
    """Build a method with its settings."""
    cls = load(name)
    settings = dict(options)
    base, colon, argument = name.partition(":")
    if colon:
        if not cls.argument:
            allowed = f"{base}, without a colon (only {', '.join(with_argument())} have one)"
            raise bad_setting("`method.name`", allowed, name)
        settings[cls.argument] = argument
    fields = [field.name for field in dataclasses.fields(cls)]
    for key in settings:
        if key not in fields:
            if error := renamed(key, fields, "method."):
                raise error
            allowed = ", ".join(fields) or "nothing"
            cure = "To use a setting of another method, name that method in `method.name`."
            raise bad_setting(f"A setting of method {name}", f"one of: {allowed}", key, cure)
    return cls(**own_values(cls, settings, "method"))


def usable(name: str, options: Mapping[str, Any]) -> AnyMethod:
    """Build a method whose extra is installed and whose files suit it."""
    method = build(name, options)
    if method.needs:
        otherwise = "See which methods need none: corpusfit methods"
        require_extra(f"The method {name}", method.needs, otherwise=otherwise)
    method.require()
    return method


def with_embedder(plan: MethodPlan, embedder: str) -> MethodPlan:
    """Fill in the run's embedder for a method with an unset setting `embedder`."""
    if "embedder" in plan.options:
        return plan
    if "embedder" not in {f.name for f in dataclasses.fields(load(plan.name))}:
        return plan
    return dataclasses.replace(plan, options={**plan.options, "embedder": embedder})


def unit_method(name: str, options: Mapping[str, Any]) -> Method[Any]:
    """Build a method that is fitted and then scores each unit alone."""
    method = build(name, options)
    if not isinstance(method, Method):
        raise bad_setting("`method.name`", "a method that scores each unit alone here", name)
    return method


def scorer_class(name: str) -> type[Scorer[Any]]:
    """The class of this method's stored scorers."""
    cls: type[Scorer[Any]] | None = load(name).scorer
    if cls is None:
        raise ModelError(f"Method {name} has no scorer: it does not score single texts.")
    return cls


def pack_scorer(name: str, scorer: Scorer[Any]) -> NDArray[np.uint8]:
    """A scorer as stored bytes, uint8, for a scorer that contains other scorers."""
    return np.frombuffer(serialize(name, scorer), np.uint8)


def unpack_scorer(stored: NDArray[np.uint8]) -> Scorer[Any]:
    """Restore the scorer that `pack_scorer` stored."""
    try:
        return deserialise(stored.tobytes(), scorer_class)
    except (SafetensorError, AttributeError, LookupError, TypeError, ValueError) as e:
        raise ModelError(
            f"A scorer within the scorer is damaged: {e}. Fit the method again."
        ) from e
