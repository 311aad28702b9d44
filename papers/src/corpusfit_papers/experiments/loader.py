"""Reads a recipe from a TOML file."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from corpusfit import AdaptPlan, EvaluatePlan, Plan
from corpusfit.contracts import bad_setting
from corpusfit.core.artifacts import user_path
from corpusfit.core.options import KINDS, typed
from corpusfit.core.plan import DEFAULT_FRACTION
from corpusfit.core.settings import Settings, unknown
from corpusfit.scoring.names import names as method_names
from corpusfit.scoring.names import require
from corpusfit.text import located
from corpusfit.training.defaults import TAPT
from corpusfit.training.plan import TASK, AdapterPlan, WeightsPlan
from corpusfit_papers.experiments.config import (
    WITHOUT_SELECTION,
    Recipe,
    RecipeTask,
    Search,
    Selector,
    in_table,
    unknown_name,
)
from corpusfit_papers.experiments.values import recipe_values

_P = TypeVar("_P", bound=Settings)
_GROUPS = ("select", "adapt", "evaluate")
# settings of the plans that a recipe sets elsewhere, with their keys
_ELSEWHERE: dict[str, dict[str, str]] = {
    "select": {
        "method.name": "selectors",
        "method": "selector.NAME.method",
        "choose.fraction": "fractions",
        "choose.policy": "weights",
        "seed": "seed",
    },
    "adapt": {
        "model.name": "models",
        "model.init": "models",
        "weights.policy": "weights",
        "adapter.kind": "adapters",
        "read": "select.read",
        "seed": "seed",
    },
    "evaluate": {
        "model.name": "models",
        "model.adapter": "adapters",
        "model.rank": "adapt.adapter.rank",
        "task.metric": "tasks.metric",
        "augment": "the table [augmentation]",
        "seed": "seed",
    },
}
_COLUMNS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "fractions": ("float", (DEFAULT_FRACTION,)),
    "weights": ("str", (WeightsPlan().policy,)),
    "adapters": ("str", (AdapterPlan().kind,)),
    "augment": ("str", ("",)),
}
"""Settings with several columns per selector: type and default."""

_PLAIN, _TASK = (
    {entry.name: entry.type for entry in dataclasses.fields(cls) if entry.type in KINDS}
    for cls in (Recipe, RecipeTask)
)
"""Plain settings of a recipe and of its tasks: their types by name."""
_KNOWN = (*(f.name for f in dataclasses.fields(Recipe)), *_COLUMNS, *_GROUPS, "model", "selector")

_OWN = ("model", "compose")
"""Settings of a selector that name its model and its composition; `sources` and `dev` are lists."""

_TASK_TABLES = ("models", "compose", "evaluate")
"""Tables of a task: models and compositions by selector, and settings of its fine-tunings."""

_AUGMENTATION = {"copies": "int", "share": "float", "mt": "str", "mt_back": "str"}
"""Settings of augmentations: their types by name."""

_FILES = ("arpa_in", "arpa_general", "embedder")
"""Settings of methods that name a file or a model."""


def read_recipe(path: Path) -> Recipe:
    """Read a recipe."""
    values = recipe_values(path, (*_KNOWN, "separation"))
    if "separation" in values:
        cure = f"Measure it with: python papers/tables/separation.py {path} OUT"
        raise bad_setting("separation", "left out of a recipe", "a table", cure)
    home = path.absolute().parent
    settings: dict[str, Any] = {k: typed(k, _PLAIN[k], v) for k, v in values.items() if k in _PLAIN}
    if "train_sizes" in values:
        settings["train_sizes"] = _list("train_sizes", values["train_sizes"], "int")
    settings["models"] = tuple(_model(m, home) for m in _models(values))
    corpus = _list("corpus", values.get("corpus", []), "str")
    if not all(corpus):
        raise bad_setting("corpus", "a list of files or folders", list(corpus))
    settings["corpus"] = tuple(located(p, home) for p in corpus)
    settings["tasks"] = _tasks(values.get("tasks", []), home)
    pairs = values.get("pairs", [])
    if not isinstance(pairs, list):
        raise bad_setting("pairs", "a list", pairs)
    settings["pairs"] = tuple(_list("pairs", pair, "str") for pair in pairs)
    plans = {group: _group(group, values.get(group, {}), home) for group in _GROUPS}
    settings["evaluate"] = _changed(EvaluatePlan(), plans["evaluate"], "evaluate")
    settings["augmentation"] = _augmentation(values.get("augmentation", {}), home)
    settings["selectors"] = _selectors(values, plans, home)
    if "search" in values:
        settings["search"] = _search(values["search"])
    settings.setdefault("name", "")
    return Recipe(**settings).check()


def _list(setting: str, value: Any, kind: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise bad_setting(setting, "a list", value, "Put the value in [ ].")
    return tuple(typed(setting, kind, v) for v in value)


def _models(values: Mapping[str, Any]) -> tuple[str, ...]:
    if ("model" in values) == ("models" in values):
        got = "both" if "model" in values else "neither"
        cure = 'For instance model = "bert-base-cased".'
        raise bad_setting("The recipe", "a table with either model or models", got, cure)
    if "model" in values:
        return (typed("model", "str", values["model"]),)
    return _list("models", values["models"], "str")


def _model(value: str, home: Path) -> str:
    """The path of a model's folder or file, if it exists; else a hub id or an embedder."""
    return located(value, home) if value and (home / user_path(value)).exists() else value


def _tasks(tables: Any, home: Path) -> tuple[RecipeTask, ...]:
    if not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables):
        raise bad_setting("tasks", "tables [[tasks]] with name and path", tables)
    tasks = []
    for table in tables:
        for key in table.keys() - {*_TASK, *_TASK_TABLES, "oracle"}:
            known = (*_TASK, *_TASK_TABLES, "oracle")
            raise unknown(f"tasks.{key}", [f"tasks.{k}" for k in known])
        settings = {k: typed(f"tasks.{k}", _TASK[k], v) for k, v in table.items() if k in _TASK}
        path = settings.get("path", "")
        settings["path"] = located(path, home) if path else ""
        oracle = _list("tasks.oracle", table.get("oracle", []), "str")
        for key in _TASK_TABLES:
            if not isinstance(table.get(key, {}), Mapping):
                raise bad_setting(f"tasks.{key}", f"a table [tasks.{key}]", table[key])
        models, compose = (
            {k: typed(f"tasks.{key}.{k}", "str", v) for k, v in table.get(key, {}).items()}
            for key in _TASK_TABLES[:2]
        )
        settings["models"] = {k: _model(v, home) for k, v in models.items()}
        settings["compose"] = {k: located(v, home) for k, v in compose.items()}
        settings["evaluate"] = _group("evaluate", table.get("evaluate", {}), home)
        _changed(EvaluatePlan(), settings["evaluate"], "evaluate")
        tasks.append(RecipeTask(**{"name": "", **settings}, oracle=oracle))
    return tuple(tasks)


def _search(table: Any) -> Search:
    if not isinstance(table, Mapping):
        raise bad_setting("search", "a table [search] with batch and epochs", table)
    lists = {"tasks": "str", "batch": "int", "epochs": "int"}
    for key in table.keys() - {"selector", *lists}:
        raise unknown(f"search.{key}", [f"search.{k}" for k in ("selector", *lists)])
    grid = {k: _list(f"search.{k}", table[k], kind) for k, kind in lists.items() if k in table}
    return Search(typed("search.selector", "str", table.get("selector", Search().selector)), **grid)


def _augmentation(table: Any, home: Path) -> dict[str, Any]:
    if not isinstance(table, Mapping):
        raise bad_setting("augmentation", "a table [augmentation] of settings", table)
    for key in table.keys() - _AUGMENTATION:
        raise unknown(f"augmentation.{key}", [f"augmentation.{k}" for k in _AUGMENTATION])
    settings = {k: typed(f"augmentation.{k}", _AUGMENTATION[k], v) for k, v in table.items()}
    return {k: _model(v, home) if isinstance(v, str) else v for k, v in settings.items()}


def _group(group: str, values: Any, home: Path, selector: str = "") -> dict[str, Any]:
    """The settings of a plan, without those that the recipe sets elsewhere."""
    table = _table(group, selector)
    if not isinstance(values, Mapping):
        raise bad_setting(table, f"a table [{table}] of settings", values)
    for setting, where in _ELSEWHERE[group].items():
        first, _, name = setting.partition(".")
        inside = values.get(first)
        if first in values and (not name or (isinstance(inside, Mapping) and name in inside)):
            got = inside if not name or not isinstance(inside, Mapping) else inside[name]
            raise bad_setting(f"{table}.{setting}", f"left out, as {where} sets it", got)
    settings: dict[str, Any] = {
        k: dict(v) if isinstance(v, Mapping) else v for k, v in values.items()
    }
    inside = settings.get("embed")
    if isinstance(inside, dict) and isinstance(inside.get("embedder"), str):
        inside["embedder"] = _model(inside["embedder"], home)
    return settings


def _selectors(
    values: Mapping[str, Any], plans: Mapping[str, Mapping[str, Any]], home: Path
) -> tuple[Selector, ...]:
    names = _list("selectors", values.get("selectors", []), "str")
    tables = values.get("selector", {})
    if not isinstance(tables, Mapping):
        raise bad_setting("selector", "tables [selector.NAME] of settings", tables)
    for name, table in tables.items():
        if name not in names:
            cure = "Add it to selectors, or remove the table."
            raise bad_setting("A table [selector.NAME]", f"one of {', '.join(names)}", name, cure)
        if not isinstance(table, Mapping):
            raise bad_setting(f"selector.{name}", "a table of settings", table)
    selectors = {}
    for name in (n for n in names if "of" not in tables.get(n, {})):
        _require_method(name, tables.get(name, {}))
        selectors[name] = _selector(name, values, tables.get(name, {}), plans, home)
    for name in (n for n in names if n not in selectors):
        selectors[name] = _control(name, tables[name], selectors)
    return tuple(selectors[name] for name in names)


def _control(name: str, table: Mapping[str, Any], selectors: Mapping[str, Selector]) -> Selector:
    """A control: it uses another selector's model of another task, with all its settings."""
    original = typed(f"selector.{name}.of", "str", table["of"])
    if name in WITHOUT_SELECTION or _is_method(name):
        cure = "Give the selector a name that is no method, such as other."
        raise bad_setting(f"selector.{name}.of", f"left out, as {name} is a method", original, cure)
    for key in table.keys() - {"of"}:
        raise bad_setting(f"selector.{name}.{key}", f"left out, as {original} sets it", table[key])
    plain = [n for n, selector in selectors.items() if not selector.of]
    if original not in plain:
        raise unknown_name(f"selector.{name}.of", original, plain)
    return dataclasses.replace(selectors[original], name=name, of=original)


def _require_method(name: str, table: Mapping[str, Any]) -> None:
    """Raise `UsageError` unless exactly one setting names a selector's method."""
    method = table.get("method", {})
    named = method["name"] if isinstance(method, Mapping) and "name" in method else ""
    if name in WITHOUT_SELECTION or _is_method(name):
        if "sources" in table:
            cure = "Give the selector a name that is no method, such as law."
            got = table["sources"]
            raise bad_setting(f"selector.{name}.sources", "left out with a method", got, cure)
        if named and named != name:
            cure = "Give the selector another name."
            raise bad_setting(f"selector.{name}.method.name", "left out", named, cure)
    elif not named and not {"model", "compose", "sources"} & table.keys():
        setting = "A selector without method.name in its table"
        if name == "auto":
            require(name, setting)
        raise unknown_name(setting, name, [*WITHOUT_SELECTION, *method_names()])


def _is_method(name: str) -> bool:
    """Whether `--method` takes this name."""
    return name.split(":", 1)[0] in method_names()


def _selector(
    name: str,
    values: Mapping[str, Any],
    table: Mapping[str, Any],
    plans: Mapping[str, Mapping[str, Any]],
    home: Path,
) -> Selector:
    settings = dict(table)
    model, compose = (typed(f"selector.{name}.{k}", "str", settings.pop(k, "")) for k in _OWN)
    sources, dev = (
        _list(f"selector.{name}.{key}", settings.pop(key, []), "str") for key in ("sources", "dev")
    )
    # a selector that only names another model: no method, no selection of its own
    plain = not (sources or name in WITHOUT_SELECTION or _is_method(name) or "method" in settings)
    # a selector's own columns, else the recipe's, else the defaults
    columns: dict[str, Any] = {
        key: _list(f"selector.{name}.{key}", settings.pop(key), kind)
        if key in settings
        else (_list(key, values[key], kind) if key in values else start)
        for key, (kind, start) in _COLUMNS.items()
    }
    own_adapt = settings.pop("adapt", {})
    adapt = _adapting(name, plans["adapt"], _group("adapt", own_adapt, home, name))
    if "read" in settings:
        cure = "Put it in [select.read], as all selectors read the same corpus."
        raise bad_setting(f"selector.{name}.read", "left out", settings["read"], cure)
    method = settings.pop("method", {})
    if isinstance(method, Mapping):
        method = {
            k: _model(v, home) if k in _FILES and isinstance(v, str) else v
            for k, v in method.items()
        }
    # the recipe's settings first, then the method by name, then the selector's own settings
    plan = _changed(Plan(), plans["select"], "select")
    if _is_method(name):
        plan = plan.with_value("method.name", name)
    settings = {**_group("select", settings, home, name), "method": method}
    plan = _changed(plan, settings, _table("select", name))
    return Selector(
        name,
        plan,
        dataclasses.replace(adapt, read=plan.read),
        **columns,
        model=_model(model, home),
        compose=located(compose, home) if compose else "",
        sources=sources,
        dev=dev,
        plain=plain and not compose,
    )


def _adapting(name: str, shared: Mapping[str, Any], own_adapt: Mapping[str, Any]) -> AdaptPlan:
    """The plan of an adaptation; that of `task` starts from TAPT (Gururangan et al., 2020)."""
    plan = AdaptPlan()
    if name == TASK:
        for path, value in TAPT.items():
            plan = plan.with_value(path, value)
    for selector, values in (("", shared), (name, own_adapt)):
        train = values.get("train", {})
        if isinstance(train, Mapping) and {"max_steps", "epochs"} & train.keys():
            plan = plan.with_value("train.max_steps", None).with_value("train.epochs", None)
        plan = _changed(plan, values, _table("adapt", selector))
    return plan


def _table(group: str, selector: str) -> str:
    """The table of a plan's settings, of one selector or of all."""
    if not selector:
        return group
    return f"selector.{selector}.adapt" if group == "adapt" else f"selector.{selector}"


def _changed(plan: _P, values: Mapping[str, Any], table: str) -> _P:
    """A plan with the settings of a table, which errors name."""
    with in_table(table):
        return plan.with_values(values, f"{table}.")
