"""The command `report` as a function."""

from __future__ import annotations

from pathlib import Path

from corpusfit.api.inputs import Inputs, listed
from corpusfit.api.offers import offers
from corpusfit.core.artifacts import place
from corpusfit.reporting import write_report


@offers()
def report(
    folders: Inputs, *, out: Path | str | None = None, figures: Path | str | None = None
) -> Path:
    """Write one HTML page about finished runs.

    Args:
        folders: folders of a selection, an adapted model, an evaluation or a recipe, or folders
            with several of these.
        out: file of the page (default: `report.html` in the folder, or in the current folder if
            there are several).
        figures: folder for charts as SVG and PNG and tables as CSV (default: none).

    Returns:
        The path of the page.

    Raises:
        InputError: a folder has no finished run.
        MissingDependencyError: the extra `report` is not installed.
    """
    named = [place(folder, "DIR") for folder in listed(folders)]
    alone = named[0] / "report.html" if len(named) == 1 else Path("report.html")
    path = place(out, "`out`") if out else alone
    write_report(named, path, figures=place(figures, "`figures`") if figures else None)
    return path
