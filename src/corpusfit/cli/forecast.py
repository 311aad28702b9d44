"""`corpusfit forecast`: predictors of the gain from adapting on a selection."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import corpusfit
from corpusfit.cli import options as o
from corpusfit.cli.show import answer, percent, say_result, table
from corpusfit.evaluation.api import FORECAST


@o.offers(FORECAST, "mix.heldout=1000")
def forecast(
    *,
    data: Annotated[
        list[str], o.option("FOLDER", "Folder of a selection; repeatable, to compare several")
    ],
    words: o.Words,
    json: o.Json = False,
) -> None:
    """Print predictors of the gain from a selection.

    Example:
      corpusfit forecast --data out/ --data random/ --model bert-base-uncased

    Counts n-grams and measures the model's loss before training. Trains nothing and writes nothing.
    The predictors are not a measured gain; `corpusfit evaluate` measures it.
    """
    found = corpusfit.forecast(data=data, **words)
    answer(json, dataclasses.asdict(found), show_forecast, found)


def show_forecast(found: corpusfit.Forecast) -> None:
    """Print the figures of the selections, and the conclusions."""
    columns = ["selection", "segments", "KL of corpus", "KL of selection", "reduction"]
    columns += ["relative reduction", "task n-grams covered"]
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
    table("KL divergence from the task's n-grams, in nats (lower is better)", columns, rows)
    kinds = [
        [p.data, *(f"{p.losses[k]:.3f}" if k in p.losses else "–" for k in ("task", "general"))]
        for p in found.prospects
    ]
    title = (
        f"Loss before training in nats per token, {found.objective} in sequences of {found.length} "
        "(lower is better)"
    )
    table(title, ["selection", "task text", "general text"], kinds)
    for sentence in found.words:
        say_result(sentence)
