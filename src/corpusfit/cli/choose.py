"""`corpusfit choose`: another selection from stored scores."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

import corpusfit
from corpusfit.cli import options as o
from corpusfit.cli.report import write_report
from corpusfit.cli.show import answer
from corpusfit.cli.summary import show_run
from corpusfit.selection.api import CHOOSE


@o.offers(CHOOSE, "choose.alpha=-1", where=("engine", "workers", "cache"))
def choose(
    *,
    folder: Annotated[str, typer.Argument(metavar="DIR", help=o.RUN_FOLDER)],
    out: Annotated[
        str | None,
        o.option(
            "FOLDER",
            "New or empty folder for the selection, with its own report; the earlier selection "
            "stays (default: DIR, whose selection is replaced)",
        ),
    ] = None,
    words: o.Words,
    no_report: o.NoReport = False,
    json: o.Json = False,
) -> None:
    """Select again from the scores of an earlier run.

    Example:
      corpusfit choose out/ --fraction 0.05 --out smaller/

    Without --out, DIR/selected and the report are replaced. Computes no scores.
    """
    run = corpusfit.choose(folder, out=out, **words)
    shown = partial(show_run, again=True)
    answer(json, {"out": str(run.path), **run.manifest}, shown, run.path, run.manifest)
    if not no_report:
        write_report(run.path, quiet=json)
