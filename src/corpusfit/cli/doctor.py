"""`corpusfit methods`, `doctor` and `cache`: the methods, the installation and the cache."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import typer

import corpusfit
from corpusfit.cli.options import command
from corpusfit.cli.show import answer, as_json, say, table
from corpusfit.core.errors import bad_setting

if TYPE_CHECKING:
    from corpusfit.selection.health import Health
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
    described = [_described(n) for n in ([name] if name else method_names())]
    if json:
        as_json({"methods": described})
    elif name:
        about = inspect.getmodule(registry.load(name)).__doc__ or ""
        typer.echo(about.strip())
        doc, settings = inspect.getdoc(registry.load(name)) or "", described[0]["settings"]
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
        say("extra: install it with pip install 'corpusfit[NAME]'")
        say("To see one method's settings: corpusfit methods NAME")
        say("To compare them on your data: corpusfit rank")


def _described(name: str) -> dict[str, Any]:
    from corpusfit.scoring import registry
    from corpusfit.scoring.contract import CorpusMethod, LabelMethod
    from corpusfit.scoring.names import found

    cls = registry.load(name)
    if issubclass(cls, LabelMethod):
        reads = "label"
    else:
        reads = "corpus" if issubclass(cls, CorpusMethod) else cls.reads
    return {
        "name": name,
        "package": found()[name.partition(":")[0]].package,
        "family": cls.family,
        "reads": reads,
        "needs": cls.needs,
        "cost": cls.cost,
        "what": (inspect.getdoc(cls) or "").split("\n", 1)[0],
        "settings": {f.name: f.default for f in dataclasses.fields(cls)},
    }


def _facts(health: Health, _: Mapping[str, Any]) -> dict[str, Any]:
    facts = dataclasses.asdict(health)
    for extra, known in zip(facts["extras"], health.extras, strict=True):
        extra["cure"] = known.cure
    return facts


@command(machine=("workers", "cache"), facts=_facts)
def doctor(health: Health) -> None:
    """Show what is installed on this machine.

    Example:
      corpusfit doctor
      corpusfit doctor --warm

    Prints versions, installed extras (with the command to install each missing one), the device and
    precision for networks, cores, memory and the cache. Writes nothing without --warm.

    Options:
        --warm: Compile the kernels of `select` now; needed once per environment
    """
    rows = [[name, text] for name, text in health.versions.items()]
    table("Versions", ["library", "version"], rows, words=["version"])
    rows = [[e.name, ", ".join(e.missing) or "none", e.cure or "–"] for e in health.extras]
    table("Extras", ["extra", "missing", "to install"], rows, words=["missing", "to install"])
    memory = f", {health.memory / 1e9:.0f} GB of memory" if health.memory else ""
    say(f"Workers: {health.cores}{memory}.")
    precision = health.precision or "networks need the extra models"
    say(f"Device: {health.device} ({precision}).")
    say(f"Cache: {health.cache}, {health.cache_size / 1e6:,.0f} MB; see corpusfit cache.")
    if health.compiled is None:
        say("To compile the kernels now, once per environment: corpusfit doctor --warm")
    else:
        say(f"The kernels are compiled ({health.compiled:,.0f} s).")


@command(machine=("cache",), plain=True)
def cache(
    action: str = "list",
    *,
    older_than: float | None = None,
    keep: float | None = None,
    dry_run: bool = False,
    cache: str | None = None,
    json: bool = False,
) -> None:
    """List or remove cache entries.

    Example:
      corpusfit cache
      corpusfit cache prune --older-than 30 --keep 20

    The cache keeps what later commands can reuse: embeddings, token ids, rankings, static models
    and rows passed in memory. Entries that the file system shows as used within the last hour are
    not removed, because a running command may need them.

    Options:
        [list|prune]: What to do (default: list)
        --older-than DAYS: Prune entries that were not used for this long (default: no limit)
        --keep GB: Prune the least recently used entries until the rest fits (default: no limit)
        --dry-run: Print what would be removed; remove nothing
    """
    if action not in ("list", "prune"):
        raise bad_setting("The action", "list or prune", action)
    if action == "list":
        if older_than is not None or keep is not None or dry_run:
            cure = "Write: corpusfit cache prune."
            raise bad_setting("The action", "prune with a limit or --dry-run", "list", cure)
        entries = corpusfit.cache(cache=cache)
    else:
        entries = corpusfit.prune_cache(
            older_than=older_than, keep=keep, dry_run=dry_run, cache=cache
        )
    facts = [{**dataclasses.asdict(e), "path": str(e.path)} for e in entries]
    folder = corpusfit.Machine(cache=cache).cache_folder()
    answer(json, {"cache": str(folder), "entries": facts}, _show, entries)
    if not json:
        done = {"list": "in", "prune": "would be removed from" if dry_run else "removed from"}
        total = sum(e.size for e in entries)
        say(f"{len(entries):,} entries, {_size(total)}, {done[action]} {folder}.")


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
