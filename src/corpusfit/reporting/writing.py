"""The report: from the folder of a run to one page, and optionally charts and tables as files."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from pathlib import Path

from corpusfit.core.artifacts import sweep, write_bytes
from corpusfit.core.manifest import undamaged
from corpusfit.reporting.page import page
from corpusfit.reporting.part import Part
from corpusfit.reporting.reading import is_shown, read, shown
from corpusfit.reporting.selected import selected_part
from corpusfit.reporting.verdict import verdict_part


def write_report(folder: Path, out: Path, *, figures: Path | None = None) -> None:
    """Write a report of the selection or the fit in a folder."""
    with undamaged(folder):
        parts = list(_parts(folder))
        title = f"corpusfit: {folder.name or folder.resolve().name}"
        whole = page(title, parts).encode("utf-8", "replace")
    write_bytes(out, whole)
    sweep(out.parent, f"{glob.escape(out.name)}.*")
    if figures is not None:
        write_figures(parts, figures)


def _parts(folder: Path) -> Iterator[Part]:
    """The sections: a selection, or a verdict and its selection."""
    manifest = shown(folder)
    if manifest.get("command") != "fit":
        yield selected_part(folder, manifest)
        return
    yield verdict_part(folder, manifest)
    selection = folder / "selection"
    if is_shown(found := read(selection / "manifest.json")):  # unless it was deleted
        yield selected_part(selection, found)


def write_figures(parts: Sequence[Part], folder: Path) -> None:
    """Write every chart as SVG, and every table as CSV."""
    folder.mkdir(parents=True, exist_ok=True)
    for part in parts:
        files = {f"{name}.svg": svg for name, (svg, _) in part.charts.items()}
        files |= {f"{name}.csv": sheet.as_csv() for name, sheet in part.sheets.items()}
        for name, text in files.items():
            write_bytes(folder / f"{part.name}-{name}", text.encode("utf-8", "replace"))
    sweep(folder, "*")
