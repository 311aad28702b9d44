"""`corpusfit report`: pages about runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from corpusfit.cli.options import command
from corpusfit.cli.show import say


def _facts(path: Path, request: Mapping[str, Any]) -> dict[str, Any]:
    return {"report": str(path), "figures": request.get("figures")}


@command(machine=(), facts=_facts)
def report(path: Path, figures: str | None) -> None:
    """Write one HTML page about finished runs.

    Example:
      corpusfit report out/
      corpusfit report out/ random/ --out both.html --figures figures/

    DIR is the folder of a selection, an adapted model, an evaluation or a recipe, or a folder that
    holds several of these. The page shows what was selected, why, and whether the selection helped.
    It opens from disk in any browser, without a network.

    Options:
        DIR: Folders of runs; the page compares several
        --out FILE: File to write (default: report.html in DIR, or in the current folder if there
            are several DIR)
        --figures FOLDER: Folder for charts as SVG and PNG, and tables as CSV (default: none)
    """
    say(f"Report: {path}")
    if figures is not None:
        say(f"Figures and tables: {figures}")
