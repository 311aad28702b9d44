"""The options that several commands share, each worded once.

Why: `select`, `score` and `rank` must mean the same by the same word.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

INPUTS = (
    "a file, folder, glob, URL, hub:NAME (a dataset), pair:FILE,FILE (two line-aligned files) or - "
    "(standard input); may be repeated"
)

Target = Annotated[
    list[str], typer.Option("--target", help=f"Texts of your task: {INPUTS}.", show_default=False)
]
Corpus = Annotated[
    list[str],
    typer.Option("--corpus", help=f"The pile to choose from: {INPUTS}.", show_default=False),
]
Out = Annotated[
    str,
    typer.Option(
        "--out",
        help="Folder or URL for the results; the same run resumes there.",
        show_default=False,
    ),
]
MethodName = Annotated[
    str | None,
    typer.Option(
        "--method",
        help="A name from `corpusfit methods`, or auto (the default): domain_moore_lewis.",
    ),
]
Embedder = Annotated[
    str | None,
    typer.Option(
        "--embedder",
        help="minilm (the default), static (fast), static:MODEL, a model folder or a hub id.",
    ),
]
Budget = Annotated[
    str | None,
    typer.Option(
        "--budget",
        help="What scoring a GB of text may cost, with auto: 90s, 20min, 2h, or 0.50@1.20, money "
        "where an hour of this machine costs 1.20.",
    ),
]
Cascade = Annotated[
    str | None,
    typer.Option(
        "--cascade",
        help="Stages joined by >, cheap ones first, for instance 'dsir>static>minilm': each scores "
        "what the one before passes on. NAME[@EMBEDDER][:SHARE of the corpus passed on].",
    ),
]
Recall = Annotated[
    float | None,
    typer.Option(
        "--recall",
        help="With --cascade: how much of what its last stage alone would take is kept; sets the "
        "shares from a sample (0.95 where none are given).",
    ),
]
Fraction = Annotated[
    float | None,
    typer.Option(
        "--fraction",
        help="Share of the segments to take, in (0, 1]; 0.2 by default, all with continuous.",
    ),
]
SegmentCount = Annotated[int | None, typer.Option("--segments", help="How many segments to take.")]
TokenCount = Annotated[
    int | None, typer.Option("--tokens", help="Estimated word pieces to take at most.")
]
Threshold = Annotated[
    float | None, typer.Option("--threshold", help="Take every segment that scores this or more.")
]
WeightPolicy = Annotated[
    str | None,
    typer.Option(
        "--weights",
        help="top (the default), continuous (lambda as weight) or resample (drawn by lambda).",
    ),
]
Balance = Annotated[
    str | None,
    typer.Option(
        "--balance",
        help="cluster: each cluster of --clusters gives its quota, by default its share of the "
        "target's texts (--set choose.quota=target, even or corpus).",
    ),
]
Clusters = Annotated[
    str | None,
    typer.Option("--clusters", help="With --balance: a folder that corpusfit clusters wrote."),
]
Unit = Annotated[
    str | None,
    typer.Option("--unit", help="window (the default), sentence, paragraph, fixed or document."),
]
TextField = Annotated[
    str | None, typer.Option("--text-field", help="Field or column with the text; `text` if not.")
]
Strict = Annotated[
    bool | None, typer.Option("--strict", help="The first row that cannot be used is an error.")
]
Seed = Annotated[int | None, typer.Option("--seed", help="The only source of chance; 0 if not.")]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers", help="Worker processes; one for each core, or CPU of the cluster, if not."
    ),
]
EngineName = Annotated[
    str,
    typer.Option(
        "--engine", help="Where it runs: local, or ray (the cluster that runs, or one of its own)."
    ),
]
Cache = Annotated[
    str | None,
    typer.Option(
        "--cache",
        help="Folder or URL for embeddings and token ids; $CORPUSFIT_CACHE or the user's cache "
        "if not.",
    ),
]
PlanFile = Annotated[
    Path | None, typer.Option("--plan", help="A TOML file with settings to start from.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="Any other setting, as KEY=VALUE, for instance cut.gamma=5."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace another run in --out.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Say what would be read, and the time and space it would take."),
]
NoReport = Annotated[
    bool, typer.Option("--no-report", help="Write no report.html; corpusfit report can, later.")
]
