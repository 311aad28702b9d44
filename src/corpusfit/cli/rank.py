"""`corpusfit rank`: which method suits this target and this corpus."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from corpusfit import api, pipeline
from corpusfit.cli import options as o
from corpusfit.cli.show import Bar, as_json
from corpusfit.cli.summary import show_ranking

EXAMPLE = """Rank the methods on your own target and corpus.

Two verdicts stand side by side: agreement with unlike methods on what is relevant (what
`--method auto` goes by where it cannot take `domain_moore_lewis`), and the paper's held-out F1,
AUROC and average precision. Beside them stands what a GB of this corpus's text would take on this
machine with these workers.

Without --method it tries all that score each text by itself, but PyOD's detectors, which are named
as pyod:ECOD, and domain_finetune, which trains a network for minutes. What needs the whole corpus
(textrank, textgram, ngram_coverage_unseen) or its labels (oracle) cannot be ranked on a sample.

Example:

\b
  corpusfit rank --target task.jsonl --corpus pile/"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("rank", help=EXAMPLE)(rank)


def rank(
    target: o.Target,
    corpus: o.Corpus,
    method: Annotated[
        list[str] | None, typer.Option("--method", help="Only these methods; may be repeated.")
    ] = None,
    seeds: Annotated[int, typer.Option("--seeds", help="How many splits of the target.")] = 3,
    embedder: o.Embedder = None,
    unit: o.Unit = None,
    text_field: o.TextField = None,
    seed: o.Seed = None,
    engine: o.EngineName = "local",
    workers: o.Workers = None,
    cache: o.Cache = None,
    plan: o.PlanFile = None,
    settings: o.Settings = None,
    json: o.Json = False,
) -> None:
    """Parse, call, print."""
    verdicts = api.rank(
        target=target,
        corpus=corpus,
        methods=method or (),
        seeds=seeds,
        plan=plan,
        settings=settings or (),
        machine=pipeline.Machine(engine, workers, cache, Bar()),
        embedder=embedder,
        unit=unit,
        text_field=text_field,
        seed=seed,
    )
    ranking = [dataclasses.asdict(v) for v in verdicts]
    if json:
        as_json({"seeds": seeds, "ranking": ranking})
    else:
        show_ranking(ranking)
