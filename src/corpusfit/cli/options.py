"""Commands made of public functions: their arguments, options and help, and how they answer."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import typer

import corpusfit
from corpusfit.cli.show import as_json, say, stderr, with_flags
from corpusfit.core.artifacts import user_path
from corpusfit.core.errors import CorpusfitError, bad_setting
from corpusfit.core.keywords import MACHINE, Keywords
from corpusfit.core.options import amount

_F = TypeVar("_F", bound=Callable[..., Any])


class Name(str):
    """An input named on the command line; in Python, a plain string may be a text itself."""

    __slots__ = ()


EVERYWHERE = ("engine", "workers", "cache", "verify")
"""The keywords of `MACHINE`, for commands that run on any engine."""

RUN = "Run"
"""The heading in `--help` of options about how a command runs and what else it writes."""

_HEADINGS = {
    "Scoring": ("method", "embed"),
    "Selection": ("choose", "split"),
    "Clusters": ("mixture", "draw"),
    "Model": ("model", "adapter"),
    "Task": ("task", "decode", "likelihood"),
    "Training": ("train", "finetune", "objective", "weights", "mix", "then_task"),
    "Text": ("read", "cut", "fit"),
    RUN: ("seed",),
}
"""The headings in `--help`, each with groups of settings."""

_PHRASES = {
    "{INPUTS}": "a file, folder, glob, URL, hub:OWNER/NAME (dataset) or pair:FILE,FILE (two "
    "line-aligned files); repeatable",
    "{GUARD}": "a task's folder (its dev and test splits) or files; repeatable (default: none)",
    "{RUN_FOLDER}": "Folder or URL of a `corpusfit select` run",
}
_SHARED = """
    --target INPUT: Texts of your task: {INPUTS}
    --corpus INPUT: Texts to choose from: {INPUTS}
    --out FOLDER: Folder or URL for the results; a stopped run resumes there
    --guard-field NAME: Text field of the --guard files (default: --text-field)
"""
"""Arguments of several commands, in the form of the section Options of a command's docstring."""

_RUN_OPTIONS = """
    --plan FILE: TOML file with settings; options override them (default: none)
    --set KEY=VALUE: Any other setting, such as {EXAMPLE}; repeatable (default: none)
    --engine [local|inline|ray]: Where to run: local (processes of this machine), inline (this
        process, for small inputs) or ray (the running Ray cluster, or a new one on this machine)
        (default: local)
    --workers N: Number of worker processes (default: one per core, or per CPU of the Ray cluster)
    --cache FOLDER: Folder or URL for stored embeddings and token ids (default: $CORPUSFIT_CACHE,
        or the user's cache folder)
    --verify: Read all input files again, whatever the cache knows of them. Without it, a local file
        counts as unchanged if its size, its times and its inode did not change. A file
        in a store is known by the digest (ETag) that the store reports, with or without it
    --overwrite: Replace a different run in --out
    --dry-run: Print what would be read and how much time and space it would take; write nothing,
        so --out may be left out
    --no-report: Do not write report.html; `corpusfit report` can write one later
    --json: Print one JSON object on standard output
    --quiet: Show no progress and no notes, only warnings and the result
"""
"""Options of how commands run, in their order in `--help`."""

_ENTRY = re.compile(r"^ {4}(\S.*?): (.+(?:\n {8}.+)*)", re.MULTILINE)
_CODE = re.compile(r"`([^`]*)`")


def _parser(kind: Callable[[str], Any], allowed: str) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        try:
            return kind(text)
        except ValueError as e:
            raise typer.BadParameter(f"must be {allowed}; got {text!r}.") from e

    return parse


def sizes_of(listed: str) -> list[int]:
    """Whole numbers from a comma-separated text."""
    parts = [part.strip() for part in listed.split(",") if part.strip()]
    try:
        return [amount(part) for part in parts]
    except ValueError as e:
        cure = "For example --train-size 500,1000."
        allowed = "whole numbers separated by commas"
        raise bad_setting("--train-size", allowed, listed, cure) from e


# Typer also parses a default, which is a number
_whole_number = _parser(lambda text: amount(str(text)), "a whole number, such as 5000, 20k or 1M")


def _number_of(text: str) -> float:
    """A number; `10%` is 0.1, and 2k is 2000."""
    if text[-1:].lower() in ("k", "m", "b"):
        return float(amount(text))
    return float(text[:-1]) / 100 if text.endswith("%") else float(text)


def _rows_of(text: str) -> float:
    """A number of rows, or a share of them below 1; 100% is refused, as it would be one row."""
    number = _number_of(text)
    if text.endswith("%") and number >= 1:
        raise ValueError
    return number


_number = _parser(lambda text: _number_of(str(text)), "a number, such as 0.1 or 10%")
_BY_METAVAR = {
    "ROWS": _parser(_rows_of, "a number of rows, such as 2000, or a share below 100%"),
}
_PARSERS = {
    "int": _whole_number,
    "int | None": _whole_number,
    "float | None": _number,
    "float": _number,
    "Sequence[int]": sizes_of,
}
"""Parsers of command-line values, by the type of the function's parameter."""


@dataclass(frozen=True)
class _Entry:
    """An argument as the help lists it: its flags (none if it is positional), metavar and text."""

    flags: tuple[str, ...]
    metavar: str | None
    text: str

    @property
    def word(self) -> str:
        """The name of its parameter, whose own name may end in `s`."""
        return self.flags[0][2:].replace("-", "_") if self.flags else ""


def _entries(listed: str, example: str = "") -> list[_Entry]:
    entries = []
    for usage, folded in _ENTRY.findall(listed):
        words = usage.replace(", ", " ").split()
        flags = tuple(word for word in words if word.startswith("--"))
        text = " ".join(folded.split())
        for phrase, full in (*_PHRASES.items(), ("{EXAMPLE}", example)):
            text = text.replace(phrase, full)
        entries.append(_Entry(flags, next((w for w in words if w not in flags), None), text))
    return entries


@dataclass(frozen=True)
class Command:
    """A command, made of the public function of the same name in its package.

    Attributes:
        show: prints the result, and takes arguments of the request by name. Its docstring is the
            help, with a section Options for those that `_SHARED` does not have.
        machine: the keywords of `MACHINE` that are its options.
        plain: whether `show` is the whole command, which has no public function.
        keywords: its options, if it is plain.
        dry_run: prints what the dry run of the function returns.
        facts: makes the object for `--json` of a result and its request (default: its manifest).
        report: whether it writes a report beside its result.
        after: called with the result when all is written.
        together: whether several processes run it together, of which the first prints.
    """

    show: Callable[..., Any]
    machine: tuple[str, ...] = ("workers", "cache", "verify")
    plain: bool = False
    keywords: Keywords[Any] | None = None
    dry_run: Callable[..., None] | None = None
    facts: Callable[[Any, dict[str, Any]], Any] | None = None
    report: bool = False
    after: Callable[[Any], None] | None = None
    together: bool = False

    @property
    def name(self) -> str:
        """Its name."""
        return self.show.__name__

    @property
    def help(self) -> str:
        """What it does, with an example."""
        return (inspect.getdoc(self.show) or "").partition("\n\nOptions:\n")[0]

    def callback(self) -> Callable[..., None]:
        """The function from which Typer makes the command."""
        package = importlib.import_module(self.show.__module__.partition(".")[0])
        public = getattr(package, self.name, self.show)
        function = self.show if self.plain else public
        keywords: Keywords[Any] | None = self.keywords or vars(public).get("keywords")
        settings = keywords.settings if keywords else {}
        signature = inspect.signature(function).parameters
        declared = {
            name: parameter
            for name, parameter in signature.items()
            if parameter.kind is not parameter.VAR_KEYWORD
            and name
            not in ("plan", "settings", "machine", "callbacks", "json", *settings, *MACHINE)
        }
        listed = (inspect.getdoc(self.show) or "").partition("\n\nOptions:\n")[2]
        described = {}
        positional = iter(declared)
        for entry in (*_entries(_SHARED), *_entries(listed)):  # the last wins
            word = entry.word or next(positional)
            described[f"{word}s" if f"{word}s" in declared else word] = entry
        run = {
            entry.word: entry
            for entry in _entries(_RUN_OPTIONS, keywords.example if keywords else "")
        }
        flags_of = {name: described[name].flags for name in declared if name in described}
        names = {name: name for name in declared}
        # messages may also name an argument by its flag: `method` for the parameter `methods`
        names |= {entry.word: name for name, entry in described.items() if name in declared}
        if keywords:
            names |= {s.path: word for word, s in settings.items()}
        flags = {
            path: next(iter(flags_of.get(name, ())), f"--{name.replace('_', '-')}")
            for path, name in names.items()
        }

        hints: dict[str, tuple[Any, Any]] = {
            name: _argument(declared[name], described[name])
            for name in declared
            if name in described
        }
        if "dry_run" in described and "dry_run" not in declared:  # with a help of its own
            text = described["dry_run"].text
            hints["dry_run"] = (Annotated[bool, typer.Option("--dry-run", help=text)], False)
        for word in settings:
            required = word in keywords.required if keywords else False
            default = inspect.Parameter.empty if required else None
            hints[word] = (_option(settings[word], flags, required=required), default)
        kinds: dict[str, Any] = {}
        if keywords and keywords.example:
            kinds = {"plan": str | None, "set": list[str] | None}
        types = {"workers": int | None, "verify": bool}
        kinds |= {word: types.get(word, str | None) for word in self.machine}
        kinds |= {name: bool for name in declared if name not in described}  # such as overwrite
        if self.dry_run and "dry_run" not in described:
            kinds["dry_run"] = bool
        kinds |= {"no_report": bool} if self.report else {}
        kinds |= {"json": bool, "quiet": bool}
        for word, entry in run.items():
            if word in kinds:
                name = "settings" if word == "set" else word
                hints[name] = _run_option(kinds[word], entry)

        def call(**values: Any) -> None:
            self._run(function, values)

        parameters = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint
            )
            for name, (hint, default) in hints.items()
        ]
        call.__annotations__ = {name: hint for name, (hint, _) in hints.items()}
        dry = vars(function)["dry_run"] if self.dry_run else function
        unneeded = signature.keys() - inspect.signature(dry).parameters.keys()
        vars(call).update(
            __signature__=inspect.Signature(parameters), words=names, unneeded=unneeded
        )
        return call

    def _run(self, function: Callable[..., Any], values: dict[str, Any]) -> None:
        # the function has its own defaults
        values = {name: value for name, value in values.items() if value is not None}
        quiet = values.pop("quiet")
        if self.plain:
            self.show(**values)
            return
        json = values.pop("json")
        no_report = values.pop("no_report", False)
        if values.pop("dry_run", False) and self.dry_run:
            estimate = vars(function)["dry_run"]
            accepted = inspect.signature(estimate).parameters
            facts = estimate(**{name: v for name, v in values.items() if name in accepted})
            if not json:
                self.dry_run(facts)
            else:
                as_json(facts if isinstance(facts, dict) else dataclasses.asdict(facts))
            if isinstance(facts, dict) and not facts.get("enough", True):
                raise typer.Exit(CorpusfitError.exit_code)
            return
        places = [user_path(values[name]) for name in ("out", "folder") if name in values]
        reports = [report for place in places if (report := place / "report.html").exists()]
        result = function(**values)
        # of several processes, only the first prints
        if self.together and int(os.environ.get("RANK", "0")):
            return
        if not json:
            _, *names = inspect.signature(self.show).parameters
            stderr().quiet = quiet  # what is on standard output is the result
            try:
                self.show(result, **{name: values.get(name) for name in names})
            finally:
                stderr().quiet = False
        elif self.facts:
            as_json(self.facts(result, values))
        elif hasattr(result, "manifest"):
            as_json({"out": str(result.path), **result.manifest})
        else:
            as_json(dataclasses.asdict(result))
        if self.report and not no_report:
            write_report(result.path, quiet=json or quiet)
        elif self.report and not (json or quiet) and not all(report.exists() for report in reports):
            say(f"The earlier report showed another result and is removed: {reports[0]}")
        if self.after:
            self.after(result)


COMMANDS: dict[str, Command] = {}
"""The commands of the modules that are imported, by name."""


def command(**settings: Any) -> Callable[[_F], _F]:
    """Make a command of a function that shows its result; for the settings see `Command`."""

    def wrap(show: _F) -> _F:
        COMMANDS.setdefault(show.__name__, Command(show, **settings))  # ours come first and stay
        return show

    return wrap


def _argument(parameter: inspect.Parameter, entry: _Entry) -> tuple[Any, Any]:
    """The annotation and the default of a function's own parameter, for Typer."""
    kind = parameter.annotation
    default = parameter.default
    if not isinstance(kind, str):  # in a module without postponed annotations
        kind = inspect.formatannotation(kind)
    # repeatable options are marked in their help
    several = ("Inputs" in kind or "Sequence[str]" in kind) and (
        "repeat" in entry.text or not entry.flags
    )
    declared: dict[str, Any] = {"metavar": entry.metavar, "help": entry.text, "show_default": False}
    if kind == "bool":
        return Annotated[bool, typer.Option(*entry.flags, help=entry.text)], default
    typed: Any = list[str] if several else str
    if default is not parameter.empty and not default:
        default = None
        typed = typed | None
    if not entry.flags:
        return Annotated[typed, typer.Argument(**declared)], default
    parser = Name if entry.metavar == "INPUT" else _parser_of(kind, entry.metavar)
    return Annotated[typed, typer.Option(*entry.flags, parser=parser, **declared)], default


def _parser_of(kind: str, metavar: str | None) -> Callable[[Any], Any] | None:
    return _BY_METAVAR.get(metavar or "", _PARSERS.get(kind))


def _run_option(kind: Any, entry: _Entry) -> tuple[Any, Any]:
    parser = _whole_number if entry.metavar == "N" else None
    declared = typer.Option(
        *entry.flags,
        metavar=entry.metavar,
        help=entry.text,
        parser=parser,
        show_default=kind is bool,
        rich_help_panel=RUN,
    )
    return Annotated[kind, declared], False if kind is bool else None


def _option(setting: Any, flags: Mapping[str, str], *, required: bool) -> Any:
    """The annotation of a setting's option, for Typer."""
    default = setting.shown_default
    if "int" in setting.types and not setting.option.default:
        default = f"{setting.default:,}"
    text = setting.option.help
    if setting.metavar and not required:
        text = f"{text} (default: {default})"
    text = _CODE.sub(
        lambda code: code[0] if code[1].startswith("corpusfit ") else code[1],
        with_flags(text, flags, alone=True),
    )
    kind: Any = str if setting.metavar else bool
    group = setting.path.partition(".")[0]
    declared = typer.Option(
        f"--{setting.option.word.replace('_', '-')}",
        metavar=setting.metavar,
        parser=_parser_of(
            " | ".join(kind for kind in setting.types if kind != "None"), setting.metavar
        ),
        help=text,
        rich_help_panel=next(title for title, groups in _HEADINGS.items() if group in groups),
    )
    return Annotated[kind if required else kind | None, declared]


def write_report(folder: Any, *, quiet: bool) -> None:
    """Write the report of a command that has finished; a failure here is only a message."""
    try:
        message = f"Report: {corpusfit.report(folder)}"
    except CorpusfitError as e:
        message = f"No report written: {e}"
    if not quiet:
        say(message)
