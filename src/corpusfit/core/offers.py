"""What a function and its command offer: options of a plan as keywords, and the plan they make."""

from __future__ import annotations

import difflib
import inspect
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

from corpusfit.core.errors import bad_setting
from corpusfit.core.options import Setting, settings_of
from corpusfit.core.settings import Settings

_F = TypeVar("_F", bound=Callable[..., Any])
_S = TypeVar("_S", bound=Settings)

Inputs: TypeAlias = str | os.PathLike[str] | Iterable[Any]
"""Names of inputs or a finished run; in memory, texts or dicts, a data frame, an Arrow table, a
`datasets.Dataset`, or several of these by name in a mapping or a `datasets.DatasetDict`."""

MACHINE = {
    "engine": ("str | None", "where to run: local, inline or ray"),
    "workers": ("int | None", "number of worker processes (default: one per core)"),
    "cache": ("str | Path | None", "folder or URL for what later commands need again"),
}
"""The keywords in place of `machine`, with their types and what they are."""


@dataclass(frozen=True)
class Offer(Generic[_S]):
    """The options that a command offers: settings of a plan that have a word.

    Attributes:
        plan: the class of the plan.
        parts: groups of the plan, or single settings, in the order of `--help`.
        required: words that the command line requires.
        differs: fields of an `Option` that are different for this command, by word.
        aliases: words of the command's own for settings of the plan, by path.
    """

    plan: type[_S]
    parts: tuple[str, ...]
    required: tuple[str, ...] = ()
    differs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def settings(self) -> dict[str, Setting]:
        """The settings by their words, in the order of `--help`."""
        every = settings_of(self.plan).items()
        found = {
            setting.option.word: setting
            for part in self.parts
            for path, setting in every
            if setting.option.word and f"{path}.".startswith(f"{part}.")
        }
        for word, other in self.differs.items():
            found[word] = replace(found[word], option=replace(found[word].option, **other))
        return found

    def build(
        self,
        plan: Settings | Path | str | None,
        settings: Sequence[str],
        options: Mapping[str, object],
        start: _S | None = None,
    ) -> _S:
        """A plan, or a TOML file's, changed by keywords, then by `a.b=c` settings; not checked.

        Args:
            plan: a plan of the offer's class, a TOML file, or None.
            settings: settings by their paths.
            options: values by keyword, of which None is left out and `MACHINE` ignored.
            start: the plan that a file changes (default: all settings have their defaults).

        Raises:
            UsageError: a keyword or a setting does not exist, or its value has the wrong type.
        """
        for word in options.keys() - self.settings.keys() - MACHINE.keys():
            similar = difflib.get_close_matches(word, self.settings, n=1)
            other = "Other settings: settings=['a.b=VALUE']."
            cure = f"Perhaps {similar[0]}?" if similar else other
            raise bad_setting("A keyword", f"one of {', '.join(self.settings)}", word, cure)
        built = start or self.plan()
        if isinstance(plan, self.plan):
            built = plan
        elif plan is not None:
            built = built.with_toml(Path(str(plan)))
        for word, setting in self.settings.items():
            value: Any = options.get(word)
            if value is None:
                continue
            if setting.option.items is not None and not isinstance(value, str):
                value = ",".join(map(str, value if isinstance(value, Sequence) else [value]))
            elif isinstance(value, os.PathLike):
                value = os.fspath(value)
            built = built.with_value(setting.path, value)
        return built.with_overrides(settings)


def offers(offer: Offer[Any] | None = None) -> Callable[[_F], _F]:
    """List a public function's keywords one by one, in its signature and its documentation.

    Type checkers read them from `typed_options`.
    """
    settings = offer.settings if offer else {}
    types = {word: keyword_type(setting) for word, setting in settings.items()}
    types |= {word: kind for word, (kind, _) in MACHINE.items()}
    helps = {w: f"{s.option.help} (default: {s.shown_default})" for w, s in settings.items()}
    helps |= {word: about for word, (_, about) in MACHINE.items()}

    def wrap(function: _F) -> _F:
        signature = inspect.signature(function)
        *given, options = signature.parameters.values()
        listed = [
            inspect.Parameter(word, options.KEYWORD_ONLY, default=None, annotation=kind)
            for word, kind in types.items()
        ]
        described = "".join(f"    {word}: {about}.\n" for word, about in helps.items())
        vars(function)["__signature__"] = signature.replace(parameters=[*given, *listed])
        function.__doc__ = f"{inspect.getdoc(function)}\n\nOptions:\n{described}"
        return function

    return wrap


def keyword_type(setting: Setting) -> str:
    """The type of a setting's keyword, as an annotation."""
    option, types = setting.option, [t for t in setting.types if t != "None"]
    if option.items is not None:
        item = option.items.__name__
        several = f"Sequence[{item}]"
        return " | ".join([*dict.fromkeys(("str", item)), several, "None"])
    if option.allowed:
        words = ", ".join(json.dumps(word) for word in option.allowed)
        types = [f"Literal[{words}]" if t == "str" else t for t in types]
    if option.metavar in ("FOLDER", "MODEL"):
        types.append("Path")
    return " | ".join([*types, "None"])
