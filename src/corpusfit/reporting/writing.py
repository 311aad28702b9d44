"""The report: from folders of runs to one page, and optionally charts and tables as files."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from corpusfit.core.artifacts import sweep, write_bytes
from corpusfit.core.manifest import undamaged
from corpusfit.reporting.charts import Spec
from corpusfit.reporting.clusters import clusters_part
from corpusfit.reporting.comparison import beside_part
from corpusfit.reporting.evaluated import evaluated_part, fitted_part, recipe_part
from corpusfit.reporting.page import as_png, as_svg, page
from corpusfit.reporting.part import Part, Sheet
from corpusfit.reporting.reading import Found, found_in
from corpusfit.reporting.selected import selected_part
from corpusfit.reporting.trained import trained_part

_MAX_SELECTION_BYTES = 4_500_000
"""Most bytes of a page for all selections together."""

_FIGURE_BYTES = 120_000
"""Bytes of that for the charts and tables of each selection, about."""

_MIN_EXAMPLE_BYTES = 30_000
"""Fewest bytes for the examples of a selection."""

_MAX_SELECTIONS = 40
"""Most selections with a section of their own."""


def write_report(folders: Sequence[Path], out: Path, *, figures: Path | None = None) -> None:
    """Write a report of the runs in some folders.

    Examples are shortened and left out until the page stays under its size limit.
    """
    with undamaged(*folders):
        parts = list(_parts(found_in(folders)))
        title = f"corpusfit: {', '.join(f.name or f.resolve().name for f in folders)}"
        whole = page(title, parts).encode("utf-8", "replace")
    write_bytes(out, whole)
    sweep(out.parent, f"{glob.escape(out.name)}.*")
    if figures is not None:
        write_figures(parts, figures)


def _parts(runs: Sequence[Found]) -> Iterator[Part]:
    """The sections in reading order: results first, then the selections and models behind them."""
    numbered = {kind: [run for run in runs if run.kind == kind] for kind in _ORDER}
    for i, run in enumerate(numbered["run"], 1):
        yield recipe_part(f"recipe-{i}", run.title, run.manifest)
    for i, run in enumerate(numbered["fit"], 1):
        from corpusfit.fitting.fitting import Fitted  # it imports all that a fit does

        keep = Fitted(run.path, run.manifest).keep
        yield fitted_part(f"fit-{i}", f"Verdict: {run.title}", {**run.manifest, "keep": keep})
    for i, run in enumerate(numbered["evaluate"], 1):
        yield evaluated_part(f"evaluation-{i}", f"Evaluation: {run.title}", run.manifest)
    for i, run in enumerate(numbered["clusters"], 1):
        yield clusters_part(f"domains-{i}", run)
    selections, models = numbered["select"], numbered["adapt"]
    if len(selections) > 1:
        yield beside_part("beside", selections, max_runs=_MAX_SELECTIONS)
    shown = selections[:_MAX_SELECTIONS]
    for i, run in enumerate(shown, 1):
        title, limit = (
            f"Selection: {run.title}",
            max(_MIN_EXAMPLE_BYTES, _MAX_SELECTION_BYTES // len(shown) - _FIGURE_BYTES),
        )
        yield selected_part(f"selection-{i}", title, run.path, run.manifest, limit)
    if models:
        yield trained_part("training", models)


_ORDER = ("run", "fit", "evaluate", "clusters", "select", "adapt")


def write_figures(parts: Sequence[Part], folder: Path) -> None:
    """Write every chart as SVG and PNG, its data as CSV, and every table as CSV."""
    folder.mkdir(parents=True, exist_ok=True)
    for part in parts:
        sheets: dict[str, Sheet] = {}
        for name, spec in part.charts.items():
            write_bytes(folder / f"{part.name}-{name}.svg", as_svg(spec).encode())
            write_bytes(folder / f"{part.name}-{name}.png", as_png(spec))
            sheets |= _chart_data(name, spec)
        # a table of the same name replaces the data of its chart
        for name, sheet in {**sheets, **part.sheets}.items():
            text = sheet.as_csv().encode("utf-8", "replace")
            write_bytes(folder / f"{part.name}-{name}.csv", text)
    sweep(folder, "*")


def _chart_data(name: str, spec: Spec) -> dict[str, Sheet]:
    """The data of a chart: a sheet for each layer with data of its own."""
    sheets = {}
    for i, rows in enumerate(_values(spec), 1):
        columns = list(dict.fromkeys(column for row in rows for column in row))
        cells = [[row.get(column) for column in columns] for row in rows]
        sheets[name if i == 1 else f"{name}-{i}"] = Sheet(spec["title"], columns, cells)
    return sheets


def _values(spec: Spec) -> Iterator[list[dict[str, Any]]]:
    """The data in a specification and its layers; a lone rule has none."""
    rows = spec.get("data", {}).get("values", [])
    if any(rows):
        yield rows
    for layer in spec.get("layer", []):
        yield from _values(layer)
