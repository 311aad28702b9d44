"""Settings in groups, from TOML, JSON or `a.b=c` overrides, checked against their types."""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

from corpusfit.core.errors import UsageError, bad_setting, raise_machine_fault
from corpusfit.core.gone import gone
from corpusfit.core.options import KINDS, Option, Setting, settings_of

SEED = Option("Random seed", "seed", minimum=0, below=2**63)
"""The option `seed` of every plan."""


@dataclass(frozen=True)
class Group:
    """Settings of one kind: a subclass has plain values, each `Annotated` with its `Option`.

    Attributes:
        group: name of the group in a plan, such as `choose`.
    """

    group: ClassVar[str]

    def __init_subclass__(cls, group: str) -> None:
        cls.group = group

    def check(self) -> None:
        """Raise `UsageError` for a value that is not allowed."""
        for name, setting in settings_of(type(self)).items():
            if name != "options":  # who they belong to checks them
                setting.check(getattr(self, name))
        self._check_together()

    def _check_together(self) -> None:
        """Raise `UsageError` for values that exclude each other, or have a form of their own."""


@dataclass(frozen=True)
class Settings:
    """Groups of settings: a subclass has `Group`s as fields, and `seed`.

    A group has plain values only, so that a plan can be TOML, JSON or a command line.
    """

    def check(self) -> Self:
        """The plan itself, after every group is checked."""
        for name in self._groups():
            getattr(self, name).check()
        settings_of(type(self))["seed"].check(self.as_dict()["seed"])
        self._check_together()
        return self

    def _check_together(self) -> None:
        """Raise `UsageError` for settings of several groups that exclude each other."""

    def _groups(self) -> list[str]:
        """The names of the groups."""
        return [field.name for field in dataclasses.fields(self) if field.name != "seed"]

    def as_dict(self) -> dict[str, Any]:
        """Plain nested values, ready for JSON or TOML."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """A plan from the values that a run stored; other settings keep their defaults."""
        return cls().with_values(values).check()

    def with_values(self, values: Mapping[str, Any], table: str = "") -> Self:
        """This plan with nested values; other settings stay. For `table` see `with_value`."""
        plan = self
        for path, value in _leaves(values):
            plan = plan.with_value(path, value, table)
        return plan

    def with_toml(self, path: Path) -> Self:
        """This plan with the settings of a TOML file."""
        return self.with_values(read_toml("`plan`", path))

    def with_overrides(self, overrides: Iterable[str]) -> Self:
        """This plan after overrides like `cut.gamma=5`; values are TOML, bare words are strings."""
        plan = self
        for item in overrides:
            path, sign, raw = item.partition("=")
            if not sign:
                raise bad_setting("`settings`", "KEY=VALUE", item, "For example `cut.gamma=5`.")
            try:
                import tomllib  # help does without it

                value = tomllib.loads(f"v = {raw}")["v"]
            except ValueError:
                value = raw
            plan = plan.with_value(path.strip(), value)
        return plan

    def overrides(self, *, all_of_them: bool = False) -> list[str]:
        """The settings that differ from their defaults, in the form of `with_overrides`."""
        plain = {} if all_of_them else dict(_leaves(type(self)().as_dict()))
        return [
            f"{path}={_as_toml(value)}"
            for path, value in _leaves(self.as_dict())
            if path not in plain or plain[path] != value
        ]

    def with_value(self, path: str, value: Any, table: str = "") -> Self:
        """This plan with one setting changed; a group's `options` hold other names."""
        group_name, _, name = path.partition(".")
        if path == "seed":
            return self._changed("seed", settings_of(type(self))["seed"].typed(value))
        if group_name not in self._groups():
            raise unknown(path, [*self._groups(), "seed"], of_plan=True, table=table)
        group = getattr(self, group_name)
        known = settings_of(type(group))
        if not name:
            first = next(iter(known))
            cure = f"For example `{path}.{first}={getattr(group, first)}`."
            raise bad_setting(f"{table}{path}", f"a group of {', '.join(known)}", value, cure)
        if "options" in known and name not in known:
            name = name.removeprefix("options.")
            changed = dataclasses.replace(group, options={**group.options, name: value})
        elif name in known:
            changed = dataclasses.replace(group, **{name: known[name].typed(value)})
        else:
            raise unknown(path, [f"{group_name}.{other}" for other in known], table=table)
        return self._changed(group_name, changed)

    def _changed(self, name: str, value: Any) -> Self:
        return dataclasses.replace(self, **{name: value})


@dataclass(frozen=True)
class NoSettings:
    """No settings of its own."""


def setting(default: Any, **limits: Any) -> Any:
    """A field of a class's own settings, with a default and the limits of an `Option`."""
    return field(default=default, metadata={"option": Option("", **limits)})


def check_own(settings: Any, group: str) -> None:
    """Raise `UsageError` for a value beyond the limits of its field, made by `setting`."""
    for each in dataclasses.fields(settings):
        if option := each.metadata.get("option"):
            limited = Setting(f"{group}.{each.name}", (), each.default, option)
            limited.check(getattr(settings, each.name))


def own_values(cls: type, values: Mapping[str, Any], group: str) -> dict[str, Any]:
    """The values of a class's own settings, which are its fields, in their types.

    Raises:
        UsageError: the type of a value is another.
    """
    defaults = {each.name: each.default for each in dataclasses.fields(cls)}
    own = dict(values)
    for key, value in values.items():
        default = defaults[key]
        if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
            own[key] = float(value)
        elif isinstance(default, tuple) and isinstance(value, list):
            own[key] = tuple(value)
        elif default not in (dataclasses.MISSING, None) and type(default) is not type(value):
            kind = KINDS.get(type(default).__name__, "a list")
            raise bad_setting(f"`{group}.{key}`", kind, value)
    return own


def own_settings(cls: type, values: Mapping[str, Any], group: type[Group]) -> Any:
    """The own settings of what a group names, such as an objective; it has them as `options`.

    Raises:
        UsageError: there is no such setting, or its value is not allowed.
    """
    names = [each.name for each in dataclasses.fields(cls)]
    for name in values.keys() - set(names):
        every = [other for other in settings_of(group) if other != "options"] + names
        raise unknown(f"{group.group}.{name}", [f"{group.group}.{other}" for other in every])
    settings = cls(**own_values(cls, values, group.group))
    check_own(settings, group.group)
    return settings


RENAMED = {
    "rate": "learning_rate",
    "steps": "max_steps",
    "warmup": "warmup_steps",
    "decay": "weight_decay",
    "clip": "max_grad_norm",
    "schedule": "lr_scheduler_type",
    "beta2": "adam_beta2",
    "lr": "learning_rate",
    "num_train_epochs": "epochs",
    "per_device_train_batch_size": "batch",
    "warmup_ratio": "warmup_steps",
    "model_name_or_path": "model",
    "output_dir": "out",
    "max_seq_length": "length",
}
"""Settings and options by other names: those of before, and of transformers where ours differ."""


def renamed(name: str, known: Iterable[str], before: str = "") -> UsageError | None:
    """The error for a name that left, or another one of a `known` setting; None for others."""
    if sentence := gone(f"{before}{name}"):
        return UsageError(sentence)
    group, dot, last = name.rpartition(".")
    new = f"{group}{dot}{RENAMED.get(last, last)}"
    if new == name or new not in known:
        return None
    return UsageError(f"`{before}{name}` is called `{before}{new}`.")


def positive(setting: str, value: float) -> None:
    """Raise `UsageError` unless a value is above 0 and finite."""
    if not 0 < value < math.inf:
        raise bad_setting(setting, "above 0", value)


def one_of(setting: str, value: Any, allowed: tuple[str, ...]) -> None:
    """Raise `UsageError` unless a word is allowed; the message leaves out the empty word."""
    if value not in allowed:
        raise bad_setting(setting, f"one of {', '.join(filter(None, allowed))}", value)


def _leaves(values: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        elif value is not None:
            yield f"{prefix}{key}", value


def _as_toml(value: Any) -> str:
    """A plain value in TOML."""
    return repr(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)


def read_toml(setting: str, path: Path) -> dict[str, Any]:
    """The values of a TOML file; `setting` names it in the error of an unreadable one."""
    import tomllib

    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as e:  # no UTF-8, or no TOML
        raise_machine_fault(e, f"Cannot read {path}")
        raise UsageError(f"{setting} must be a readable TOML file; {path}: {e}.") from e


def unknown(path: str, allowed: list[str], *, of_plan: bool = False, table: str = "") -> UsageError:
    """The error for a setting that does not exist, with a similar one."""
    if sentence := gone(path):
        return UsageError(sentence)
    group, dot, name = path.partition(".")
    similar = difflib.get_close_matches(group if of_plan else path, allowed, n=1)
    if of_plan:
        end = f"{dot}{name}" if similar != ["seed"] else ""
        guess = f"Perhaps {table}{similar[0]}{end}? " if similar else ""
        where = f"The table [{table[:-1]}]" if table else "`settings` (or the plan)"
        sections = ", ".join(allowed[:-1])
        return UsageError(
            f"{where} must name a setting in one of the sections {sections}, or seed; got "
            f"{table + path!r}. {guess}All settings: "
            "https://corpusfit.github.io/corpusfit/settings/"
        )
    if error := renamed(path, allowed, table):
        return error
    cure = f"Perhaps {table}{similar[0]}?" if similar else ""
    names = ", ".join(f"{table}{name}" for name in allowed)
    return bad_setting("A setting", f"one of {names}", f"{table}{path}", cure)
