"""`corpusfit tune`: find what to select for a model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corpusfit.cli.adapt import show_adapted
from corpusfit.cli.options import command
from corpusfit.cli.show import say, table

if TYPE_CHECKING:
    from corpusfit.tuning.folder import Tuned


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


def _facts(tuned: Tuned, request: Mapping[str, Any]) -> dict[str, Any]:
    return {"out": request["out"], **tuned.manifest, "model": tuned.model and tuned.model.manifest}


@command(dry_run=show_plan, facts=_facts)
def tune(tuned: Tuned) -> None:
    r"""Find what to select for your model and task.

    Tries methods, amounts and weights in short adaptations of the model. Drops the settings that
    fall behind on held-out target texts and trains the others longer (successive halving). Writes
    the winner's selection to FOLDER/selection and, with --train, its model to FOLDER/model. To
    resume a stopped search, run the same command again.

    Example:
      corpusfit tune --model bert-base-uncased --target train.jsonl --corpus corpus/ \
        --guard task/ --out tuned/ --budget 30min

    Options:
        --out FOLDER: Folder for the results; a stopped search resumes there
        --replay INPUT: General texts to mix into every adaptation against forgetting; repeatable
            (default: none)
        --guard INPUT: Leave out target and corpus texts that contain one of these held-out
            texts: {GUARD}
        --train: Also adapt the model on the winner's selection
    """
    show_tuned(tuned.path, tuned.manifest, tuned.trials())
    if tuned.model is not None:
        show_adapted(tuned.model.manifest, str(tuned.model.path))


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
