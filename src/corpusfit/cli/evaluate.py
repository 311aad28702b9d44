"""`corpusfit evaluate`: fine-tune on a labelled task with several seeds, and compare."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from corpusfit import api, workflows
from corpusfit.cli import options as o
from corpusfit.cli.show import Bar, as_json, say, table
from corpusfit.errors import bad_setting
from corpusfit.evaluate.tables import cell

EXAMPLE = """Fine-tune a model on a task and compare it with its base.

Example:

\b
  corpusfit evaluate --model adapted/ --base bert-base-uncased --task chemprot/ --out eval/

A task is a folder with train, dev and test splits as JSON lines, CSV, TSV, Parquet, CoNLL columns
or brat folders, or hub:NAME. Prints and writes the scores over several seeds and a significance
test. Run the same command to resume a stopped evaluation, or with more seeds or sizes to extend
it."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("evaluate", help=EXAMPLE)(evaluate)


def evaluate(
    model: Annotated[
        str,
        typer.Option(
            "--model",
            metavar="MODEL",
            help="Model to fine-tune: a model folder, an adapter's folder or a Hugging Face hub id",
        ),
    ],
    task: Annotated[
        str,
        typer.Option(
            "--task", metavar="INPUT", help="Labelled examples: a folder, a file or hub:NAME"
        ),
    ],
    out: Annotated[
        str,
        typer.Option(
            "--out",
            metavar="FOLDER",
            help="Folder for the scores; a stopped evaluation resumes there",
        ),
    ],
    base: Annotated[
        str,
        typer.Option(
            "--base",
            metavar="MODEL",
            help="Model to compare with, such as the base model of --model (default: none)",
            show_default=False,
        ),
    ] = "",
    seeds: Annotated[
        int,
        typer.Option(
            "--seeds",
            metavar="N",
            parser=o.whole_number,
            help="Number of fine-tunings of each model, each with its own seed (default: 8)",
            show_default=False,
        ),
    ] = 8,
    train_size: Annotated[
        str,
        typer.Option(
            "--train-size",
            metavar="N,N,…",
            help="Numbers of training examples, such as 500,1000 (default: all examples)",
            show_default=False,
        ),
    ] = "",
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            metavar="NAME",
            help="Metric to compare by, such as accuracy, micro_f1, weighted_f1, macro_recall or "
            "spearman; all of the kind of task are stored (default: macro_f1 of classes, micro_f1 "
            "of several labels and of spans, pearson of numbers)",
        ),
    ] = None,
    augment: Annotated[
        str | None,
        typer.Option(
            "--augment",
            metavar="[tfidf|backtranslate]",
            help="Augmentation of the training examples (default: none)",
        ),
    ] = None,
    mt: Annotated[
        str | None,
        typer.Option(
            "--mt",
            metavar="MODEL",
            help="Model that translates to another language, for --augment backtranslate (default: "
            "none)",
        ),
    ] = None,
    mt_back: Annotated[
        str | None,
        typer.Option(
            "--mt-back",
            metavar="MODEL",
            help="Model that translates back to the source language, for --augment backtranslate "
            "(default: none)",
        ),
    ] = None,
    adapter: Annotated[
        str | None,
        typer.Option(
            "--adapter",
            metavar="[pfeiffer|lora]",
            help="Adapter to train with the head, in place of all weights (default: none)",
        ),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(
            "--epochs",
            metavar="N",
            parser=o.whole_number,
            help="Highest number of passes over the training examples (default: 5 for "
            "classification, 100 for tagging, 30 for tagging with an adapter)",
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            "--rate",
            metavar="NUMBER",
            parser=o.number,
            help="Highest learning rate (default: 3e-5 for classification, 2e-5 for tagging, 1e-4 "
            "for tagging with an adapter)",
        ),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(
            "--batch",
            metavar="N",
            parser=o.whole_number,
            help="Examples per step (default: 8 for classification, 32 for tagging)",
        ),
    ] = None,
    length: Annotated[
        int | None,
        typer.Option(
            "--length",
            metavar="N",
            parser=o.whole_number,
            help="Most tokens per example; longer ones are truncated (default: the model's limit, "
            "and at most 128 for tagging)",
        ),
    ] = None,
    text_field: o.TextField = None,
    label_field: Annotated[
        str | None,
        typer.Option("--label-field", metavar="NAME", help="Field with the label (default: label)"),
    ] = None,
    seed: o.Seed = None,
    workers: o.Workers = None,
    plan: o.PlanFile = None,
    settings: Annotated[list[str] | None, o.settings_such_as("task.dev_share=0.2")] = None,
    overwrite: o.Overwrite = False,
    dry_run: o.DryRun = False,
    json: o.Json = False,
) -> None:
    """Parse, call, print."""
    request: dict[str, Any] = {
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
        "machine": workflows.Machine(workers=workers, progress=Bar()),
    }
    if dry_run:
        show_projected(api.estimate_evaluation(**request), json=json)
        return
    run = api.evaluate(**request, out=out, overwrite=overwrite)
    if json:
        as_json({"out": str(out), **run.manifest})
    else:
        show_evaluated(run.manifest)


def sizes_of(listed: str) -> list[int]:
    """Whole numbers from a comma-separated text."""
    parts = [part.strip() for part in listed.split(",") if part.strip()]
    if not all(part.isdecimal() for part in parts):
        cure = "For example --train-size 500,1000."
        raise bad_setting("--train-size", "whole numbers separated by commas", listed, cure)
    return [int(part) for part in parts]


def show_evaluated(manifest: dict[str, Any]) -> None:
    """Print the scores per model and training size, and the comparisons."""
    metric, task = manifest["metric"], manifest["task"]
    second = next(name for name in manifest["results"][0]["test"] if name != metric)
    rows = [
        [
            manifest["models"][r["model"]]["name"],
            f"{r['size']:,}",
            cell(r["test"][metric]["mean"], r["test"][metric]["sd"]),
            f"{100 * r['low']:.1f} to {100 * r['high']:.1f}",
            cell(r["dev"][metric]["mean"], r["dev"][metric]["sd"]),
            cell(r["test"][second]["mean"], r["test"][second]["sd"]),
        ]
        for r in manifest["results"]
    ]
    seeds = manifest["seeds"]
    columns = ["model", "training examples", f"test {metric}", "95 % interval"]
    columns += [f"dev {metric}", f"test {second}"]
    title = f"{task['name']}: mean ± standard deviation over {seeds} seed{'s' * (seeds > 1)}"
    table(f"{title}, in points (hundredths, higher is better)", columns, rows, keys=2)
    for comparison in manifest["comparisons"]:
        say(f"With {comparison['size']:,} training examples: {comparison['verdict']}.")


def show_projected(projected: dict[str, Any], *, json: bool) -> None:
    """Print the dry run."""
    if json:
        as_json(projected)
        return
    if projected["words"]:
        say(projected["words"])
    say(
        f"Expected: {projected['seconds'] / 60:,.0f} min for {projected['fine_tunings']} "
        f"fine-tunings on {projected['train']:,} training, {projected['dev']:,} dev and "
        f"{projected['test']:,} test examples ({projected['examples_per_second']:,.0f} examples "
        "per second, measured over a few steps; nothing was written)."
    )
