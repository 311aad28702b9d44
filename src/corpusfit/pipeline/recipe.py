"""A recipe: which tasks, which ways of selecting, how often, as one TOML file says it.

What: frozen dataclasses of all that a table of results is made from, and the reading of them.
Why: a table that anyone can make again is a file, not a shell's history.
Trade-off: paths count from the recipe's own folder, and `${NAME}` is the environment's, so that a
recipe can lie in a repository and name no machine; a variable that is not set is an error.
Reference: TADPOLE, sections 4 to 4.2: what its Table 3 compares.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from corpusfit.adapt.plan import AdaptPlan
from corpusfit.adapt.presets import preset
from corpusfit.errors import UsageError, bad_setting
from corpusfit.evaluate.plan import METRICS, EvaluatePlan
from corpusfit.pipeline.given import TASK
from corpusfit.plan import Plan
from corpusfit.score import registry
from corpusfit.settings import Settings, one_of, positive, typed, unknown

__all__ = ["BASE", "GENERAL", "ORACLE", "RANDOM", "Recipe", "RecipeTask", "Selector", "read_recipe"]

BASE, GENERAL, RANDOM, ORACLE = "base", "general", "random", "oracle"
_OWN = (BASE, GENERAL, TASK)
"""Selectors that select nothing."""

WEIGHTS = ("off", "lambda", "resample", "mask+lambda")
ADAPTERS = ("", "pfeiffer", "lora")
AUGMENTS = ("", "tfidf", "backtranslate")
_P = TypeVar("_P", bound=Settings)


@dataclass(frozen=True)
class RecipeTask:
    """One task of a recipe.

    Attributes:
        name: as it stands in the tables.
        path: where it is, as `corpusfit evaluate --task` takes it.
        metric: the score that is compared; by the kind of task when left out.
        oracle: globs of the names of the pile's sources that are of its domain.
    """

    name: str
    path: str
    metric: str = "auto"
    oracle: tuple[str, ...] = ()

    def check(self) -> None:
        """Raise `UsageError` for a value that is not allowed."""
        for field in ("name", "path"):
            if not getattr(self, field):
                raise bad_setting(f"tasks.{field}", "given for every task", "nothing")
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
    """

    name: str
    select: Plan
    adapt: AdaptPlan
    fractions: tuple[float, ...]
    weights: tuple[str, ...]
    adapters: tuple[str, ...]
    augment: tuple[str, ...]

    @property
    def selects(self) -> bool:
        """Whether a part of the pile is selected for it."""
        return self.name not in _OWN

    @property
    def graded(self) -> bool:
        """Whether its scores say more or less, so that an amount and weights make sense."""
        return self.selects and self.name != ORACLE

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
    evaluate: EvaluatePlan = EvaluatePlan()
    seeds: int = 8
    seed: int = 0
    train_sizes: tuple[int, ...] = ()
    adaptations: int = 1
    compare: str = BASE
    pairs: tuple[tuple[str, ...], ...] = ()
    keep_overlap: bool = False
    watts: float = 10.0
    gpu_watts: float = 400.0

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
        for part in (*self.tasks, *self.selectors):
            part.check()
        self._check_names()
        return self

    def _check_names(self) -> None:
        """Raise `UsageError` where what is needed for a selector is not said."""
        names = [s.name for s in self.selectors]
        reading = [s.name for s in self.selectors if s.name not in (BASE, TASK)]
        if reading and not self.pile:
            raise bad_setting("pile", f"given for {', '.join(reading)}", "nothing")
        lacking = [t.name for t in self.tasks if not t.oracle]
        if ORACLE in names and lacking:
            cure = 'For instance oracle = ["bio_*"]: names of the pile\'s sources.'
            allowed = "given for every task with the selector oracle"
            raise bad_setting("tasks.oracle", allowed, f"nothing for {', '.join(lacking)}", cure)
        for setting, named in [
            ("compare", self.compare),
            *(("pairs", name) for pair in self.pairs for name in pair),
        ]:
            if named not in names:
                raise _near(setting, named, names)
        for pair in self.pairs:
            if len(pair) != 2 or pair[0] == pair[1]:
                raise bad_setting("pairs", 'of two selectors, as ["auto", "random"]', list(pair))


def _several(setting: str, values: Sequence[Any]) -> None:
    """Raise `UsageError` for an empty list, and for a value that is there twice."""
    if not values:
        raise bad_setting(setting, "at least one", "nothing")
    twice = [v for i, v in enumerate(values) if v in values[:i]]
    if twice:
        raise bad_setting(setting, "different from each other", f"{twice[0]} twice")


def _near(setting: str, came: object, allowed: Sequence[str]) -> UsageError:
    """The error for an unknown word, with the nearest that is known."""
    near = difflib.get_close_matches(str(came), allowed, n=1, cutoff=0.0)
    cure = f"Perhaps {near[0]}?" if near else ""
    return bad_setting(setting, f"one of {', '.join(allowed)}", came, cure)


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
        "task.metric": "metric of each task",
        "augment.kind": "augment",
        "seed": "seed",
    },
}
"""Settings of the plans that the recipe says itself, and where."""


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
    try:
        raw = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as e:
        raise UsageError(f"The recipe must be a readable TOML file; {path}: {e}.") from e
    values = _expanded(raw)
    for key in values.keys() - set(_KNOWN):
        raise unknown(key, list(_KNOWN))
    home = path.absolute().parent
    given: dict[str, Any] = {k: typed(k, _PLAIN[k], v) for k, v in values.items() if k in _PLAIN}
    if "train_sizes" in values:
        given["train_sizes"] = _list("train_sizes", values["train_sizes"], "int")
    given["models"] = tuple(_model(m, home) for m in _models(values))
    given["pile"] = tuple(_located(p, home) for p in _list("pile", values.get("pile", []), "str"))
    given["tasks"] = _tasks(values.get("tasks", []), home)
    given["pairs"] = tuple(_list("pairs", p, "str") for p in _array("pairs", values))
    plans = {group: _group(group, values.get(group, {}), home) for group in _GROUPS}
    given["evaluate"] = EvaluatePlan().with_values(plans["evaluate"])
    given["selectors"] = _selectors(values, plans, home)
    given.setdefault("name", "")
    return Recipe(**given).check()


def _expanded(value: Any) -> Any:
    """Nested values with the environment's variables in their texts."""
    if isinstance(value, Mapping):
        return {k: _expanded(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_expanded(v) for v in value]
    if not isinstance(value, str):
        return value
    for name in re.findall(r"\$\{(\w+)\}", value):
        if name not in os.environ:
            cure = f"For instance export {name}=/data before the command."
            allowed = "a variable of the environment that is set"
            raise bad_setting(f"${{{name}}} in the recipe", allowed, "nothing", cure)
        value = value.replace(f"${{{name}}}", os.environ[name])
    return value


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


def _located(named: str, home: Path) -> str:
    """An input as the recipe names it, found from its folder."""
    if "://" in named or named.startswith("hub:"):
        return named
    return str(home / Path(named).expanduser())


def _model(named: str, home: Path) -> str:
    """A model's folder, if there is one; else what is named is a hub id, or an embedder."""
    return _located(named, home) if named and (home / Path(named).expanduser()).exists() else named


def _tasks(tables: Any, home: Path) -> tuple[RecipeTask, ...]:
    """The tasks of `[[tasks]]`."""
    if not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables):
        raise bad_setting("tasks", "tables [[tasks]] with name and path", tables)
    types = {"name": "str", "path": "str", "metric": "str"}
    found = []
    for table in tables:
        for key in table.keys() - {*types, "oracle"}:
            raise unknown(f"tasks.{key}", [f"tasks.{k}" for k in (*types, "oracle")])
        given = {k: typed(f"tasks.{k}", types[k], v) for k, v in table.items() if k in types}
        place = given.get("path", "")
        given["path"] = _located(place, home) if place else ""
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
            raise _near("A table [selector.NAME]", name, names)
        if not isinstance(table, Mapping):
            raise bad_setting(f"selector.{name}", "a table of settings", table)
    found = []
    for name in names:
        if name not in (*_OWN, *tables) and not _is_method(name):
            known = [*_OWN, "auto", *registry.names(), *tables]
            raise _near("selectors", name, list(dict.fromkeys(known)))
        found.append(_selector(name, values, tables.get(name, {}), plans, home))
    return tuple(found)


def _is_method(name: str) -> bool:
    """Whether it is what --method takes."""
    return name.split(":", 1)[0] in ("auto", *registry.names())


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
