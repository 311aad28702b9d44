"""The options that several commands share, each worded once."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from corpusfit.cli.show import with_flags
from corpusfit.core.offers import Offer


class Name(str):
    """The name of an input; a plain string may be a text."""

    __slots__ = ()


INPUTS = (
    "a file, folder, glob, URL, OWNER/NAME or hub:NAME (dataset), pair:FILE,FILE (two line-aligned "
    "files) or - (standard input); repeatable"
)


def _parser(kind: Callable[[str], Any], allowed: str) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        try:
            return kind(text)
        except ValueError as e:
            raise typer.BadParameter(f"must be {allowed}; got {text!r}.") from e

    return parse


whole_number = _parser(int, "a whole number")
number = _parser(float, "a number")
share = _parser(lambda text: text if text == "auto" else float(text), "a number or auto")


def option(
    metavar: str, text: str, *words: str, parser: Any = None, heading: str | None = None
) -> Any:
    """An option that is named like its parameter, or by `words`; its help says the default."""
    return typer.Option(
        *words,
        metavar=metavar,
        help=text,
        parser=Name if metavar == "INPUT" else parser,  # on the command line an input is named
        show_default=False,
        rich_help_panel=heading,
    )


def flag(word: str, text: str) -> Any:
    """A switch that says how a command runs."""
    return typer.Option(word, help=text, rich_help_panel=RUN)


def guard(texts: str) -> Any:
    """The option `--guard` of a command that decontaminates some texts."""
    held = "a task's folder (its dev and test splits) or files; repeatable (default: none)"
    return option("INPUT", f"Held-out texts to decontaminate {texts} against: {held}")


RUN = "Run"
"""The heading in `--help` of how a command runs, and of what it does beside its result."""

_HEADINGS = {
    "Scoring": ("method", "embed", "cascade"),
    "Selection": ("choose", "search", "split"),
    "Clusters": ("mixture", "draw"),
    "Model": ("model", "adapter"),
    "Task": ("task", "augment", "decode", "likelihood"),
    "Training": ("train", "finetune", "objective", "weights", "mix", "then_task"),
    "Text": ("read", "cut", "fit"),
    RUN: ("seed",),
}
"""The headings in `--help`, each with groups of settings."""

_CODE = re.compile(r"`([^`]*)`")

Words: TypeAlias = dict[str, Any]
"""What a command passes on to the API: `plan`, `settings` and the words of its options."""


def offers(
    offer: Offer[Any], example: str = "", where: Sequence[str] = ("workers", "cache")
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of a plan in the place of its parameter `words`.

    Args:
        offer: what the command offers.
        example: a setting for the help of `--set`, such as `cut.gamma=5`; empty for a command
            without `--set` and `--plan`.
        where: the keywords of `offers.MACHINE` that are its options.
    """

    def wrap(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        own = [name for name in signature.parameters if name != "words"]

        @functools.wraps(command)
        def call(**values: Any) -> None:
            passed = {name: values.pop(name) for name in own}
            words: Words = {**values, **({"settings": values["settings"] or ()} if example else {})}
            command(**passed, words=words)

        names = {**{name: name for name in own}, **offer.aliases}
        names |= {setting.path: word for word, setting in offer.settings.items()}
        flags = {path: f"--{word.replace('_', '-')}" for path, word in names.items()}
        parameters: list[inspect.Parameter] = []
        for parameter in signature.parameters.values():
            listed = parameter.name == "words"
            parameters += _parameters(offer, example, where, flags) if listed else [parameter]
        hints = {parameter.name: parameter.annotation for parameter in parameters}
        call.__annotations__ = hints
        call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        call.offer, call.words = offer, names  # type: ignore[attr-defined]
        return call

    return wrap


def _parameters(
    offer: Offer[Any], example: str, where: Sequence[str], flags: Mapping[str, str]
) -> Iterator[inspect.Parameter]:
    """The options of an offer, then --plan and --set, as parameters for Typer."""
    hints = {word: _option(offer, word, flags) for word in offer.settings}
    if example:
        text = f"Any other setting, such as {example}; repeatable (default: none)"
        declared = option("KEY=VALUE", text, "--set", heading=RUN)
        text = "TOML file with settings; options override them (default: none)"
        file = option("FILE", text, heading=RUN)
        hints["plan"] = Annotated[Path | None, file]
        hints["settings"] = Annotated[list[str] | None, declared]
    hints |= {
        word: {"engine": EngineName, "workers": Workers, "cache": Cache}[word] for word in where
    }
    for word, hint in hints.items():
        default = inspect.Parameter.empty if word in offer.required else None
        yield inspect.Parameter(
            word, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint
        )


def _option(offer: Offer[Any], word: str, flags: Mapping[str, str]) -> Any:
    setting = offer.settings[word]
    parsers = {("int",): whole_number, ("float",): number, ("float", "str"): share}
    parser = parsers.get(tuple(kind for kind in setting.types if kind != "None"))
    default = setting.shown_default
    if "int" in setting.types and not setting.option.default:
        default = f"{setting.default:,}"
    text = setting.option.help
    if setting.metavar and word not in offer.required:
        text = f"{text} (default: {default})"
    text = _CODE.sub(
        lambda code: code[0] if code[1].startswith("corpusfit ") else code[1],
        with_flags(text, flags),
    )
    kind = str | None if setting.metavar else bool | None
    group = setting.path.partition(".")[0]
    declared = typer.Option(
        f"--{word.replace('_', '-')}",
        metavar=setting.metavar,
        parser=parser,
        help=text,
        rich_help_panel=next(title for title, groups in _HEADINGS.items() if group in groups),
    )
    return Annotated[kind if word not in offer.required else str, declared]


RUN_FOLDER = "Folder or URL of a `corpusfit select` or `corpusfit score` run"

Target = Annotated[list[str], option("INPUT", f"Texts of your task: {INPUTS}")]
Corpus = Annotated[list[str], option("INPUT", f"Texts to choose from: {INPUTS}")]
Out = Annotated[str, option("FOLDER", "Folder or URL for the results; a stopped run resumes there")]
GuardField = Annotated[
    str, option("NAME", "Text field of the --guard files (default: --text-field)")
]
Workers = Annotated[
    int | None,
    option(
        "N",
        "Number of worker processes (default: one per core, or per CPU of the Ray cluster)",
        parser=whole_number,
        heading=RUN,
    ),
]
EngineName = Annotated[
    str | None,
    option(
        "[local|inline|ray]",
        "Where to run: local (processes of this machine), inline (this process, for small inputs) "
        "or ray (the running Ray cluster, or a new one on this machine) (default: local)",
        heading=RUN,
    ),
]
Cache = Annotated[
    str | None,
    option(
        "FOLDER",
        "Folder or URL for stored embeddings and token ids (default: $CORPUSFIT_CACHE, or the "
        "user's cache folder)",
        heading=RUN,
    ),
]
Overwrite = Annotated[bool, flag("--overwrite", "Replace a different run in --out")]
Json = Annotated[bool, flag("--json", "Print one JSON object on standard output")]
DryRun = Annotated[
    bool,
    flag("--dry-run", "Print what would be read and the expected time and space; write nothing"),
]
Public = Annotated[
    bool,
    flag("--public", "Everybody can see what is published on the hub, not only its owner"),
]
NoReport = Annotated[
    bool,
    flag("--no-report", "Do not write report.html; `corpusfit report` can write one later"),
]
