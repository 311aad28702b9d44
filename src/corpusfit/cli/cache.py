"""`corpusfit cache`: what is in the cache folder, and its removal."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import typer

import corpusfit
from corpusfit.cli import options as o
from corpusfit.cli.show import answer, say, table
from corpusfit.core.errors import bad_setting


def cache(
    action: Annotated[
        str,
        typer.Argument(
            metavar="[list|prune]", help="What to do (default: list)", show_default=False
        ),
    ] = "list",
    *,
    older_than: Annotated[
        float | None,
        o.option(
            "DAYS", "Prune what was not used for this long (default: no limit)", parser=o.number
        ),
    ] = None,
    keep: Annotated[
        float | None,
        o.option(
            "GB",
            "Prune what was not used for longest until the rest fits (default: no limit)",
            parser=o.number,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be removed; remove nothing")
    ] = False,
    cache: o.Cache = None,
    json: o.Json = False,
) -> None:
    """List or remove what is in the cache.

    Example:
      corpusfit cache
      corpusfit cache prune --older-than 30 --keep 20

    The cache has what later commands need again: embeddings, token ids, rankings, static models,
    and rows that were given in memory.
    Entries used within the last hour are not removed, as a running command may need them. When an
    entry was used is what the file system says.
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


def _show(entries: Sequence[corpusfit.CacheEntry]) -> None:
    rows = []
    for kind in sorted({e.kind for e in entries}):
        own = [e for e in entries if e.kind == kind]
        days = [f"{datetime.fromtimestamp(e.used):%Y-%m-%d}" for e in own]
        rows.append([kind, f"{len(own):,}", _size(sum(e.size for e in own)), min(days), max(days)])
    if rows:
        columns = ["kind", "entries", "size", "least recent use", "most recent use"]
        table("Cache", columns, rows)


def _size(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
