"""`corpusfit select`: the part of a corpus that is like a task."""

from __future__ import annotations

from typing import Any

import corpusfit
from corpusfit import selection
from corpusfit.cli import options as o
from corpusfit.cli.report import write_report
from corpusfit.cli.show import answer
from corpusfit.cli.summary import show_estimate, show_run
from corpusfit.selection.api import SELECT


@o.offers(SELECT, "cut.gamma=5", where=("engine", "workers", "cache"))
def select(
    *,
    target: o.Target,
    corpus: o.Corpus,
    out: o.Out,
    words: o.Words,
    overwrite: o.Overwrite = False,
    dry_run: o.DryRun = False,
    no_report: o.NoReport = False,
    json: o.Json = False,
) -> None:
    """Find the part of a corpus that is like your task.

    Example:
      corpusfit select --target task.jsonl --corpus corpus/ --out out/

    Writes out/selected (the text), out/scores (the score of every segment), out/manifest.json and
    out/report.html. Run the same command to resume a stopped run.
    """
    request: dict[str, Any] = {"target": target, "corpus": corpus, **words}
    if dry_run:
        answer(json, selection.estimate(**request), show_estimate)
        return
    run = corpusfit.select(**request, out=out, overwrite=overwrite)
    answer(json, {"out": str(out), **run.manifest}, show_run, run.path, run.manifest)
    if not no_report:
        write_report(run.path, quiet=json)
