"""Finding the finished run in a folder, by its manifest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from corpusfit.core.errors import InputError, near_name
from corpusfit.core.manifest import OutFolder

_INSTEAD = {
    "adapt": "Its losses are printed by the command, and in losses.jsonl and manifest.json",
    "clusters": "Read its clusters.csv, tried.csv and points.csv",
    "compose": "Its amounts are printed by the command, and in manifest.json",
    "evaluate": "Its table is printed by the command, and in manifest.json (`results`, "
    "`comparisons`)",
    "split": "Its counts are printed by the command, and in manifest.json",
}
"""Where to look for the result of a command that has no page."""


def shown(folder: Path) -> dict[str, Any]:
    """The manifest of the selection or the fit in a folder."""
    OutFolder(folder).refuse_links()
    OutFolder(folder).identity()  # refuses runs of other versions
    manifest = read(folder / "manifest.json")
    if not is_shown(manifest):
        raise InputError(_no_page(folder, manifest.get("command")))
    return manifest


def is_shown(manifest: dict[str, Any]) -> bool:
    """Whether a manifest is of a selection or of a fit."""
    if {"versions", "plan"} - manifest.keys():
        return False
    selection = bool(manifest.get("selected")) and "counts" in manifest
    return selection or manifest.get("command") == "fit"


def _no_page(folder: Path, command: object) -> str:
    """The message for a folder that has no page."""
    if command in _INSTEAD:
        return (
            f"{folder} holds the result of `corpusfit {command}`, which has no page. "
            f"{_INSTEAD[str(command)]}."
        )
    if "recipe" in read(folder / "table.json"):
        return (
            f"{folder} holds the tables of `corpusfit run`: read its table.md or table.csv. A page "
            f"shows one selection: name a folder in {folder / 'selections'}."
        )
    begin = f"{folder} holds no finished run"
    if not folder.exists():
        begin = f"There is no folder {folder}{near_name(folder)}"
    return (
        f"{begin}. Name the folder of `corpusfit select` or fit. To resume a stopped run, repeat "
        "its command."
    )


def read(path: Path) -> dict[str, Any]:
    """A JSON object from a file; empty if there is none, or it is no JSON object."""
    try:
        value = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
