"""`corpusfit run`: the tables of a recipe."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from corpusfit.contracts import command, say, say_result, table

if TYPE_CHECKING:
    from corpusfit_papers.experiments.rendering import Table
    from corpusfit_papers.experiments.running import Missing, Ran


def show_missing(missing: Missing) -> None:
    """Print the dry run."""
    varied = [n for n in _FACTORS if len({_word(n, cell[n]) for cell in missing.cells}) > 1]
    shown = ["task", "selector", *varied]
    rows = [
        [_word(name, cell[name]) for name in shown] + [str(cell["missing"])]
        for cell in missing.cells
    ]
    table("Cells of the table", [*shown, "fine-tunings missing"], rows, words=shown)
    for phase, (total, left) in missing.steps.items():
        say(f"{phase.capitalize()}: {total}, of which {left} are missing.")
    if missing.seconds is None:
        say(
            "The time is estimated from finished steps, and none is finished of: "
            f"{', '.join(missing.unknown)}. Start the run, and repeat --dry-run when one is."
        )
    else:
        say(f"Expected: {missing.seconds / 60:,.0f} min, from the time of finished steps.")


_FACTORS = ("size", "model", "fraction", "weights", "adapter", "augment")
"""What the cells of a task and a selector may differ in."""


def _word(name: str, value: object) -> str:
    if name == "model":
        return Path(str(value)).name
    if name == "size":
        return f"{value:,}" if value else "all"
    return "–" if value in (None, "") else str(value)


def _facts(ran: Ran, request: Mapping[str, Any]) -> dict[str, Any]:
    return {"out": request["out"], **dataclasses.asdict(ran.judged)}


def _exit_if_cells_failed(ran: Ran) -> None:
    if ran.judged.failed:
        say(f"{len(ran.judged.failed)} cells failed. For the errors, see {ran.path / 'failures'}.")
        raise typer.Exit(1)


@command(
    machine=("engine", "workers", "cache", "verify"),
    dry_run=show_missing,
    facts=_facts,
    after=_exit_if_cells_failed,
)
def run(ran: Ran) -> None:
    """Run a recipe: select, adapt and evaluate, then compare.

    Example:
      corpusfit run recipe.toml --out table3/

    A recipe is a TOML file with tasks, selectors and seeds. Prints the recipe's tables and writes
    them as Markdown, LaTeX, CSV and JSON. To resume a stopped run, run the same command again.
    Finished steps are not repeated, even if you change the recipe. If a cell fails, the others
    still run, and the exit code is 1.

    Options:
        RECIPE: TOML file; the repository has some in papers/recipes
        --out FOLDER: Folder for steps and tables; a stopped run resumes there
        --keep-overlap: Also train on copies of dev and test texts
        --cells FOLDER: Folder with the scores and predictions of finished cells. Cells found there
            are not run again, and newly finished cells are added (default: none)
        --only TASK: Run and compare only this task; repeatable (default: all tasks)
        --dry-run: Print which steps --out lacks, and what they take; write nothing
    """
    for shown in ran.tables:
        show_table(shown)
    say(f"Tables: {ran.path / 'table.md'}, .tex, .csv and .json.")


def show_table(shown: Table) -> None:
    """Print a table and its notes."""
    from corpusfit_papers.experiments.rendering import plain

    text_columns = [
        name
        for i, name in enumerate(shown.columns)
        if all(isinstance(row[i], str | None) for row in shown.rows)
    ]
    table(shown.title, shown.columns, plain(shown), words=text_columns)
    for note in shown.notes:
        say_result(note)
    say_result()
