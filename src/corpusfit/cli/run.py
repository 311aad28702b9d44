"""`corpusfit run`: from a recipe to its table."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from corpusfit import api, pipeline
from corpusfit.cli import options as o
from corpusfit.cli.report import write_report
from corpusfit.cli.show import Bar, as_json, say, table
from corpusfit.evaluate.tables import Table, plain

EXAMPLE = """Make a recipe's table: select, adapt and fine-tune with seeds, then compare.

Example:

\b
  corpusfit run examples/papers/tadpole_table3_cpu.toml --out table3/

A recipe is a TOML file: tasks, ways of selecting, seeds. What was stopped goes on with the same
command, and no finished step is repeated, not even for a changed recipe. A cell that fails costs
no other; the exit code is then 1."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("run", help=EXAMPLE)(run)


def run(
    recipe: Annotated[
        Path, typer.Argument(metavar="RECIPE", help="A TOML file; see examples/papers.")
    ],
    out: Annotated[
        str,
        typer.Option("--out", help="Folder for steps and tables; the same recipe goes on there."),
    ],
    keep_overlap: Annotated[
        bool,
        typer.Option("--keep-overlap", help="Train on copies of dev and test texts too."),
    ] = False,
    engine: o.EngineName = "local",
    workers: o.Workers = None,
    cache: o.Cache = None,
    overwrite: o.Overwrite = False,
    dry_run: o.DryRun = False,
    no_report: o.NoReport = False,
    json: o.Json = False,
) -> None:
    """Parse, call, print."""
    machine = pipeline.Machine(engine, workers, cache, progress=Bar())
    if dry_run:
        found = api.missing(
            recipe, out=out, keep_overlap=keep_overlap, machine=machine, overwrite=overwrite
        )
        show_missing(found, json=json)
        return
    ran = api.run(recipe, out=out, keep_overlap=keep_overlap, overwrite=overwrite, machine=machine)
    if json:
        as_json({"out": str(out), **dataclasses.asdict(ran.judged)})
    else:
        for shown in ran.tables:
            show_table(shown)
        say(f"Tables: {ran.path / 'table.md'}, .tex, .csv and .json.")
    if not no_report:
        write_report(ran.path, quiet=json)
    if ran.judged.failed:
        say(f"{len(ran.judged.failed)} cells failed; why: {ran.path / 'failures'}.")
        raise typer.Exit(1)


def show_table(shown: Table) -> None:
    """A table and its notes."""
    words = [
        name
        for i, name in enumerate(shown.columns)
        if all(isinstance(row[i], str | None) for row in shown.rows)
    ]
    table(shown.title, shown.columns, plain(shown), words=words)
    for note in shown.notes:
        typer.echo(note)
    typer.echo()


def show_missing(found: pipeline.Missing, *, json: bool) -> None:
    """What it would do."""
    if json:
        as_json(dataclasses.asdict(found))
        return
    shown = ("task", "size", "model", "selector", "fraction", "weights", "adapter", "augment")
    rows = [
        [_word(name, cell[name]) for name in shown] + [str(cell["missing"])] for cell in found.cells
    ]
    table("Cells", [*shown, "fine-tunings missing"], rows, words=shown)
    for phase, (total, left) in found.steps.items():
        say(f"{phase.capitalize()}: {total}, of which {left} are to be made.")
    if found.seconds is None:
        say("No estimate of the time: not every kind of step was made once yet.")
    else:
        say(f"About {found.seconds / 60:,.0f} min, by what finished steps took.")


def _word(name: str, value: object) -> str:
    """One property of a cell."""
    if name == "model":
        return Path(str(value)).name
    if name == "size":
        return f"{value:,}" if value else "all"
    return "–" if value in (None, "") else str(value)
