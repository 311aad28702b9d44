"""Compose a corpus of several languages: the command with the command line's words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from corpusfit import pipeline
from corpusfit.artifacts import place
from corpusfit.compose.recipe import Recipe, read_recipe
from corpusfit.pipeline import Composition, Machine


def compose(
    recipe: Recipe | Path | str,
    *,
    out: Path | str,
    overwrite: bool = False,
    machine: Machine | None = None,
) -> Composition:
    """Compose a corpus of several languages from specific and general text.

    Args:
        recipe: a TOML file, or one that was read.
        out: a new or empty folder or URL, or one of the same composition to resume.
        overwrite: replace another composition in `out`.
        machine: where it runs, with how many workers, and what is told of it.

    Returns:
        The finished composition; its text is in `composed/`, for `adapt`.

    Raises:
        CorpusfitError: see `corpusfit.errors`; what is finished is kept.
    """
    return pipeline.compose(
        _read(recipe), place(out, "--out"), machine=machine or Machine(), overwrite=overwrite
    )


def estimate_composition(
    recipe: Recipe | Path | str, *, machine: Machine | None = None
) -> dict[str, Any]:
    """What `compose` would take: looks at all texts, and writes nothing.

    Returns:
        languages, counts, documents, taken, unit, seconds, disk_mb, warnings.
    """
    return pipeline.estimate_composition(_read(recipe), machine=machine or Machine())


def _read(recipe: Recipe | Path | str) -> Recipe:
    """A recipe, read if it is a file's name."""
    if isinstance(recipe, Recipe):
        return recipe.with_codes().check()
    return read_recipe(Path(recipe))
