"""`corpusfit tune`: find what to select for a model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

import corpusfit
from corpusfit import tuning
from corpusfit.cli import options as o
from corpusfit.cli.adapt import show_adapted
from corpusfit.cli.report import write_report
from corpusfit.cli.show import answer, as_json, say, table
from corpusfit.tuning.api import TUNE


@o.offers(TUNE, "train.rate=1e-4")
def tune(
    *,
    target: o.Target,
    corpus: o.Corpus,
    out: Annotated[
        str, o.option("FOLDER", "Folder for the results; a stopped search resumes there")
    ],
    replay: Annotated[
        list[str] | None,
        o.option(
            "INPUT",
            "General texts to mix into every adaptation, against forgetting; repeatable "
            "(default: none)",
        ),
    ] = None,
    guard: Annotated[list[str] | None, o.guard("--target and --corpus")] = None,
    guard_field: o.GuardField = "",
    train: Annotated[
        bool, typer.Option("--train", help="Also adapt the model on the winner's selection")
    ] = False,
    words: o.Words,
    overwrite: o.Overwrite = False,
    dry_run: o.DryRun = False,
    no_report: o.NoReport = False,
    json: o.Json = False,
) -> None:
    r"""Find what to select for your model and task.

    Tries methods, amounts and weights by short adaptations of the model. Settings that fall behind
    on held-out texts of the target are dropped, and the others train longer (successive halving).
    Leaves the winner's selection in FOLDER/selection and, with --train, its model in FOLDER/model.
    Run the same command to resume a stopped search.

    Example:
      corpusfit tune --model bert-base-uncased --target train.jsonl --corpus corpus/ \
        --guard task/ --out tuned/ --budget 30min
    """
    texts: dict[str, Any] = {"target": target, "corpus": corpus, "replay": replay or (), **words}
    texts |= {"guard": guard or (), "guard_field": guard_field}
    if dry_run:
        answer(json, tuning.estimate_tuning(**texts), show_plan)
        return
    found = corpusfit.tune(**texts, out=out, train=train, overwrite=overwrite)
    if json:
        model_facts = found.model.manifest if found.model else None
        as_json({"out": str(out), **found.manifest, "model": model_facts})
    else:
        show_tuned(found.path, found.manifest, found.trials())
        if found.model is not None:
            show_adapted(found.model.manifest, str(found.model.path))
    if not no_report:
        write_report(found.path, quiet=json)


def show_tuned(out: Path, manifest: Mapping[str, Any], trials: list[dict[str, Any]]) -> None:
    """Print the last trial of each setting, and what the search shows."""
    from corpusfit.core.engine.pace import format_duration

    last: dict[str, dict[str, Any]] = {}
    for trial in trials:
        last.setdefault(trial["label"], trial)
    rows = [
        [
            trial["label"],
            f"{trial['steps']:,}" + "*" * trial["stopped"],
            "failed" if trial["error"] else f"{trial['loss']:.3f}",
            "–" if trial["error"] else f"{trial['change']:+.3f}",
            "–" if trial["bits"] is None else f"{trial['bits']:.2f}",
            f"{trial['seconds']:,.0f}",
        ]
        for trial in last.values()
    ]
    columns = ["setting", "steps", "loss", "change", "bits", "seconds"]
    title = "Each setting's longest trial: held-out loss in nats per token (lower is better)"
    table(title, columns, rows)
    if any(trial["stopped"] for trial in last.values()):
        say("* Stopped early.")
    for sentence in manifest["conclusions"]:
        say(sentence)
    took = format_duration(manifest["seconds"])
    say(f"{len(trials)} trials, {manifest['steps']:,} training steps, {took}.")
    say(f"Selection: {out / 'selection'} (for --data of `corpusfit adapt`).")


def show_plan(estimate: Mapping[str, Any]) -> None:
    """Print the dry run."""
    rows = [
        [str(number), str(rung["trials"]), f"{rung['steps']:,}", str(rung["passed"])]
        for number, rung in enumerate(estimate["rungs"], 1)
    ]
    columns = ["rung", "trials", "steps of each", "pass on"]
    table(f"Rungs for {estimate['settings']} settings", columns, rows)
    say(
        f"Expected: {estimate['seconds'] / 60:,.0f} min ({estimate['scoring_s'] / 60:,.0f} min to "
        f"score, {estimate['steps']:,} steps of {estimate['step_s']:.2f} s), "
        f"{estimate['memory_mb']:,.0f} MB of memory, {estimate['disk_mb']:,.0f} MB of disk "
        "(measured over a few steps; nothing was written)."
    )
