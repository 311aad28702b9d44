"""Tell what runs did: the command with the command line's words."""

from __future__ import annotations

from pathlib import Path

from corpusfit.api.plans import Inputs, listed
from corpusfit.artifacts import place
from corpusfit.report import write_report


def report(
    folders: Inputs, *, out: Path | str | None = None, figures: Path | str | None = None
) -> Path:
    """Write one page that shows what runs did.

    Args:
        folders: of a selection, an adapted model, an evaluation or a recipe, or with some in them;
            several are set side by side.
        out: the page's file; `report.html` in the folder if it is one, else in this one.
        figures: a folder for every chart as SVG and PNG and every table as CSV.

    Returns:
        The page's path.

    Raises:
        InputError: a folder holds nothing that is finished.
        MissingDependencyError: the extra `report` is not installed.
    """
    named = [place(folder, "DIR") for folder in listed(folders)]
    alone = named[0] / "report.html" if len(named) == 1 else Path("report.html")
    path = place(out, "--out") if out else alone
    write_report(named, path, figures=place(figures, "--figures") if figures else None)
    return path
