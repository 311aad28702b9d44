"""Finding the finished runs in a folder, by their manifests."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpusfit.core.errors import InputError, near_name
from corpusfit.core.escaping import harmless
from corpusfit.core.manifest import OutFolder


@dataclass(frozen=True)
class Found:
    """A finished run."""

    kind: str  # the command that made it: select, adapt, evaluate, fit or tune
    path: Path  # its folder
    manifest: dict[str, Any]  # content of `manifest.json`
    title: str  # name on the page


def found_in(folder: Path) -> list[Found]:
    """The run in a folder, then the selection and the models that it kept."""
    runs = list(_runs(folder))
    if not runs:
        raise InputError(_no_run(folder))
    for run in runs:
        OutFolder(run.path).refuse_links()
    return runs


def _no_run(folder: Path) -> str:
    """The message for a folder without a run that a report shows."""
    command = _read(folder / "manifest.json").get("command")
    if command == "clusters":
        return (
            f"{folder} holds clusters, which have no page: read its clusters.csv, tried.csv and "
            "points.csv, or repeat the command, which prints its tables."
        )
    if command in ("split", "compose"):
        return f"{folder} holds the output of `corpusfit {command}`, which has no report."
    if command == "score":
        named = shlex.quote(str(folder))
        return f"{folder} holds scores and no selection. First: corpusfit choose {named}"
    if "recipe" in _read(folder / "table.json"):
        return (
            f"{folder} holds the tables of `corpusfit run`: read its table.md or table.csv. A page "
            f"shows one selection: name a folder in {folder / 'selections'}."
        )
    begin = f"{folder} holds no finished run"
    if not folder.exists():
        begin = f"There is no folder {folder}{near_name(folder)}"
    return (
        f"{begin}. Name the folder of `corpusfit select`, adapt, "
        "evaluate, fit or tune. To resume a stopped run, repeat its command."
    )


def _runs(folder: Path) -> Iterator[Found]:
    manifest = _read(folder / "manifest.json")
    if kind := _kind(manifest):
        title = folder.name or folder.resolve().name or str(folder)
        yield Found(kind, folder, manifest, harmless(title))
        if kind == "tune":
            yield from _kept(folder / "selection", "the winner's selection")
            yield from _kept(folder / "model", "the winner's model")
        if kind == "fit":  # the other replicates and random texts would add nothing
            yield from _kept(folder / "selection", "the selection")
            for name in ("selection", "random"):
                model = folder / "models" / f"{name}-{manifest['plan']['seed']}"
                yield from _kept(model, f"adapted on {name}")


def _kept(folder: Path, title: str) -> Iterator[Found]:
    """A run below another, if it still exists."""
    manifest = _read(folder / "manifest.json")
    if kind := _kind(manifest):
        yield Found(kind, folder, manifest, title)


def _kind(manifest: dict[str, Any]) -> str:
    """The command that made a folder; empty if a report does not show it."""
    if {"versions", "plan"} - manifest.keys():
        return ""
    if manifest.get("selected") and "counts" in manifest:
        return "select"
    command = manifest.get("command", "")
    return command if command in ("adapt", "evaluate", "fit", "tune") else ""


def _read(path: Path) -> dict[str, Any]:
    """A JSON object from a file; empty if there is none, or it is no JSON object."""
    try:
        value = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
