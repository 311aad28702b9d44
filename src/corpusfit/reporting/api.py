"""The functions `open` and `report`, which read finished runs."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

from corpusfit.core.artifacts import folder_path
from corpusfit.core.errors import InputError, UsageError
from corpusfit.core.gone import gone
from corpusfit.core.manifest import Finished, OutFolder, undamaged

_RESULTS = {
    "select": "selection.result.Selection",
    "adapt": "training.adapting.Adapted",
    "evaluate": "evaluation.evaluating.Evaluated",
    "fit": "fitting.fitting.Fitted",
    "clusters": "domains.clustering.Clustered",
    "split": "evaluation.splitting.Split",
}
"""The class of a command's finished run."""


def open(folder: str | os.PathLike[str]) -> Finished:
    """The finished run in a folder, as its command returned it.

    Args:
        folder: the `out` of a `select`, `choose`, `adapt`, `evaluate`, `fit`,
            `clusters` or `split`.

    Returns:
        `Selection`, `Adapted`, `Evaluated`, `Fitted`, `Clustered` or `Split`.

    Raises:
        InputError: the folder holds no finished run of these commands.
    """
    path = folder_path(folder, "DIR")
    manifest = OutFolder(path).finished() or {}
    command = str(manifest.get("command"))
    if command not in _RESULTS:
        raise InputError(
            f"{path} must hold a finished run of {', '.join(_RESULTS)}. Name the folder given to "
            "the command as `out`; to finish a stopped run, repeat its command."
        )
    module, _, name = _RESULTS[command].rpartition(".")
    run: Finished = getattr(importlib.import_module(f"corpusfit.{module}"), name)(path, manifest)
    with undamaged(path):
        repr(run)  # fails if its manifest is incomplete
    return run


def report(
    folder: str | os.PathLike[str],
    *,
    out: Path | str | None = None,
    figures: Path | str | None = None,
) -> Path:
    """Write one HTML page about a finished selection or fit.

    Args:
        folder: the `out` of a `select`, `choose` or `fit`.
        out: file of the page (default: `report.html` in the folder).
        figures: folder for charts as SVG and tables as CSV (default: none).

    Returns:
        The path of the page.

    Raises:
        InputError: the folder has no such run; it says what to read instead.
        MissingDependencyError: the extra `report` is not installed.
    """
    from corpusfit.reporting.writing import write_report

    if isinstance(folder, list | tuple):
        raise UsageError(gone("report DIR DIR"))
    named = folder_path(folder, "DIR")
    path = folder_path(out, "`out`") if out else named / "report.html"
    write_report(named, path, figures=folder_path(figures, "`figures`") if figures else None)
    return path
