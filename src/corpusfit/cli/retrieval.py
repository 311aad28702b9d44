"""`corpusfit retrieval`: whether models put sentences next to their translations."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from corpusfit import api, pipeline
from corpusfit.cli import options as o
from corpusfit.cli.show import Bar, as_json, say, short_names, table

EXAMPLE = """Look for each sentence's translation by cosine, in both directions.

Example:

\b
  corpusfit retrieval --model mbert/ --model adapted/ --pairs wmt20.de-en

There wmt20.de-en.de and wmt20.de-en.en have the same number of lines. Sentences become the mean of
a model's outputs; the share whose nearest is their own translation is the precision at 1. Models
are held against the first. Nothing is trained."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("retrieval", help=EXAMPLE)(retrieval)


def retrieval(
    model: Annotated[
        list[str],
        typer.Option(
            "--model",
            "--embedder",
            help="A model folder or hub id, minilm or static; repeat it to compare with the first.",
            show_default=False,
        ),
    ],
    pairs: Annotated[
        list[str],
        typer.Option(
            "--pairs",
            help="NAME for NAME.de beside NAME.en; FILE,FILE; a .tsv of two columns; or pair:… as "
            "--corpus of select takes it. May be repeated.",
            show_default=False,
        ),
    ],
    seed: o.Seed = None,
    engine: o.EngineName = "local",
    workers: o.Workers = None,
    cache: o.Cache = None,
    settings: o.Settings = None,
    json: o.Json = False,
) -> None:
    """Parse, call, print."""
    found = api.retrieval(
        model=model,
        pairs=pairs,
        settings=settings or (),
        seed=seed,
        machine=pipeline.Machine(engine, workers, cache, Bar()),
    )
    if json:
        as_json(dataclasses.asdict(found))
    else:
        _show(found)


def _show(found: pipeline.Retrieval) -> None:
    """A table for each test set, models side by side below each other."""
    names = short_names(found.models)
    for name, blank in found.blank.items():
        own = [r for r in found.results if r.pairs == name]
        rows = [
            [
                f"{r.source} → {r.target}",
                names[r.model],
                f"{100 * r.precision:.1f}",
                f"{100 * r.low:.1f} to {100 * r.high:.1f}",
                r.verdict or "–",
            ]
            for r in own
        ]
        left_out = f", {blank:,} with a blank side left out" if blank else ""
        title = f"{name}: {own[0].sentences:,} pairs{left_out}; precision at 1 in per cent"
        columns = ["direction", "model", "P@1", "95 %", "against the first"]
        table(title, columns, rows, words=["model", "against the first"])
    guess = max(r.chance for r in found.results)
    say(f"A blind guess finds {100 * guess:.2g} % at most.")
