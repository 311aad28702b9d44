"""`corpusfit score`: scores without a selection."""

from __future__ import annotations

from typing import Any

import corpusfit
from corpusfit import selection
from corpusfit.cli import options as o
from corpusfit.cli.show import answer
from corpusfit.cli.summary import show_estimate, show_run
from corpusfit.selection.api import SCORE


@o.offers(SCORE, "cut.gamma=5", where=("engine", "workers", "cache"))
def score(
    *,
    target: o.Target,
    corpus: o.Corpus,
    out: o.Out,
    words: o.Words,
    overwrite: o.Overwrite = False,
    dry_run: o.DryRun = False,
    json: o.Json = False,
) -> None:
    """Score a corpus by likeness to your task; select later.

    Example:
      corpusfit score --target task.jsonl --corpus corpus/ --out out/
      corpusfit choose out/ --tokens 1000000

    Writes out/scores (the score of every segment) and out/manifest.json. To select from the scores:
    `corpusfit choose`. Run the same command to resume a stopped run.
    """
    request: dict[str, Any] = {"target": target, "corpus": corpus, **words}
    if dry_run:
        answer(json, selection.estimate(**request), show_estimate)
        return
    run = corpusfit.score(**request, out=out, overwrite=overwrite)
    answer(json, {"out": str(out), **run.manifest}, show_run, run.path, run.manifest)
