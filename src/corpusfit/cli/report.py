"""`corpusfit report`: one page that shows what runs did."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from corpusfit import api
from corpusfit.cli import options as o
from corpusfit.cli.show import as_json, say
from corpusfit.errors import CorpusfitError

EXAMPLE = """Write one page that shows what was selected, and why, and whether it helped.

Example:

\b
  corpusfit report out/
  corpusfit report out/ random/ --out both.html --figures figures/

DIR is the folder of a selection, an adapted model, an evaluation or a recipe, or one with several
of them in it. The page opens from disk, in any browser, with no network."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("report", help=EXAMPLE)(report)


def report(
    folders: Annotated[
        list[str],
        typer.Argument(metavar="DIR…", help="Folders of runs; several are set side by side."),
    ],
    out: Annotated[
        str | None,
        typer.Option(
            "--out", help="The page; report.html in DIR, or in this folder if there are several."
        ),
    ] = None,
    figures: Annotated[
        str | None,
        typer.Option("--figures", help="A folder for charts as SVG and PNG, and all data as CSV."),
    ] = None,
    json: o.Json = False,
) -> None:
    """Parse, call, print."""
    path = api.report(folders, out=out, figures=figures)
    if json:
        as_json({"report": str(path), "figures": figures})
    else:
        say(f"Report: {path}")
        if figures is not None:
            say(f"Figures and tables: {figures}")


def write_report(folder: Path, *, quiet: bool) -> None:
    """Write the report of what has just been done, if it can be."""
    try:
        said = f"Report: {api.report(folder)}"
    except CorpusfitError as e:  # what was asked for is done
        said = f"No report: {e}"
    if not quiet:
        say(said)
