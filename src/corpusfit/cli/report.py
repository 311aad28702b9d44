"""`corpusfit report`: one page about finished runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import corpusfit
from corpusfit.cli import options as o
from corpusfit.cli.show import as_json, say
from corpusfit.core.errors import CorpusfitError


def report(
    folders: Annotated[
        list[str], typer.Argument(metavar="DIR", help="Folders of runs; the page compares several")
    ],
    out: Annotated[
        str | None,
        o.option(
            "FILE",
            "File of the page (default: report.html in DIR, or in the current folder if there "
            "are several DIR)",
        ),
    ] = None,
    figures: Annotated[
        str | None,
        o.option("FOLDER", "Folder for charts as SVG and PNG, and tables as CSV (default: none)"),
    ] = None,
    json: o.Json = False,
) -> None:
    """Write one HTML page about finished runs.

    Example:
      corpusfit report out/
      corpusfit report out/ random/ --out both.html --figures figures/

    DIR is the folder of a selection, an adapted model, an evaluation or a recipe, or a folder with
    several of these. The page shows what was selected, why, and whether the selection helped. The
    page opens from disk in any browser, without a network.
    """
    path = corpusfit.report(folders, out=out, figures=figures)
    if json:
        as_json({"report": str(path), "figures": figures})
    else:
        say(f"Report: {path}")
        if figures is not None:
            say(f"Figures and tables: {figures}")


def write_report(folder: Path, *, quiet: bool) -> None:
    """Write the report of a command that has finished; a failure here is only a message."""
    try:
        message = f"Report: {corpusfit.report(folder)}"
    except CorpusfitError as e:
        message = f"No report written: {e}"
    if not quiet:
        say(message)
