"""What is in the folders that a report is asked for.

What: every finished look at clusters, selection, adaptation, evaluation and recipe in them, told
apart by its manifest; a folder that is none of these is looked into, as that of the demo.
Why: a report is about one run, or several, or all that belongs to one piece of work.
Trade-off: a recipe's selections and models are shown with it, and what it threw away is not.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpusfit.errors import InputError
from corpusfit.report.escaping import harmless

_DEPTH = 2
"""Folders below the one that was named, at most."""


@dataclass(frozen=True)
class Found:
    """A finished run.

    Attributes:
        kind: the command that made it: clusters, select, adapt, evaluate or run.
        path: its folder.
        manifest: what it says; a recipe's is all of `table.json`.
        title: what it is called.
    """

    kind: str
    path: Path
    manifest: dict[str, Any]
    title: str


def found_in(folders: Sequence[Path]) -> list[Found]:
    """Every run in some folders, in their order.

    Raises:
        InputError: a folder holds none that is finished.
    """
    found = []
    for folder in folders:
        runs = list(_runs(folder, folder, _DEPTH))
        if not runs:
            raise InputError(
                f"{folder} holds nothing that is finished and could be shown: clusters, a "
                "selection, an adapted model, an evaluation or a recipe's table. A run that was "
                "stopped goes on with the same command; after `corpusfit score`, run "
                "`corpusfit choose`."
            )
        found += runs
    return _told_apart(found)


def _told_apart(found: list[Found]) -> list[Found]:
    """The same runs, those of a kind with titles that differ; `corpus` is the corpus's own."""
    used = {("select", "corpus")}
    apart = []
    for run in found:
        more = (f"{run.title} ({n})" for n in itertools.count(2))
        title = next(t for t in itertools.chain([run.title], more) if (run.kind, t) not in used)
        used.add((run.kind, title))
        apart.append(dataclasses.replace(run, title=title))
    return apart


def _runs(folder: Path, named: Path, depth: int) -> Iterator[Found]:
    """The run in a folder, or those below it."""
    recipe, said = _read(folder / "table.json"), _read(folder / "manifest.json")
    if {"recipe", "adapted", "results", "gains", "pairs"} <= recipe.keys():
        yield from _recipe(folder, recipe, _name(folder, named))
    elif kind := _kind(said):
        yield Found(kind, folder, said, _name(folder, named))
    elif depth and folder.is_dir():
        for below in sorted(p for p in folder.iterdir() if not p.name.startswith(".")):
            if below.is_dir():
                yield from _runs(below, named, depth - 1)


def _recipe(folder: Path, table: dict[str, Any], title: str) -> Iterator[Found]:
    """A recipe, then its selections and models that are still there."""
    yield Found("run", folder, table, table["recipe"]["name"] or title)
    for key, label in table.get("selections", {}).items():
        yield from _kept(folder / "selections" / key, label, {})
    for model in table["adapted"]:  # its losses there are without those on a task not its own
        losses = {"losses": model["losses"]}
        yield from _kept(folder / "models" / model["key"], model["label"], losses)


def _kept(folder: Path, title: str, better: dict[str, Any]) -> Iterator[Found]:
    """A step of a recipe, if it is still there; some of its manifest is known better."""
    said = _read(folder / "manifest.json")
    if kind := _kind(said):
        yield Found(kind, folder, said | better, title)


def _kind(manifest: dict[str, Any]) -> str:
    """What made a folder; nothing for what a report does not show."""
    if {"versions", "plan"} - manifest.keys():
        return ""
    if manifest.get("selected") and "counts" in manifest:
        return "select"
    command = manifest.get("command", "")
    return command if command in ("adapt", "evaluate", "clusters") else ""


def _name(folder: Path, named: Path) -> str:
    """A run as its reader knows it: its place in what was named."""
    own = folder.name or folder.resolve().name or str(folder)
    return harmless(folder.relative_to(named).as_posix() if folder != named else own)


def _read(path: Path) -> dict[str, Any]:
    """What a file says; nothing if there is none, or what is there is not ours."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
