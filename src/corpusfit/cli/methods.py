"""`corpusfit methods` and `cache`: the methods and the cache."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import typer

import corpusfit
from corpusfit.cli.options import command
from corpusfit.cli.show import answer, as_json, say, table
from corpusfit.core.errors import PackageError, UsageError, bad_setting
from corpusfit.core.gone import gone

if TYPE_CHECKING:
    from corpusfit.text.cache_entries import CacheEntry


@command(machine=(), plain=True)
def methods(name: str | None = None, *, json: bool = False) -> None:
    """List the scoring methods, or the settings of one.

    Example:
      corpusfit methods
      corpusfit methods knn

    Writes nothing.

    Options:
        NAME: Method to describe (default: list all methods)
    """
    from corpusfit.scoring import registry
    from corpusfit.scoring.names import names as method_names

    if name is not None:
        registry.load(name, "NAME")
    described = []
    broken: dict[str, None] = {}
    for listed in [name] if name else method_names():
        try:
            described.append(_described(listed))
        except PackageError as e:
            broken[str(e)] = None
    if json:
        as_json({"methods": described})
    elif name:
        about = inspect.getmodule(registry.load(name)).__doc__ or ""
        typer.echo(about.strip())
        doc = inspect.getdoc(registry.load(name)) or ""
        settings = described[0]["settings"]
        entries = re.findall(r"^    (\w+): (.+(?:\n {8}.+)*)", doc, re.MULTILINE)
        meanings = {key: " ".join(text.split()) for key, text in entries}
        typer.echo(f"\nSettings{' (--set method.SETTING=VALUE):' if settings else ': none'}")
        for key, value in settings.items():
            typer.echo(f"  {key} = {value!r}".ljust(23) + " " + meanings.get(key, ""))
    else:
        rows = [
            [
                *(m["name"], m["package"], m["family"], m["reads"]),
                *(m["needs"] or "–", m["cost"], m["what"]),
            ]
            for m in described
        ]
        columns = ["method", "package", "family", "reads", "extra", "speed per core", "description"]
        table("Scoring methods (speed in units per second)", columns, rows, words=columns)
        for sentence in broken:
            say(f"Not listed: {sentence}")
        say("extra: install it with pip install 'corpusfit[NAME]'")
        say("To see one method's settings: corpusfit methods NAME")
        say("To compare them on your data: corpusfit rank")


def _described(name: str) -> dict[str, Any]:
    from corpusfit.scoring import registry
    from corpusfit.scoring.contract import CorpusMethod, LabelMethod
    from corpusfit.scoring.names import METHODS

    cls = registry.load(name)
    if issubclass(cls, LabelMethod):
        reads = "label"
    else:
        reads = "corpus" if issubclass(cls, CorpusMethod) else cls.reads
    return {
        "name": name,
        "package": METHODS.package_of(name.partition(":")[0]),
        "family": cls.family,
        "reads": reads,
        "needs": cls.needs,
        "cost": cls.cost,
        "what": (inspect.getdoc(cls) or "").split("\n", 1)[0],
        "settings": {f.name: f.default for f in dataclasses.fields(cls)},
    }


@command(machine=("cache",), plain=True)
def cache(
    action: str = "list",
    *,
    cache: str | None = None,
    json: bool = False,
) -> None:
    """List or clear the cache.

    Example:
      corpusfit cache
      corpusfit cache clear

    The cache keeps what later commands can reuse: embeddings, token ids and rows
    passed in memory. Entries that the file system shows as used within the last hour are
    not removed, because a running command may need them.

    Options:
        [list|clear]: What to do (default: list)
    """
    if action not in ("list", "clear"):
        if sentence := gone(f"cache {action}"):
            raise UsageError(sentence)
        raise bad_setting("The action", "list or clear", action)
    clears = action == "clear"
    entries = corpusfit.clear_cache(cache=cache) if clears else corpusfit.cache(cache=cache)
    facts = [{**dataclasses.asdict(e), "path": str(e.path)} for e in entries]
    folder = corpusfit.Machine(cache=cache).cache_folder()
    answer(json, {"cache": str(folder), "entries": facts}, _show, entries)
    if not json:
        done = "removed from" if clears else "in"
        say(f"{len(entries):,} entries, {_size(sum(e.size for e in entries))}, {done} {folder}.")


def _show(entries: Sequence[CacheEntry]) -> None:
    rows = []
    for kind in sorted({e.kind for e in entries}):
        of_kind = [e for e in entries if e.kind == kind]
        days = [f"{datetime.fromtimestamp(e.used):%Y-%m-%d}" for e in of_kind]
        rows.append(
            [kind, f"{len(of_kind):,}", _size(sum(e.size for e in of_kind)), min(days), max(days)]
        )
    if rows:
        columns = ["kind", "entries", "size", "least recent use", "most recent use"]
        table("Cache", columns, rows)


def _size(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
