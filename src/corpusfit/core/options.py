"""Options: type, default, bounds, help and flag are defined once, at a field of a plan."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from corpusfit.core.credentials import registered
from corpusfit.core.errors import bad_setting
from corpusfit.core.registry import Registry

KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "None": "left out",
}
"""Names of the types for the user."""


@dataclass(frozen=True)
class Option:
    """Metadata of a plan's field, given by `Annotated`."""

    # what the option is: a noun phrase or an imperative that stands alone; other settings are named
    # by their paths in backticks, such as `choose.fraction`
    help: str
    # word on the command line (`--word`) and in Python (`word=`); without one, `--set`, a plan and
    # `settings` set the option
    word: str = ""
    default: str = ""  # the default in words, if the value alone is unclear
    more: str = ""  # further text for `docs/settings.md`
    metavar: str = ""  # placeholder of the value in `--help` (default: by the type)
    allowed: tuple[str, ...] = ()  # the words that are allowed; empty for any
    pattern: str = ""  # of words that are allowed, too
    registry: Registry | None = None  # whose names are allowed, too
    cure: str = ""  # sentence for the error of a value that is not allowed
    above: float | None = None  # exclusive lower bound
    minimum: float | None = None  # inclusive lower bound
    below: float | None = None  # exclusive upper bound
    maximum: float | None = None  # inclusive upper bound
    items: type | None = None  # type of the items of a text that lists them, separated by commas

    @property
    def words(self) -> tuple[str, ...]:
        """The words that are allowed, without those of other packages; empty for any."""
        return (*self.allowed, *(self.registry.built_in() if self.registry else ()))

    def holds(self, number: float) -> bool:
        """Whether a number is finite and within the bounds."""
        return math.isfinite(number) and not (
            (self.above is not None and number <= self.above)
            or (self.minimum is not None and number < self.minimum)
            or (self.below is not None and number >= self.below)
            or (self.maximum is not None and number > self.maximum)
        )

    @property
    def range(self) -> str:
        """The allowed numbers, in words."""
        low = self.minimum if self.above is None else self.above
        high = self.maximum if self.below is None else self.below
        if low is None:
            return "a finite number"
        if high is None:
            return f"{low:g} or more" if self.above is None else f"above {low:g}"
        if high > 2**30:
            end = "at most" if self.below is None else "below"
            return f"{low:g} or more, and {end} 2^{math.log2(high):g}"
        if self.above is not None and self.below is not None:
            return f"between {low:g} and {high:g}"
        begin = "[" if self.above is None else "("
        end = "]" if self.below is None else ")"
        return f"in {begin}{low:g}, {high:g}{end}"


@dataclass(frozen=True)
class Setting:
    """A field of a plan with its option."""

    path: str  # its place in the plan, such as `choose.fraction`
    types: tuple[str, ...]  # names of its types, as in `KINDS`
    default: Any  # its default
    option: Option  # its annotation

    def typed(self, value: Any) -> Any:
        """A value of the setting's types; an int becomes a float."""
        return typed(f"`{self.path}`", " | ".join(self.types), value, self.option.cure)

    def check(self, value: Any) -> None:
        """Raise `UsageError` for a number outside the bounds or a word that is not allowed."""
        option = self.option
        plain = isinstance(value, bool) or value is None
        if plain or value == self.default:
            return
        if not isinstance(value, str):
            if not option.holds(value):
                raise bad_setting(f"`{self.path}`", option.range, value, option.cure)
        elif (
            (words := option.words)
            and value not in words
            and not (option.pattern and re.fullmatch(option.pattern, value))
        ):
            words += tuple(option.registry.plugins() if option.registry else ())
            if value in words:
                return
            begun = [word for word in words if value and word.startswith(value)]
            near = begun or difflib.get_close_matches(value, words, n=1)
            cure = option.cure or (f"Perhaps {near[0]}?" if near else "")
            raise bad_setting(f"`{self.path}`", f"one of {', '.join(words)}", value, cure)

    @property
    def metavar(self) -> str | None:
        """The placeholder of its value in `--help`; None for a flag."""
        if "bool" in self.types:
            return None
        numbers = {"float": "NUMBER", "int": "N"}
        placeholders = [numbers[kind] for kind in self.types if kind in numbers]
        name = self.path.rpartition(".")[2].upper()
        choices = f"[{'|'.join(self.option.words)}]" if self.option.words else name
        return self.option.metavar or (placeholders or [choices])[0]

    @property
    def shown_default(self) -> str:
        """The default for the user."""
        if isinstance(self.default, float):
            return self.option.default or f"{self.default:g}"
        return self.option.default or str(self.default)


def settings_of(group: type) -> Mapping[str, Setting]:
    """The settings of a group of a plan by their names, or of a plan by their paths."""
    key: Any = group
    return _settings_of(key)


@cache
def _settings_of(group: type) -> Mapping[str, Setting]:
    hints = get_type_hints(group, include_extras=True)
    name = getattr(group, "group", "")
    settings: dict[str, Setting] = {}
    for field in dataclasses.fields(group):
        hint = hints[field.name]
        if dataclasses.is_dataclass(hint):
            inner = settings_of(hint) if isinstance(hint, type) else {}
            settings |= {setting.path: setting for setting in inner.values()}
            continue
        if get_origin(hint) is not Annotated:
            continue
        kind, option = get_args(hint)[:2]
        several = get_args(kind) if get_origin(kind) is UnionType else (kind,)
        types = tuple("None" if t is NoneType else t.__name__ for t in several)
        path = f"{name}.{field.name}" if name else field.name
        settings[field.name] = Setting(path, types, field.default, option)
    return settings


_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)(?: ?([kmb])|e\+?(\d\d?))", re.IGNORECASE)
_FACTORS = {"k": 10**3, "m": 10**6, "b": 10**9}


def amount(text: str) -> int:
    """A whole number; 20k, 1.5M and 2b are thousands, millions and billions, 1e6 is a million.

    Raises:
        ValueError: it is none.
    """
    if match := _AMOUNT.fullmatch(text.strip()):
        factor = _FACTORS[match[2].lower()] if match[2] else 10 ** int(match[3])
        number = Decimal(match[1]) * factor
        if number == int(number):
            return int(number)
    return int(text)


def typed(setting: str, annotation: str, value: Any, cure: str = "") -> Any:
    """The value as the annotated type; an int becomes a float, a text such as 1M or 1e6 an int."""
    names = annotation.replace(" ", "").split("|")
    if isinstance(value, float) and "int" in names and "float" not in names and value.is_integer():
        value = int(value)
    if isinstance(value, str) and "int" in names and "str" not in names:
        with contextlib.suppress(ValueError):
            value = amount(value)
    if isinstance(value, str):
        value = registered(value)
    if "float" in names and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value).__name__ not in names and not (value is None and "None" in names):
        allowed = " or ".join(KINDS.get(name, name) for name in names)
        raise bad_setting(setting, allowed, value, cure)
    return value
