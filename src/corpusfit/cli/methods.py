"""`corpusfit methods`: the scoring methods and their settings."""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Annotated, Any

import typer

from corpusfit.cli import options as o
from corpusfit.cli.show import as_json, say, table
from corpusfit.scoring import registry
from corpusfit.scoring.contract import CorpusMethod, LabelMethod
from corpusfit.scoring.names import names as method_names


def methods(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Method to describe (default: list all methods)"),
    ] = None,
    json: o.Json = False,
) -> None:
    """List the scoring methods, or the settings of one.

    Example:
      corpusfit methods
      corpusfit methods knn

    Writes nothing.
    """
    if name is not None:
        registry.load(name, "NAME")
    found = [_described(n) for n in ([name] if name else method_names())]
    if json:
        as_json({"methods": found})
    elif name:
        about = inspect.getmodule(registry.load(name)).__doc__ or ""
        typer.echo(about.strip())
        doc, settings = inspect.getdoc(registry.load(name)) or "", found[0]["settings"]
        entries = re.findall(r"^    (\w+): (.+(?:\n {8}.+)*)", doc, re.MULTILINE)
        meanings = {key: " ".join(text.split()) for key, text in entries}
        typer.echo(f"\nSettings{' (--set method.SETTING=VALUE):' if settings else ': none'}")
        for key, value in settings.items():
            typer.echo(f"  {key} = {value!r}".ljust(24) + meanings.get(key, ""))
    else:
        rows = [
            [m["name"], m["family"], m["reads"], m["needs"] or "–", m["cost"], m["what"]]
            for m in found
        ]
        columns = ["method", "family", "reads", "extra", "speed per core", "description"]
        table("Scoring methods (speed in units per second)", columns, rows, words=columns)
        say("extra: install it with pip install 'corpusfit[NAME]'")
        say("To see one method's settings: corpusfit methods NAME")
        say("To compare them on your data: `corpusfit rank`, or --method auto, the default.")


def _described(name: str) -> dict[str, Any]:
    cls = registry.load(name)
    if issubclass(cls, LabelMethod):
        reads = "label"
    else:
        reads = "corpus" if issubclass(cls, CorpusMethod) else cls.reads
    return {
        "name": name,
        "family": cls.family,
        "reads": reads,
        "needs": cls.needs,
        "cost": cls.cost,
        "what": (inspect.getdoc(cls) or "").split("\n", 1)[0],
        "settings": {f.name: f.default for f in dataclasses.fields(cls)},
    }
