"""The function `run`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from corpusfit.contracts import dry_run, machine_of, with_keywords
from corpusfit.core.artifacts import folder_path

if TYPE_CHECKING:
    from corpusfit import Machine
    from corpusfit.contracts import MachineOptions
    from corpusfit_papers.experiments.config import Recipe
    from corpusfit_papers.experiments.running import Missing, Ran


@with_keywords()
def run(
    recipe: Recipe | Path | str,
    *,
    out: Path | str,
    keep_overlap: bool = False,
    cells: Path | str | None = None,
    only: Sequence[str] = (),
    overwrite: bool = False,
    machine: Machine | None = None,
    **options: Unpack[MachineOptions],
) -> Ran:
    """Run a recipe: select, adapt and evaluate with several seeds, then compare.

    Args:
        recipe: a TOML file or a `Recipe`.
        out: local folder that is new, empty, or of the same recipe; finished steps are not
            repeated.
        keep_overlap: also train on copies of dev and test texts.
        cells: folder for the small result files of finished cells, of this and other recipes. It
            can be kept when the selections and models in `out` cannot. Cells found in it are not
            run again, and newly finished cells are added to it.
        only: names of the tasks to run and compare (default: all).
        overwrite: delete a different recipe's steps in `out`.

    Returns:
        The tables with every figure, and the failed cells (`judged.failed`).

    Raises:
        CorpusfitError: see `corpusfit.core.errors`; finished steps are kept.
    """
    from corpusfit_papers.experiments import running

    machine = machine_of(machine, options)
    return running.run_recipe(
        _recipe(recipe, keep_overlap=keep_overlap),
        folder_path(out, "`out`"),
        file=Path(recipe) if isinstance(recipe, Path | str) else None,
        cells=None if cells is None else folder_path(cells, "`cells`"),
        only=only,
        machine=machine,
        overwrite=overwrite,
    )


@dry_run(run)
def missing(
    recipe: Recipe | Path | str,
    *,
    out: Path | str,
    keep_overlap: bool = False,
    cells: Path | str | None = None,
    only: Sequence[str] = (),
    overwrite: bool = False,
    machine: Machine | None = None,
    **options: Unpack[MachineOptions],
) -> Missing:
    """Dry run of `run`; takes its arguments, and writes only encoders to the cache."""
    from corpusfit_papers.experiments import running

    machine = machine_of(machine, options)
    return running.missing(
        _recipe(recipe, keep_overlap=keep_overlap),
        folder_path(out, "`out`"),
        cells=None if cells is None else folder_path(cells, "`cells`"),
        only=only,
        machine=machine,
        overwrite=overwrite,
    )


def _recipe(recipe: Recipe | Path | str, *, keep_overlap: bool) -> Recipe:
    if isinstance(recipe, Path | str):
        from corpusfit_papers.experiments.loader import read_recipe

        recipe = read_recipe(Path(recipe))
    return dataclasses.replace(recipe, keep_overlap=True) if keep_overlap else recipe
