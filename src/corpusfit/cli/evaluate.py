"""`corpusfit evaluate`: fine-tune on a labelled task with several seeds, and compare."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from corpusfit import api, pipeline
from corpusfit.cli import options as o
from corpusfit.cli.show import Bar, as_json, say, table
from corpusfit.errors import bad_setting
from corpusfit.evaluate.tables import cell

EXAMPLE = """Fine-tune a model on a labelled task with several seeds, and say whether it is better.

Example:

\b
  corpusfit evaluate --model adapted/ --base bert-base-uncased --task chemprot/ --out judged/

A task is a folder with train, dev and test as JSON lines, CSV, TSV, Parquet, CoNLL columns or brat
folders, or hub:NAME. An evaluation that was stopped goes on with the same command; more seeds or
sizes may be asked for later."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("evaluate", help=EXAMPLE)(evaluate)


def evaluate(
    model: Annotated[
        str, typer.Option("--model", help="A model folder, a hub id, or an adapter's folder.")
    ],
    task: Annotated[
        str, typer.Option("--task", help="Folder, file or hub:NAME with labelled examples.")
    ],
    out: Annotated[
        str, typer.Option("--out", help="Folder for the outcomes; the same task resumes there.")
    ],
    base: Annotated[
        str, typer.Option("--base", help="The model to compare with, such as the one adapted.")
    ] = "",
    seeds: Annotated[int, typer.Option("--seeds", help="Fine-tunings of each model.")] = 8,
    train_size: Annotated[
        str, typer.Option("--train-size", help="Training examples, such as 500,1000; all if not.")
    ] = "",
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            help="What is compared: macro_f1 of classes or micro_f1 of spans if left out; or "
            "accuracy and others. All are stored.",
        ),
    ] = None,
    augment: Annotated[
        str | None,
        typer.Option("--augment", help="Companions of training examples: tfidf or backtranslate."),
    ] = None,
    mt: Annotated[
        str | None, typer.Option("--mt", help="For backtranslate: a model into another language.")
    ] = None,
    mt_back: Annotated[str | None, typer.Option("--mt-back", help="And one back.")] = None,
    adapter: Annotated[
        str | None,
        typer.Option("--adapter", help="Train an adapter and the head alone: pfeiffer or lora."),
    ] = None,
    epochs: Annotated[int | None, typer.Option("--epochs", help="Passes over train.")] = None,
    rate: Annotated[float | None, typer.Option("--rate", help="Highest learning rate.")] = None,
    batch: Annotated[int | None, typer.Option("--batch", help="Examples in a step.")] = None,
    length: Annotated[int | None, typer.Option("--length", help="Tokens of an example.")] = None,
    text_field: o.TextField = None,
    label_field: Annotated[
        str | None, typer.Option("--label-field", help="Field with the class (label).")
    ] = None,
    seed: o.Seed = None,
    workers: o.Workers = None,
    plan: o.PlanFile = None,
    settings: o.Settings = None,
    overwrite: o.Overwrite = False,
    dry_run: o.DryRun = False,
    json: o.Json = False,
) -> None:
    """Parse, call, print."""
    given: dict[str, Any] = {
        "task": task,
        "base": base,
        "seeds": seeds,
        "train_sizes": sizes_of(train_size),
        "plan": api.build_evaluate_plan(
            plan,
            settings or (),
            model=model,
            adapter=adapter,
            metric=metric,
            text_field=text_field,
            label_field=label_field,
            epochs=epochs,
            rate=rate,
            batch=batch,
            length=length,
            augment=augment,
            mt=mt,
            mt_back=mt_back,
            seed=seed,
        ),
        "machine": pipeline.Machine(workers=workers, progress=Bar()),
    }
    if dry_run:
        show_projected(api.estimate_evaluation(**given), json=json)
        return
    run = api.evaluate(**given, out=out, overwrite=overwrite)
    if json:
        as_json({"out": str(out), **run.manifest})
    else:
        show_evaluated(run.manifest)


def sizes_of(listed: str) -> list[int]:
    """Whole numbers, with commas between them."""
    parts = [part.strip() for part in listed.split(",") if part.strip()]
    if not all(part.isdecimal() for part in parts):
        raise bad_setting("--train-size", "whole numbers with commas between", listed)
    return [int(part) for part in parts]


def show_evaluated(manifest: dict[str, Any]) -> None:
    """Scores of each model and size, and what the comparison shows."""
    metric, task = manifest["metric"], manifest["task"]
    rows = [
        [
            manifest["models"][r["model"]]["name"],
            f"{r['size']:,}",
            cell(r["test"][metric]["mean"], r["test"][metric]["sd"]),
            f"{100 * r['low']:.1f} to {100 * r['high']:.1f}",
            cell(r["dev"][metric]["mean"], r["dev"][metric]["sd"]),
            cell(r["test"]["accuracy"]["mean"], r["test"]["accuracy"]["sd"]),
        ]
        for r in manifest["results"]
    ]
    seeds = manifest["seeds"]
    heads = ["model", "examples", f"test {metric}", "95 %", f"dev {metric}", "test accuracy"]
    title = f"{task['name']}: mean ± deviation over {seeds} seed{'s' * (seeds > 1)}, in points"
    table(title, heads, rows)
    for comparison in manifest["comparisons"]:
        say(f"With {comparison['size']:,} examples: {comparison['verdict']}.")


def show_projected(projected: dict[str, Any], *, json: bool) -> None:
    """What it would take."""
    if json:
        as_json(projected)
        return
    if projected["words"]:
        say(projected["words"])
    say(
        f"{projected['fine_tunings']} fine-tunings on {projected['train']:,} training, "
        f"{projected['dev']:,} dev and {projected['test']:,} test examples: about "
        f"{projected['seconds'] / 60:,.0f} min ({projected['examples_per_second']:,.0f} examples a "
        "second each, measured over a few steps; nothing was written)."
    )
