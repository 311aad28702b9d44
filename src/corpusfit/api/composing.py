"""The command `compose` as a function."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from corpusfit.api.offers import offers
from corpusfit.core.artifacts import place
from corpusfit.mixing import composing
from corpusfit.mixing.composing import Composition
from corpusfit.mixing.plan import CompositionPlan, read_recipe
from corpusfit.text.context import Machine


@offers()
def compose(
    recipe: CompositionPlan | Path | str,
    *,
    out: Path | str,
    overwrite: bool = False,
    machine: Machine | None = None,
) -> Composition:
    """Compose a multilingual corpus from specific and general text.

    Args:
        recipe: a TOML file or a `CompositionPlan`.
        out: folder or URL that is new, empty, or of the same composition, which resumes.
        overwrite: replace a different composition in `out`.
        machine: where to run, with how many workers, and where to show progress.

    Returns:
        The finished composition, with its text in `composed/`, for `adapt`.

    Raises:
        CorpusfitError: see `corpusfit.core.errors`; finished steps are kept.
    """
    return composing.compose(
        _read(recipe), place(out, "`out`"), machine=machine or Machine(), overwrite=overwrite
    )


@offers()
def estimate_composition(
    recipe: CompositionPlan | Path | str, *, machine: Machine | None = None
) -> dict[str, Any]:
    """Dry run of `compose`: reads all texts and writes nothing.

    Returns:
        languages, counts, documents, taken, unit, seconds, disk_mb, warnings.
    """
    return composing.estimate_composition(_read(recipe), machine=machine or Machine())


def _read(recipe: CompositionPlan | Path | str) -> CompositionPlan:
    if isinstance(recipe, CompositionPlan):
        return recipe.with_codes().check()
    return read_recipe(Path(recipe))
