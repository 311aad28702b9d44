"""The options that several commands share, each worded once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

INPUTS = (
    "a file, folder, glob, URL, hub:NAME (dataset), pair:FILE,FILE (two line-aligned files) or - "
    "(standard input); repeatable"
)


def whole_number(text: str) -> int:
    """The whole number that an option names."""
    try:
        return int(text)
    except ValueError as e:
        raise typer.BadParameter(f"must be a whole number; got {text!r}.") from e


def number(text: str) -> float:
    """The number that an option names."""
    try:
        return float(text)
    except ValueError as e:
        raise typer.BadParameter(f"must be a number; got {text!r}.") from e


def settings_such_as(example: str) -> Any:
    """The option `--set` of a command, with a setting of that command as the example."""
    return typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help=f"Any other setting, such as {example}; repeatable (default: none)",
    )


RUN_FOLDER = "Folder or URL of a `corpusfit select` or `corpusfit score` run"

Target = Annotated[
    list[str],
    typer.Option(
        "--target", metavar="INPUT", help=f"Texts of your task: {INPUTS}", show_default=False
    ),
]
Corpus = Annotated[
    list[str],
    typer.Option(
        "--corpus", metavar="INPUT", help=f"Texts to choose from: {INPUTS}", show_default=False
    ),
]
Out = Annotated[
    str,
    typer.Option(
        "--out",
        metavar="FOLDER",
        help="Folder or URL for the results; a stopped run resumes there",
        show_default=False,
    ),
]
MethodName = Annotated[
    str | None,
    typer.Option(
        "--method",
        metavar="NAME",
        help="Scoring method, one of `corpusfit methods`; auto uses the method whose selection "
        "from a sample best predicts held-out target text (default: auto)",
    ),
]
Embedder = Annotated[
    str | None,
    typer.Option(
        "--embedder",
        metavar="MODEL",
        help="Model for embeddings: minilm, static (fast), static:MODEL, a model folder or a "
        "Hugging Face hub id (default: minilm)",
    ),
]
Budget = Annotated[
    str | None,
    typer.Option(
        "--budget",
        metavar="COST",
        help="Highest cost of scoring 1 GB of text with --method auto: a time (90s, 20min, 2h), "
        "or money at a price per hour of this machine (0.50@1.20) (default: no limit)",
    ),
]
Cascade = Annotated[
    str | None,
    typer.Option(
        "--cascade",
        metavar="STAGES",
        help="Stages joined by >, cheapest first, such as 'dsir>static>minilm'; each scores what "
        "the stage before passes on. A stage is NAME[@EMBEDDER][:SHARE], where SHARE is the share "
        "of the whole corpus that the stage passes on (default: none)",
    ),
]
Recall = Annotated[
    float | None,
    typer.Option(
        "--recall",
        metavar="NUMBER",
        parser=number,
        help="Share, above 0 and at most 1, of the segments that the last stage alone would select "
        "and that --cascade must also select; sets the stages' shares from a sample (default: 0.95 "
        "if --cascade gives no shares)",
    ),
]
Fraction = Annotated[
    float | None,
    typer.Option(
        "--fraction",
        metavar="NUMBER",
        parser=number,
        help="Share of the segments to select, above 0 and at most 1 (default: 0.2, or 1 with "
        "--weights continuous)",
    ),
]
SegmentCount = Annotated[
    int | None,
    typer.Option(
        "--segments",
        metavar="N",
        parser=whole_number,
        help="Number of segments to select (default: set by --fraction)",
    ),
]
TokenCount = Annotated[
    int | None,
    typer.Option(
        "--tokens",
        metavar="N",
        parser=whole_number,
        help="Most word pieces to select, estimated (default: set by --fraction)",
    ),
]
Threshold = Annotated[
    float | None,
    typer.Option(
        "--threshold",
        metavar="NUMBER",
        parser=number,
        help="Lowest score to select (default: set by --fraction)",
    ),
]
WeightPolicy = Annotated[
    str | None,
    typer.Option(
        "--weights",
        metavar="POLICY",
        help="Selection policy: top (highest scores), continuous (every segment, weighted by "
        "lambda, a relevance weight from 0 to 1) or resample (segments drawn in proportion to "
        "lambda) (default: top)",
    ),
]
Balance = Annotated[
    str | None,
    typer.Option(
        "--balance",
        metavar="cluster",
        help="Select a quota from each cluster of --clusters; --set choose.quota=target, even or "
        "corpus says which quota (default: no balancing)",
    ),
]
Clusters = Annotated[
    str | None,
    typer.Option(
        "--clusters",
        metavar="FOLDER",
        help="Folder written by `corpusfit clusters`, for --balance (default: none)",
    ),
]
Unit = Annotated[
    str | None,
    typer.Option(
        "--unit",
        metavar="UNIT",
        help="Unit of text: window, sentence, paragraph, fixed or document (default: window)",
    ),
]
TextField = Annotated[
    str | None,
    typer.Option(
        "--text-field", metavar="NAME", help="Field or column with the text (default: text)"
    ),
]
Strict = Annotated[
    bool | None, typer.Option("--strict", help="Stop at the first row that cannot be used")
]
Seed = Annotated[
    int | None,
    typer.Option("--seed", metavar="N", parser=whole_number, help="Random seed (default: 0)"),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        metavar="N",
        parser=whole_number,
        help="Number of worker processes (default: one per core, or per CPU of the Ray cluster)",
    ),
]
EngineName = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="[local|ray]",
        help="Where to run: local (this machine) or ray (the running Ray cluster, or a new one on "
        "this machine) (default: local)",
        show_default=False,
    ),
]
Cache = Annotated[
    str | None,
    typer.Option(
        "--cache",
        metavar="FOLDER",
        help="Folder or URL for stored embeddings and token ids (default: $CORPUSFIT_CACHE, or the "
        "user's cache folder)",
    ),
]
PlanFile = Annotated[
    Path | None,
    typer.Option(
        "--plan",
        metavar="FILE",
        help="TOML file with settings; options override them (default: none)",
    ),
]
Settings = Annotated[list[str] | None, settings_such_as("cut.gamma=5")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a different run in --out")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output")]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="Print what would be read and the expected time and space; write nothing"
    ),
]
NoReport = Annotated[
    bool,
    typer.Option(
        "--no-report", help="Do not write report.html; `corpusfit report` can write one later"
    ),
]
