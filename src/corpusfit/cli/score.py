"""`corpusfit score`: scores without a selection."""

from __future__ import annotations

from corpusfit import api, workflows
from corpusfit.api.offers import SCORE
from corpusfit.cli import options as o
from corpusfit.cli.show import Bar, as_json
from corpusfit.cli.summary import show_estimate, show_run


@o.offers(SCORE, "cut.gamma=5")
def score(
    *,
    target: o.Target,
    corpus: o.Corpus,
    out: o.Out,
    words: o.Words,
    engine: o.EngineName = "local",
    workers: o.Workers = None,
    cache: o.Cache = None,
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
    built = api.build_plan(**words)
    machine = workflows.Machine(engine, workers, cache, Bar())
    if dry_run:
        show_estimate(api.estimate(target=target, corpus=corpus, plan=built, machine=machine), json)
        return
    run = api.score(
        target=target, corpus=corpus, out=out, plan=built, overwrite=overwrite, machine=machine
    )
    if json:
        as_json({"out": str(out), **run.manifest})
    else:
        show_run(run.path, run.manifest)
