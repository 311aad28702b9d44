"""Which settings of a plan a public function takes as keywords, and its command as options.

A function of an `api.py` takes a plan, or keywords that change one: `select(..., fraction=0.1)`.
`Keywords`, a constant of that file, says which settings of the plan these are. The decorator
`@with_keywords(SELECT)` writes them into the signature and the docstring, so that the function is
called with keywords that type checkers know, and the command line makes its options from the same
keywords. `Keywords.build` turns the keywords of a call into a plan.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar, cast

from corpusfit.core.errors import CorpusfitError, UsageError, bad_setting
from corpusfit.core.gone import gone
from corpusfit.core.options import Setting, settings_of
from corpusfit.core.settings import Settings, renamed

_F = TypeVar("_F", bound=Callable[..., Any])
_S = TypeVar("_S", bound=Settings)

Inputs: TypeAlias = str | os.PathLike[str] | Iterable[Any]
"""Names of inputs or a finished run; in memory, texts or dicts, a data frame, an Arrow table, a
`datasets.Dataset`, or several of these by name in a mapping or a `datasets.DatasetDict`."""

MACHINE = {
    "engine": ("str | None", "where to run: local, inline or ray"),
    "workers": ("int | None", "number of worker processes (default: one per core)"),
    "cache": ("str | Path | None", "folder or URL for what later commands need again"),
    "verify": ("bool | None", "read input files again, whatever the cache knows of them"),
}
"""The keywords in place of `machine`, with their types and descriptions."""


@dataclass(frozen=True)
class Keywords(Generic[_S]):
    """The options that a command takes: settings of a plan that have a word."""

    plan: type[_S]  # the class of the plan
    parts: tuple[str, ...]  # groups of the plan, or single settings, in the order of `--help`
    required: tuple[str, ...] = ()  # words that the command line requires
    # fields of an `Option` that are different for this command, by word
    differs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # another setting, as the example in the help of `settings` and `--set`; empty for a command
    # that takes neither these nor a plan
    example: str = ""

    @cached_property
    def settings(self) -> dict[str, Setting]:
        """The settings by their words, in the order of `--help`."""
        every = settings_of(self.plan).items()
        by_word = {
            setting.option.word: setting
            for part in self.parts
            for path, setting in every
            if setting.option.word and f"{path}.".startswith(f"{part}.")
        }
        for word, other in self.differs.items():
            by_word[word] = replace(by_word[word], option=replace(by_word[word].option, **other))
        return by_word

    def build(
        self,
        plan: Settings | Path | str | None,  # a plan of this class, a TOML file, or None
        settings: Sequence[str],  # settings by their paths
        # values by keyword, of which None is left out and other words than these are ignored
        options: Mapping[str, object],
        # the plan that a file changes (default: all settings have their defaults)
        start: _S | None = None,
    ) -> _S:
        """A plan or a TOML file, changed by keywords, then by `a.b=c` settings; it is not checked.

        Raises:
            UsageError: a setting does not exist, or its value has the wrong type.
        """
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


def _unknown_keyword(function: str, word: str, known: Iterable[str], cure: str) -> UsageError:
    """The error for a keyword that a function does not have, with its new or a similar name."""
    if sentence := gone(f"{function} --{word}"):
        return UsageError(sentence)
    if error := renamed(word, known):
        return error
    names = list(known)
    similar = difflib.get_close_matches(word, names, n=1)
    cure = f"Perhaps {similar[0]}?" if similar else cure
    return bad_setting("A keyword", f"one of {', '.join(names)}", word, cure)


_ARGUMENTS = {
    "plan": "a plan or a TOML file with settings.",
    "settings": "further settings, such as `{!r}`.",
    "overwrite": "replace a different run in `out`.",
    "machine": "where to run, with how many workers, and where to show progress.",
}
"""Arguments that public functions share, described for those that do not describe them."""


def with_keywords(keywords: Keywords[Any] | None = None) -> Callable[[_F], _F]:
    """List a public function's keywords one by one, in its signature and its documentation.

    Type checkers read them from `typed_options`, and the command line makes options of them.
    """

    def wrap(function: _F) -> _F:
        signature = inspect.signature(function)
        *parameters, _ = signature.parameters.values()
        about = inspect.getdoc(function) or ""
        shared = "".join(
            f"    {p.name}: {_ARGUMENTS[p.name].format(keywords.example if keywords else '')}\n"
            for p in parameters
            if p.name in _ARGUMENTS and f"    {p.name}: " not in about
        )
        about = re.sub(
            r"(Args:\n(?:    .*(?:\n|$))+)", lambda m: f"{m[1].rstrip()}\n{shared}", about
        )
        if "Raises:" not in about:
            about = f"{about.rstrip()}\n\nRaises:\n    CorpusfitError: see `corpusfit.core.errors`."
        function.__doc__ = about
        return _with_signature(function, parameters, keywords)

    return wrap


def dry_run(*functions: Callable[..., Any], without: Sequence[str] = ()) -> Callable[[_F], _F]:
    """Make a function the dry run of public functions, with the signature of the first.

    Args:
        functions: the functions, with the same plan.
        without: their arguments that a dry run does not take.
    """

    def wrap(function: _F) -> _F:
        first = functions[0]
        keywords = vars(first)["keywords"]
        parameters = [
            parameter
            for name, parameter in inspect.signature(first).parameters.items()
            if name not in (*without, *MACHINE, *(keywords.settings if keywords else ()))
        ]
        estimate = _with_signature(function, parameters, keywords)
        for public_function in functions:
            vars(public_function)["dry_run"] = estimate
        return estimate

    return wrap


def _with_signature(
    function: _F, parameters: Sequence[inspect.Parameter], keywords: Keywords[Any] | None
) -> _F:
    """The function with its keywords in its signature and docstring; it refuses others."""
    function = _refusing(function, keywords)
    settings = keywords.settings if keywords else {}
    types = {word: keyword_type(setting) for word, setting in settings.items()}
    types |= {word: kind for word, (kind, _) in MACHINE.items()}
    helps = {w: f"{s.option.help} (default: {s.shown_default})" for w, s in settings.items()}
    helps |= {word: about for word, (_, about) in MACHINE.items()}
    listed = [
        inspect.Parameter(word, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for word, kind in types.items()
    ]
    returned = inspect.signature(function).return_annotation
    signature = inspect.Signature([*parameters, *listed], return_annotation=returned)
    described = "".join(f"    {word}: {about}.\n" for word, about in helps.items())
    vars(function).update(__signature__=signature, keywords=keywords)
    function.__doc__ = f"{inspect.getdoc(function)}\n\nOptions:\n{described}"
    return function


def _refusing(function: _F, keywords: Keywords[Any] | None) -> _F:
    """The function, which refuses a call without a required argument, and unknown keywords."""
    by_path = bool(keywords and keywords.example)  # whether it takes settings by their paths
    cure = "Other settings: settings=['a.b=VALUE']." if by_path else ""
    own = inspect.signature(function).parameters
    required = [
        name for name, p in own.items() if p.default is p.empty and p.kind is not p.VAR_KEYWORD
    ]
    first = [name for name, p in own.items() if p.kind is p.POSITIONAL_OR_KEYWORD]

    @functools.wraps(function)
    def refusing(*arguments: Any, **options: Any) -> Any:
        known = inspect.signature(refusing).parameters
        for word in options.keys() - known.keys():
            raise _unknown_keyword(function.__name__, word, known, cure)
        given = {*first[: len(arguments)], *options}
        for name in required:
            if name not in given:
                entry = rf"^ *{name}: (.+(?:\n {{8}}.+)*)"
                about = re.search(entry, refusing.__doc__ or "", re.MULTILINE)
                # the first clause of what may be several lines
                clause = re.split(r"[;.]\s", " ".join(about[1].split()))[0] if about else ""
                what = clause and f": {clause.rstrip('.')}"
                raise UsageError(f"`{name}` must be given{what}.")
        try:
            return function(*arguments, **options)
        except CorpusfitError as e:
            if keywords and not by_path:
                e.words = {setting.path: word for word, setting in keywords.settings.items()}
            raise

    return cast("_F", refusing)


def keyword_type(setting: Setting) -> str:
    """The type of a setting's keyword, as an annotation."""
    option = setting.option
    types = [t for t in setting.types if t != "None"]
    if option.items is not None:
        item = option.items.__name__
        several = f"Sequence[{item}]"
        return " | ".join([*dict.fromkeys(("str", item)), several, "None"])
    if option.allowed and not option.pattern and not option.registry:
        values = ", ".join(json.dumps(word) for word in option.allowed)
        types = [f"Literal[{values}]" if t == "str" else t for t in types]
    if option.metavar in ("FOLDER", "MODEL"):
        types.append("Path")
    return " | ".join([*types, "None"])
