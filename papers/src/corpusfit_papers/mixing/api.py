"""The function `compose`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from corpusfit.contracts import dry_run, machine_of, with_keywords
from corpusfit.core.artifacts import folder_path
from corpusfit_papers.mixing.plan import CompositionPlan, read_recipe

if TYPE_CHECKING:
    from corpusfit import Machine
    from corpusfit.contracts import MachineOptions
    from corpusfit_papers.mixing.composing import Composition


@with_keywords()
def compose(
    recipe: CompositionPlan | Path | str,
    *,
    out: Path | str,
    overwrite: bool = False,
    machine: Machine | None = None,
    **options: Unpack[MachineOptions],
) -> Composition:
    """Compose a multilingual corpus from specific and general text.

    Args:
        recipe: a TOML file or a `CompositionPlan`.
        out: folder or URL that is new, empty, or of the same composition, which resumes.

    Returns:
        The finished composition, with its text in `composed/`, for `adapt`.

    Raises:
        CorpusfitError: see `corpusfit.core.errors`; finished steps are kept.
    """
    from corpusfit_papers.mixing import composing

    machine = machine_of(machine, options)
    return composing.compose(
        _read(recipe), folder_path(out, "`out`"), machine=machine, overwrite=overwrite
    )


@dry_run(compose, without=("out", "overwrite"))
def estimate_composition(
    recipe: CompositionPlan | Path | str,
    *,
    machine: Machine | None = None,
    **options: Unpack[MachineOptions],
) -> dict[str, Any]:
    """Dry run of `compose`: reads all texts and writes nothing.

    Returns:
        languages, counts, documents, taken, unit, seconds, disk_mb, warnings.
    """
    from corpusfit_papers.mixing import composing

    machine = machine_of(machine, options)
    return composing.estimate_composition(_read(recipe), machine=machine)


def _read(recipe: CompositionPlan | Path | str) -> CompositionPlan:
    if isinstance(recipe, CompositionPlan):
        return recipe.with_codes().check()
    return read_recipe(Path(recipe))
