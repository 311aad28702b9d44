"""`corpusfit audit`: a selection held against known domains."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated

import typer

from corpusfit import api, pipeline
from corpusfit.cli import options as o
from corpusfit.cli.show import Bar, as_json, one_line, percent, say, table

if TYPE_CHECKING:
    from corpusfit.pipeline.auditing import Finding

EXAMPLE = """Hold a run against known domains: what was taken of each, and how well one was found.

Example:

\b
  corpusfit audit out/ --truth source --domain "bio_*"
  corpusfit audit out/ --truth subreddit"""

_ROWS = 30
_LONGEST = 60


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("audit", help=EXAMPLE)(audit)


def audit(
    folder: Annotated[
        str, typer.Argument(metavar="DIR", help="Folder or URL of a select or score run.")
    ],
    truth: Annotated[
        str,
        typer.Option(
            "--truth",
            help="A row's domain: source (the name of its file), or the field that holds it.",
        ),
    ] = "source",
    domain: Annotated[
        list[str] | None,
        typer.Option(
            "--domain", help="The domain that was sought, as a glob on its name; may be repeated."
        ),
    ] = None,
    engine: o.EngineName = "local",
    workers: o.Workers = None,
    json: o.Json = False,
) -> None:
    """Parse, call, print."""
    machine = pipeline.Machine(engine, workers, progress=Bar())
    found = api.audit(folder, truth=truth, domain=domain or (), machine=machine)
    if json:
        as_json({"out": str(folder), **dataclasses.asdict(found)})
        return
    _show_domains(found)
    if found.finding is not None:
        _show_finding(found, found.finding)


def _show_domains(found: pipeline.Audit) -> None:
    """What is in the corpus and in the selection."""
    columns = ["domain", "segments", "of corpus", "word pieces"]
    chosen = any(n.selected is not None for n in found.domains.values())
    if chosen:
        columns += ["selected", "of domain", "of selected"]
    rows = []
    for name, n in list(found.domains.items())[:_ROWS]:
        row = [
            one_line(name, _LONGEST) + " *" * bool(n.sought),
            f"{n.segments:,}",
            percent(n.segments, found.segments),
            f"{n.tokens:,}",
        ]
        if n.selected is not None and n.taken is not None:
            row += [f"{n.selected:,}", percent(n.taken, 1), percent(n.of_selection or 0, 1)]
        rows.append(row)
    marked = " (*: the domain sought)" if found.finding is not None else ""
    table(f"Domains by {found.truth}{marked}", columns, rows)
    if len(found.domains) > _ROWS:
        say(f"… and {len(found.domains) - _ROWS} more domains; --json has all.")
    if not chosen:
        say("Nothing was chosen yet, so only the corpus is counted: corpusfit choose DIR")


def _show_finding(found: pipeline.Audit, finding: Finding) -> None:
    """How well the domain was found."""
    typer.echo(
        f"Sought: {', '.join(finding.domain)}: {finding.segments:,} of {found.segments:,} "
        f"segments, so taking any text has precision {percent(finding.chance, 1)}."
    )
    if finding.recall is not None and finding.f1 is not None:
        precision = "–" if finding.precision is None else percent(finding.precision, 1)
        typer.echo(
            f"The {finding.selected:,} selected segments: precision {precision}, recall "
            f"{percent(finding.recall, 1)}, F1 {finding.f1:.3f}."
        )
    typer.echo(
        f"All segments by {found.method} score: average precision "
        f"{finding.scores.average_precision:.3f}.\n"
    )
    rows = [
        [
            f"{100 * p.share:g} %",
            f"{p.segments:,}",
            percent(p.precision, 1),
            percent(p.recall, 1),
        ]
        for p in finding.scores.curve
    ]
    table("The best by score", ["share", "segments", "precision", "recall"], rows)
