"""The `corpusfit` command: gathers the commands and words what goes wrong.

Why: errors become one sentence and an exit code in one place, so no command catches anything.
"""

from __future__ import annotations

import sys

import typer

from corpusfit.cli import (
    adapt,
    audit,
    choose,
    clusters,
    compose,
    contamination,
    demo,
    evaluate,
    explain,
    forecast,
    methods,
    rank,
    report,
    retrieval,
    run,
    score,
    select,
    split,
    tokenizers,
)
from corpusfit.cli.show import say
from corpusfit.errors import CorpusfitError

app = typer.Typer(
    name="corpusfit",
    help="Find the part of a corpus that is like your task.",
    epilog="Begin with: corpusfit demo",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for module in (
    *(demo, clusters, select, score, choose, explain, audit, rank, methods),
    *(split, contamination, forecast, compose, adapt, evaluate, run, report),
    *(retrieval, tokenizers),
):
    module.register(app)

STOPPED = 130
"""What Typer exits with after Ctrl-C."""


def main() -> None:
    """Run a command line and exit with its code; wrong usage is worded by Typer, with code 2."""
    try:
        app()
    except CorpusfitError as e:
        say(f"Error: {e}")
        sys.exit(e.exit_code)
    except SystemExit as e:
        if e.code == STOPPED:
            say("Stopped. Run the same command again to go on: what is finished is kept.")
        raise
