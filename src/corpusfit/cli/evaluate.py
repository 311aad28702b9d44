"""`corpusfit evaluate`: score models on a task with several seeds, and compare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from corpusfit.cli.options import command
from corpusfit.cli.show import say, say_result, table
from corpusfit.core.engine.pace import format_duration

if TYPE_CHECKING:
    from corpusfit.evaluation.evaluating import Evaluated


def show_projected(projected: dict[str, Any]) -> None:
    """Print the dry run."""
    if projected["words"]:
        say(projected["words"])
    say(
        f"Expected: {format_duration(projected['seconds'])} for {projected['runs']} "
        f"on {projected['train']:,} training, {projected['dev']:,} dev and "
        f"{projected['test']:,} test examples ({projected['examples_per_second']:,.0f} examples "
        "per second, measured over a few steps; nothing was written)."
    )


@command(machine=("workers",), dry_run=show_projected)
def evaluate(run: Evaluated) -> None:
    """Fine-tune a model on a task and compare it with its base.

    Example:
      corpusfit evaluate --model adapted/ --base bert-base-uncased --task chemprot/ --out eval/
      corpusfit evaluate --model adapted/ --task heldout.txt --kind language_modeling --out bits/

    A task is a dataset (hub:OWNER/NAME), or a folder with train, dev and test splits as JSON
    lines, CSV, TSV, Parquet, CoNLL columns or brat folders. Prints and writes the scores over
    several seeds, with a significance test. To resume a stopped evaluation, run the same command
    again; more --seeds or --train-size values extend a finished one.

    For causal models, --kind language_modeling trains nothing and measures bits per byte of plain
    text, or with --loss-on of conversations.

    Options:
        --task INPUT: Labeled examples: a folder, a file or hub:OWNER/NAME
        --out FOLDER: Folder for the scores; a stopped evaluation resumes there
        --base MODEL: Model to compare with, such as the base model of --model (default: none)
        --seeds N: Number of fine-tunings of each model, each with its own seed; {seed} in a
            model's name becomes that seed (default: 8)
        --train-size N,N,…: Numbers of training examples, such as 500,1000 (default: all examples)
    """
    show_evaluated(run.manifest)


_CONSTANT = "most frequent class"


def show_evaluated(manifest: dict[str, Any]) -> None:
    """Print the scores per model and training size, and the comparisons."""
    from corpusfit.evaluation.points import POINTS, cell

    metric = manifest["metric"]
    task = manifest["task"]
    learned = any(r["size"] for r in manifest["results"])
    unit = manifest["unit"]
    # one more, if the title's unit is its own
    more = [m for m in manifest["results"][0]["test"] if m != metric and unit == POINTS][:1]
    rows = [
        [
            manifest["models"][r["model"]]["name"],
            *([f"{r['size']:,}"] if learned else []),
            cell(r["test"][metric]["mean"], r["test"][metric]["sd"], unit),
            _interval(r["low"], r["high"], points=unit == POINTS),
            cell(r["dev"][metric]["mean"], r["dev"][metric]["sd"], unit) if "dev" in r else "–",
            *(cell(r["test"][name]["mean"], r["test"][name]["sd"]) for name in more),
        ]
        for r in manifest["results"]
    ]
    if constant := manifest["constant"]:
        empty = [""] if learned else []
        row = [_CONSTANT, *empty, cell(constant[metric], None, unit), "–", "–"]
        rows.append([*row, *(cell(constant[name], None) for name in more)])
    seeds = manifest["seeds"]
    columns = ["model", *(["training examples"] if learned else [])]
    shown = metric if unit == POINTS else metric.removeprefix("neg_")
    columns += [f"test {shown}", "95 % interval"]
    columns += [f"dev {shown}", *(f"test {name}" for name in more)]
    title = f"{task['name']}: mean ± standard deviation over {seeds} seed{'s' * (seeds > 1)}"
    how = "points (hundredths, higher is better)"
    if unit != POINTS:
        how = f"{unit} (lower is better)"
    table(f"{title}, in {how}", columns, rows)
    for comparison in manifest["comparisons"]:
        begin = f"With {comparison['size']:,} training examples: " if learned else ""
        say_result(f"{begin}{comparison['verdict']}.")
    for name, signature in manifest.get("signatures", {}).items():
        say(f"{name}: {signature}")


def _interval(low: float, high: float, *, points: bool) -> str:
    """An interval of a score, lower end first."""
    if points:
        return f"{100 * low:.1f} to {100 * high:.1f}"
    return f"{-high:.4f} to {-low:.4f}"
