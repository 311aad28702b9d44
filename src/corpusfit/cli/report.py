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
    """Write one HTML page about a finished selection or fit.

    Example:
      corpusfit report out/ --figures figures/

    DIR is the folder of `select`, `choose` or `fit`. The page shows what was selected, and of a fit
    whether it helped. It opens from disk in any browser, without a network and without scripts.

    Options:
        DIR: Folder of the run
        --out FILE: File to write (default: report.html in DIR)
        --figures FOLDER: Folder for charts as SVG and tables as CSV (default: none)
    """
    say(f"Report: {path}")
    if figures is not None:
        say(f"Figures and tables: {figures}")
