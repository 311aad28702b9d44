"""Copies of a scored corpus, so that several amounts are selected from one scoring."""

from __future__ import annotations

import shutil
from pathlib import Path

from corpusfit.core.artifacts import remove

_OF_A_SELECTION = ("selected", "manifest.json", "chosen.json", "examples", "examples.parquet")


def copy_scores(scored: Path, place: Path) -> None:
    """Copy the scores of a local run, without its selection, into a folder that is replaced."""
    aside = place.with_name(f"{place.name}.copy")
    remove(aside, place)
    aside.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(scored, aside, ignore=shutil.ignore_patterns(*_OF_A_SELECTION))
    aside.rename(place)
