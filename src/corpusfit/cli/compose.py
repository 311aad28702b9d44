"""`corpusfit compose`: a corpus of several languages from specific and general text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from corpusfit import api, pipeline
from corpusfit.cli import options as o
from corpusfit.cli.show import Bar, as_json, percent, say, table

EXAMPLE = """Compose a corpus of several languages from specific and general text.

Example:

\b
  corpusfit compose examples/compose/three_languages.toml --out mixed/

A recipe is a TOML file: sources with a language and a kind, a budget, and how the languages share
it (docs/composing.md). What was stopped goes on with the same command, and adapt takes the folder
as its data."""

_MOST_SOURCES = 4


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("compose", help=EXAMPLE)(compose)


def compose(
    recipe: Annotated[
        Path, typer.Argument(metavar="RECIPE", help="A TOML file; see examples/compose.")
    ],
    out: o.Out,
    engine: o.EngineName = "local",
    workers: o.Workers = None,
    cache: o.Cache = None,
    overwrite: o.Overwrite = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be taken; looks at all texts.")
    ] = False,
    json: o.Json = False,
) -> None:
    """Parse, call, print."""
    machine = pipeline.Machine(engine, workers, cache, progress=Bar())
    if dry_run:
        show_projected(api.estimate_composition(recipe, machine=machine), json=json)
        return
    done = api.compose(recipe, out=out, overwrite=overwrite, machine=machine)
    if json:
        as_json({"out": str(out), **done.manifest})
        return
    manifest = done.manifest
    show_languages(manifest["languages"], manifest["budget"]["unit"])
    _show_kinds(manifest["kinds"])
    copies, budget = manifest["copies"], manifest["budget"]
    say(
        f"{budget['taken']:,} of {budget['asked']:,} {budget['unit']}; left out as copies: "
        f"{copies['same_language']:,} documents of the same language, "
        f"{copies['other_language']:,} that another language has."
    )
    say(f"Text: {done.path / 'composed'} (or --data {out} of corpusfit adapt).")


def show_languages(languages: Sequence[Mapping[str, Any]], unit: str) -> None:
    """What is taken of each language, as the paper's Tables 8 and 9."""
    sources = list(dict.fromkeys(name for row in languages for name in row["sources"]))
    shown = sources if len(sources) <= _MOST_SOURCES else []
    figures = ("own", "further", "upsampled", "again", "total")
    everything = sum(row["total"] for row in languages)
    written = any(row["sentences"] for row in languages)
    rows = []
    for row in languages:
        of_sources = [row["sources"].get(name, {}).get("sentences", 0) for name in shown]
        counted = [row["sentences"], row["tokens"]] if written else []
        amounts = [*of_sources, *(row[name] for name in figures)]
        rows.append([*amounts, percent(row["total"], everything), *counted])
    totals = [sum(r[i] for r in rows) if not isinstance(r0, str) else percent(1, 1)
              for i, r0 in enumerate(rows[0])]  # fmt: skip
    names = [*(row["language"] for row in languages), "total"]
    cells = [
        [name, *(v if isinstance(v, str) else f"{v:,}" for v in row)]
        for name, row in zip(names, [*rows, totals], strict=True)
    ]
    columns = ["language", *shown, "specific", "further", "general", "again", "total", "share"]
    table(f"Composition ({unit})", [*columns, *(("sentences", "tokens") if written else ())], cells)


def _show_kinds(kinds: Sequence[Mapping[str, Any]]) -> None:
    """Languages, sentences and tokens, as the paper's Table 1."""
    rows = [
        [row["kind"], *(f"{row[name]:,}" for name in ("languages", "sentences", "tokens"))]
        for row in kinds
    ]
    table("Data", ["data", "languages", "sentences", "tokens"], rows)


def show_projected(projected: Mapping[str, Any], *, json: bool) -> None:
    """What would be taken."""
    if json:
        as_json(projected)
        return
    show_languages(projected["languages"], projected["unit"])
    say(
        f"{projected['taken']:,} {projected['unit']} of {projected['documents']:,} documents; "
        f"about {projected['seconds']:,.0f} s and {projected['disk_mb']:,.0f} MB of disk, without "
        "the time for relevance (all texts were looked at; nothing was written)."
    )
