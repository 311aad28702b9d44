"""Read a recipe from a TOML file.

What: plain values, tables of settings of the three plans, and one table for each selector that has
settings of its own.
Why: a table that anyone can make again is a file, not a shell's history.
Trade-off: paths count from the recipe's own folder, and `${NAME}` is the environment's, so that a
recipe can lie in a repository and name no machine; a variable that is not set is an error.
Reference: https://toml.io
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from corpusfit.adapt.plan import TASK, AdaptPlan
from corpusfit.adapt.presets import preset
from corpusfit.corpus import located
from corpusfit.errors import bad_setting
from corpusfit.evaluate.plan import EvaluatePlan
from corpusfit.pipeline.recipes.config import OWN, Recipe, RecipeTask, Selector, near
from corpusfit.plan import Plan
from corpusfit.score.names import names as method_names
from corpusfit.settings import recipe_values, typed, unknown

_GROUPS = ("select", "adapt", "evaluate")
_COLUMNS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "fractions": ("float", (0.2,)),
    "weights": ("str", ("off",)),
    "adapters": ("str", ("",)),
    "augment": ("str", ("",)),
}
"""What a selector may have several of: type and default."""

_PLAIN: dict[str, str] = {
    "name": "str",
    "seeds": "int",
    "seed": "int",
    "adaptations": "int",
    "compare": "str",
    "keep_overlap": "bool",
    "watts": "float",
    "gpu_watts": "float",
}
_LISTS: dict[str, str] = {"pile": "str", "models": "str", "selectors": "str", "train_sizes": "int"}
_KNOWN = (*_PLAIN, *_LISTS, *_COLUMNS, *_GROUPS, "model", "pairs", "tasks", "selector")

_SAID: dict[str, dict[str, str]] = {
    "select": {
        "method": "selectors, or [selector.NAME.method],",
        "choose.fraction": "fractions",
        "choose.policy": "weights",
        "seed": "seed",
    },
    "adapt": {
        "model.name": "models",
        "model.init": "models",
        "weigh.policy": "weights",
        "adapter.kind": "adapters",
        "read": "select.read",
        "seed": "seed",
    },
    "evaluate": {
        "model.name": "models",
        "model.adapter": "adapters",
        "model.reduction": "adapt.adapter.reduction",
        "model.rank": "adapt.adapter.rank",
        "task.metric": "metric of each task",
        "augment.kind": "augment",
        "seed": "seed",
    },
}
"""Settings of the plans that the recipe says itself, and where."""


_FILES = ("arpa_in", "arpa_general", "embedder")
"""Settings of methods that name a file or a model."""


def read_recipe(path: Path) -> Recipe:
    """Read a recipe.

    Args:
        path: a TOML file; paths in it count from its folder, `${NAME}` is the environment's.

    Returns:
        The recipe, checked.

    Raises:
        UsageError: the file cannot be read or is not TOML; a setting does not exist, has a value
            that is not allowed, or names a variable that is not set.
    """
    values = recipe_values(path, _KNOWN)
    home = path.absolute().parent
    given: dict[str, Any] = {k: typed(k, _PLAIN[k], v) for k, v in values.items() if k in _PLAIN}
    if "train_sizes" in values:
        given["train_sizes"] = _list("train_sizes", values["train_sizes"], "int")
    given["models"] = tuple(_model(m, home) for m in _models(values))
    pile = _list("pile", values.get("pile", []), "str")
    if not all(pile):
        raise bad_setting("pile", "a list of files or folders", list(pile))
    given["pile"] = tuple(located(p, home) for p in pile)
    given["tasks"] = _tasks(values.get("tasks", []), home)
    given["pairs"] = tuple(_list("pairs", p, "str") for p in _array("pairs", values))
    plans = {group: _group(group, values.get(group, {}), home) for group in _GROUPS}
    given["evaluate"] = EvaluatePlan().with_values(plans["evaluate"])
    given["selectors"] = _selectors(values, plans, home)
    given.setdefault("name", "")
    return Recipe(**given).check()


def _array(setting: str, values: Mapping[str, Any]) -> list[Any]:
    """A list that the recipe may have."""
    found = values.get(setting, [])
    if not isinstance(found, list):
        raise bad_setting(setting, "a list", found)
    return found


def _list(setting: str, value: Any, kind: str) -> tuple[Any, ...]:
    """A list of plain values of one type."""
    if not isinstance(value, list):
        raise bad_setting(setting, "a list", value, "Put it into [ ].")
    return tuple(typed(setting, kind, v) for v in value)


def _models(values: Mapping[str, Any]) -> tuple[str, ...]:
    """The models, of which one is the usual case."""
    if ("model" in values) == ("models" in values):
        came = "both" if "model" in values else "neither"
        raise bad_setting("The model", "given by model or by models", came)
    if "model" in values:
        return (typed("model", "str", values["model"]),)
    return _list("models", values["models"], "str")


def _model(named: str, home: Path) -> str:
    """A model's folder or a file, if there is one; else a hub id, or an embedder."""
    if named.startswith("static:"):
        return f"static:{_model(named.removeprefix('static:'), home)}"
    return located(named, home) if named and (home / Path(named).expanduser()).exists() else named


def _tasks(tables: Any, home: Path) -> tuple[RecipeTask, ...]:
    """The tasks of `[[tasks]]`."""
    if not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables):
        raise bad_setting("tasks", "tables [[tasks]] with name and path", tables)
    types = {"name": "str", "path": "str", "metric": "str", "other": "str"}
    found = []
    for table in tables:
        for key in table.keys() - {*types, "oracle"}:
            raise unknown(f"tasks.{key}", [f"tasks.{k}" for k in (*types, "oracle")])
        given = {k: typed(f"tasks.{k}", types[k], v) for k, v in table.items() if k in types}
        place = given.get("path", "")
        given["path"] = located(place, home) if place else ""
        oracle = _list("tasks.oracle", table.get("oracle", []), "str")
        found.append(RecipeTask(**{"name": "", **given}, oracle=oracle))
    return tuple(found)


def _group(group: str, values: Any, home: Path) -> dict[str, Any]:
    """The settings of a plan; what the recipe itself says may not be among them."""
    if not isinstance(values, Mapping):
        raise bad_setting(group, f"a table [{group}] of settings", values)
    for setting, where in _SAID[group].items():
        first, _, name = setting.partition(".")
        inside = values.get(first)
        if first in values and (not name or (isinstance(inside, Mapping) and name in inside)):
            came = inside if not name or not isinstance(inside, Mapping) else inside[name]
            raise bad_setting(f"{group}.{setting}", f"left out: {where} says it", came)
    found: dict[str, Any] = {k: dict(v) if isinstance(v, Mapping) else v for k, v in values.items()}
    for first, name in (("embed", "embedder"), ("augment", "mt"), ("augment", "mt_back")):
        inside = found.get(first)
        if isinstance(inside, dict) and isinstance(inside.get(name), str):
            inside[name] = _model(inside[name], home)
    return found


def _selectors(
    values: Mapping[str, Any], plans: Mapping[str, Mapping[str, Any]], home: Path
) -> tuple[Selector, ...]:
    """The selectors, each with the settings of its own table, if it has one."""
    names = _list("selectors", values.get("selectors", []), "str")
    tables = values.get("selector", {})
    if not isinstance(tables, Mapping):
        raise bad_setting("selector", "tables [selector.NAME] of settings", tables)
    for name, table in tables.items():
        if name not in names:
            raise near("A table [selector.NAME]", name, names)
        if not isinstance(table, Mapping):
            raise bad_setting(f"selector.{name}", "a table of settings", table)
    found = {}
    for name in (n for n in names if "of" not in tables.get(n, {})):
        _require_method(name, tables.get(name, {}))
        found[name] = _selector(name, values, tables.get(name, {}), plans, home)
    for name in (n for n in names if n not in found):
        found[name] = _control(name, tables[name], found)
    return tuple(found[name] for name in names)


def _control(name: str, table: Mapping[str, Any], found: Mapping[str, Selector]) -> Selector:
    """A selector that takes another one's model for another task, with all its settings."""
    of = typed(f"selector.{name}.of", "str", table["of"])
    if name in OWN or _is_method(name):
        cure = "Give the selector another name, as other."
        raise bad_setting(f"selector.{name}.of", "left out: the name says how it selects", of, cure)
    for key in table.keys() - {"of"}:
        raise bad_setting(f"selector.{name}.{key}", f"left out: {of} says it", table[key])
    plain = [n for n, selector in found.items() if not selector.of]
    if of not in plain:
        raise near(f"selector.{name}.of", of, plain)
    return dataclasses.replace(found[of], name=name, of=of)


def _require_method(name: str, table: Mapping[str, Any]) -> None:
    """Raise `UsageError` unless it is said, once, how a selector selects."""
    own = {group: table.get(group, {}) for group in ("method", "cascade")}
    said = {
        g: v[k]
        for (g, v), k in zip(own.items(), ("name", "stages"), strict=True)
        if isinstance(v, Mapping) and k in v
    }
    if name in OWN or _is_method(name):
        if said.get("method", name) != name:
            cure = "Give the selector another name."
            raise bad_setting(f"selector.{name}.method.name", "left out", said["method"], cure)
    elif not said:
        known = [*OWN, "auto", *method_names()]
        raise near("A selector without method.name in its table", name, known)


def _is_method(name: str) -> bool:
    """Whether it is what --method takes."""
    return name.split(":", 1)[0] in ("auto", *method_names())


def _selector(
    name: str,
    values: Mapping[str, Any],
    table: Mapping[str, Any],
    plans: Mapping[str, Mapping[str, Any]],
    home: Path,
) -> Selector:
    """One selector: the recipe's settings, then those of its own table."""
    own = dict(table)
    columns: dict[str, Any] = {
        key: _list(f"selector.{name}.{key}", own.pop(key), kind)
        if key in own
        else (_list(key, values[key], kind) if key in values else start)
        for key, (kind, start) in _COLUMNS.items()
    }
    special = own.pop("adapt", {})
    adapt = _adapting(name, plans["adapt"], _group("adapt", special, home))
    if "read" in own:
        cure = "All selectors read the same pile: say it in [select.read]."
        raise bad_setting(f"selector.{name}.read", "left out", own["read"], cure)
    method = own.pop("method", {})
    if isinstance(method, Mapping):
        method = {
            k: _model(v, home) if k in _FILES and isinstance(v, str) else v
            for k, v in method.items()
        }
    plan = Plan().with_values(plans["select"])
    if _is_method(name):
        plan = plan.with_value("method.name", name)
    plan = plan.with_values({**_group("select", own, home), "method": method})
    return Selector(name, plan, dataclasses.replace(adapt, read=plan.read), **columns)


def _adapting(name: str, asked: Mapping[str, Any], special: Mapping[str, Any]) -> AdaptPlan:
    """The plan of an adaptation; the task's own texts are trained on as Gururangan et al. do."""
    plan = AdaptPlan()
    if name == TASK:
        for path, value in preset("tapt", "off").items():
            plan = plan.with_value(path, value)
    for values in (asked, special):
        train = values.get("train", {})
        if isinstance(train, Mapping) and {"steps", "epochs"} & train.keys():
            plan = plan.with_value("train.steps", None).with_value("train.epochs", None)
        plan = plan.with_values(values)
    return plan
