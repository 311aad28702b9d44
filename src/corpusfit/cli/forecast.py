"""`corpusfit forecast`: what is known of adapting on a selection, before it is done."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from corpusfit import api, pipeline
from corpusfit.cli import options as o
from corpusfit.cli.show import Bar, as_json, percent, table

EXAMPLE = """Say how near a selection is to its task, and how new that is to a model.

Example:

\b
  corpusfit forecast --data out/ --data random/ --model bert-base-uncased

Counts words and measures the model's loss; trains nothing, and shows no gain by itself."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("forecast", help=EXAMPLE)(forecast)


def forecast(
    data: Annotated[
        list[str],
        typer.Option(
            "--data",
            help="Folder of a selection; may be repeated, to set several side by side.",
            show_default=False,
        ),
    ],
    model: Annotated[
        str,
        typer.Option(
            "--model", help="A model folder or a Hugging Face hub id.", show_default=False
        ),
    ],
    objective: Annotated[
        str | None, typer.Option("--objective", help="mlm (the default), mlm+nsp or causal.")
    ] = None,
    length: Annotated[int | None, typer.Option("--length", help="Tokens in a sequence.")] = None,
    seed: o.Seed = None,
    workers: o.Workers = None,
    cache: o.Cache = None,
    settings: o.Settings = None,
    json: o.Json = False,
) -> None:
    """Parse, call, print."""
    found = api.forecast(
        data=data,
        settings=settings or (),
        machine=pipeline.Machine(workers=workers, cache=cache, progress=Bar()),
        model=model,
        objective=objective,
        length=length,
        seed=seed,
    )
    if json:
        as_json(dataclasses.asdict(found))
    else:
        show_forecast(found)


def show_forecast(found: pipeline.Forecast) -> None:
    """The figures side by side, and what they come to."""
    columns = ["selection", "segments", "of corpus", "of selected", "falls by", "", "covered"]
    rows = [
        [
            p.data,
            f"{p.texts:,}",
            f"{p.kl.raw:.3f}",
            f"{p.kl.selected:.3f}",
            f"{p.kl.falls:+.3f}",
            percent(p.kl.falls, p.kl.raw),
            percent(p.kl.covered, 1),
        ]
        for p in found.prospects
    ]
    table("KL of the task's n-grams (nats), and how many of them are selected", columns, rows)
    kinds = [
        [p.data, *(f"{p.losses[k]:.3f}" if k in p.losses else "–" for k in ("task", "general"))]
        for p in found.prospects
    ]
    table("Loss (nats a token)", ["selection", "task", "general"], kinds)
    for sentence in found.words:
        typer.echo(sentence)
