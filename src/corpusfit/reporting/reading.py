"""Finding the finished runs in folders, by their manifests."""

from __future__ import annotations

import dataclasses
import itertools
import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from corpusfit.core.errors import InputError, near_name
from corpusfit.core.escaping import harmless
from corpusfit.core.manifest import OutFolder

_DEPTH = 2
"""Levels of subfolders to search."""


@dataclass(frozen=True)
class Found:
    """A finished run."""

    kind: str  # the command that made it: clusters, select, adapt, evaluate, fit, tune or run
    path: Path  # its folder
    manifest: dict[str, Any]  # content of `manifest.json`; for a recipe, of `table.json`
    title: str  # name on the page


def found_in(folders: Sequence[Path]) -> list[Found]:
    """Every run in some folders, in their order.

    A folder that is no run itself is searched. A recipe and a search bring their selections and
    models, unless they were deleted.
    """
    all_runs = []
    for folder in folders:
        runs = list(_runs(folder, folder, _DEPTH))
        if not runs:
            raise InputError(_no_run(folder))
        for run in runs:
            OutFolder(run.path).refuse_links()
            OutFolder(run.path).identity()  # refuses runs of other versions
        all_runs += runs
    return _distinct(all_runs)


def _no_run(folder: Path) -> str:
    """The message for a folder without a run that a report shows."""
    command = _read(folder / "manifest.json").get("command")
    if command in ("split", "compose"):
        return f"{folder} holds the output of `corpusfit {command}`, which has no report."
    if command == "score":
        named = shlex.quote(str(folder))
        return f"{folder} holds scores and no selection. First: corpusfit choose {named}"
    begin = f"{folder} holds no finished run"
    if not folder.exists():
        begin = f"There is no folder {folder}{near_name(folder)}"
    return (
        f"{begin}. Name the folder of `corpusfit select`, adapt, "
        "evaluate, fit, clusters, tune or run, or a folder with several of these. To resume a "
        "stopped run, repeat its command."
    )


def _distinct(runs: list[Found]) -> list[Found]:
    """The same runs with distinct titles in each kind; a chart already uses `corpus`."""
    used = {("select", "corpus")}
    renamed = []
    for run in runs:
        more = (f"{run.title} ({n})" for n in itertools.count(2))
        title = next(t for t in itertools.chain([run.title], more) if (run.kind, t) not in used)
        used.add((run.kind, title))
        renamed.append(dataclasses.replace(run, title=title))
    return renamed


def _runs(folder: Path, named: Path, depth: int) -> Iterator[Found]:
    """The run in a folder, or those below it."""
    recipe, manifest = _read(folder / "table.json"), _read(folder / "manifest.json")
    if {"recipe", "adapted", "results", "gains", "pairs"} <= recipe.keys():
        yield from _recipe(folder, recipe, _name(folder, named))
    elif kind := _kind(manifest):
        yield Found(kind, folder, manifest, _name(folder, named))
        if kind == "tune":
            yield from _kept(folder / "selection", "the winner's selection", {})
            yield from _kept(folder / "model", "the winner's model", {})
        if kind == "fit":  # the other replicates and random texts would add nothing
            yield from _kept(folder / "selection", "the selection", {})
            for name in ("selection", "random"):
                model = folder / "models" / f"{name}-{manifest['plan']['seed']}"
                yield from _kept(model, f"adapted on {name}", {})
    elif depth and folder.is_dir():
        for below in sorted(p for p in folder.iterdir() if not p.name.startswith(".")):
            if below.is_dir():
                yield from _runs(below, named, depth - 1)


def _recipe(folder: Path, table: dict[str, Any], title: str) -> Iterator[Found]:
    """A recipe, then those of its selections and models that still exist."""
    yield Found("run", folder, table, table["recipe"]["name"] or title)
    for key, label in table.get("selections", {}).items():
        yield from _kept(folder / "selections" / PurePath(key).name, label, {})
    # recipe tables leave out the losses of a shared model on its task
    for model in table["adapted"]:
        losses = {"losses": model["losses"]}
        yield from _kept(folder / "models" / PurePath(model["key"]).name, model["label"], losses)


def _kept(folder: Path, title: str, replaced: dict[str, Any]) -> Iterator[Found]:
    """A recipe's step, if it still exists, with changed entries of its manifest."""
    manifest = _read(folder / "manifest.json")
    if kind := _kind(manifest):
        yield Found(kind, folder, manifest | replaced, title)


def _kind(manifest: dict[str, Any]) -> str:
    """The command that made a folder; empty if a report does not show it."""
    if {"versions", "plan"} - manifest.keys():
        return ""
    if manifest.get("selected") and "counts" in manifest:
        return "select"
    command = manifest.get("command", "")
    return command if command in ("adapt", "evaluate", "clusters", "fit", "tune") else ""


def _name(folder: Path, named: Path) -> str:
    """A run's path within the folder that the user named."""
    folder_name = folder.name or folder.resolve().name or str(folder)
    return harmless(folder.relative_to(named).as_posix() if folder != named else folder_name)


def _read(path: Path) -> dict[str, Any]:
    """A JSON object from a file; empty if there is none, or it is no JSON object."""
    try:
        value = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
