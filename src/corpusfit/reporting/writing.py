"""The report: from the folder of a run to one page, and optionally charts and tables as files."""

from __future__ import annotations

import glob
import json
import re
import shlex
import textwrap
from collections.abc import Iterator, Sequence
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corpusfit.core.artifacts import sweep, write_bytes
from corpusfit.core.errors import InputError, importing, near_name
from corpusfit.core.escaping import harmless
from corpusfit.core.manifest import OutFolder, undamaged
from corpusfit.reporting.part import Part, cell
from corpusfit.reporting.selected import selected_part
from corpusfit.reporting.verdict import verdict_part

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

_CODE = re.compile(r"`([^`]*)`")
_EXCERPT = 320
"""Most characters of a text that is shown in part."""
_INSTEAD = {
    "adapt": "Its losses are printed by the command, and in losses.jsonl and manifest.json",
    "clusters": "Read its clusters.csv, tried.csv and points.csv",
    "compose": "Its amounts are printed by the command, and in manifest.json",
    "evaluate": "Its table is printed by the command, and in manifest.json (`results`, "
    "`comparisons`)",
    "split": "Its counts are printed by the command, and in manifest.json",
}
"""Where to look for the result of a command that has no page."""


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


def shown(folder: Path) -> dict[str, Any]:
    """The manifest of the selection or the fit in a folder."""
    OutFolder(folder).refuse_links()
    OutFolder(folder).identity()  # refuses runs of other versions
    manifest = read(folder / "manifest.json")
    if not is_shown(manifest):
        raise InputError(_no_page(folder, manifest.get("command")))
    return manifest


def is_shown(manifest: dict[str, Any]) -> bool:
    """Whether a manifest is of a selection or of a fit."""
    if {"versions", "plan"} - manifest.keys():
        return False
    selection = bool(manifest.get("selected")) and "counts" in manifest
    return selection or manifest.get("command") == "fit"


def _no_page(folder: Path, command: object) -> str:
    """The message for a folder that has no page."""
    if command in _INSTEAD:
        return (
            f"{folder} holds the result of `corpusfit {command}`, which has no page. "
            f"{_INSTEAD[str(command)]}."
        )
    if "recipe" in read(folder / "table.json"):
        return (
            f"{folder} holds the tables of `corpusfit run`: read its table.md or table.csv. A page "
            f"shows one selection: name a folder in {folder / 'selections'}."
        )
    begin = f"{folder} holds no finished run"
    if not folder.exists():
        begin = f"There is no folder {folder}{near_name(folder)}"
    return (
        f"{begin}. Name the folder of `corpusfit select` or fit. To resume a stopped run, repeat "
        "its command."
    )


def read(path: Path) -> dict[str, Any]:
    """A JSON object from a file; empty if there is none, or it is no JSON object."""
    try:
        value = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def page(title: str, parts: Sequence[Part]) -> str:
    """Render the page, which has no script.

    Corpus text is hostile. The templates escape it, and so do the charts; a content-security policy
    allows the page's own style and nothing else: no script, no network, no image.
    Reference: OWASP, Cross Site Scripting Prevention; W3C, Content Security Policy Level 3.
    """
    style = files("corpusfit.reporting").joinpath("assets", "page.css").read_text("utf-8")
    template = _templates().get_template("page.html")
    return template.render(title=title, parts=parts, style=style)


@cache
def _templates() -> Environment:
    """The templates; what they show is escaped, and its bidirectional controls are visible."""
    with importing("Writing a report", "report"):
        import jinja2
        from markupsafe import Markup, escape

    def marked(sentence: str) -> Markup:
        """A sentence, with what stands between backticks as code; all else is escaped."""
        return Markup(_CODE.sub(r"<code>\1</code>", str(escape(harmless(sentence)))))  # noqa: S704

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("corpusfit.reporting"),
        autoescape=True,
        finalize=lambda value: harmless(value) if type(value) is str else value,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    settings = partial(json.dumps, indent=1, ensure_ascii=False)
    environment.filters |= {"cell": cell, "command": shlex.join, "settings": settings}
    environment.filters["marked"] = marked
    environment.filters["excerpt"] = partial(textwrap.shorten, width=_EXCERPT, placeholder=" …")
    return environment


def write_figures(parts: Sequence[Part], folder: Path) -> None:
    """Write every chart as SVG, and every table as CSV."""
    folder.mkdir(parents=True, exist_ok=True)
    for part in parts:
        files = {f"{name}.svg": svg for name, (svg, _) in part.charts.items()}
        files |= {f"{name}.csv": sheet.as_csv() for name, sheet in part.sheets.items()}
        for name, text in files.items():
            write_bytes(folder / f"{part.name}-{name}", text.encode("utf-8", "replace"))
    sweep(folder, "*")
