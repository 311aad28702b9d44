"""`corpusfit audit`: compare a run with known domains."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated

import typer

import corpusfit
from corpusfit.cli import options as o
from corpusfit.cli.show import as_json, one_line, percent, say, say_result, table

if TYPE_CHECKING:
    from corpusfit.selection import auditing
    from corpusfit.selection.auditing import Finding


_ROWS = 30
_LONGEST = 60


def audit(
    folder: Annotated[str, typer.Argument(metavar="DIR", help=o.RUN_FOLDER)],
    truth: Annotated[
        str,
        o.option(
            "NAME",
            "Domain of a row: source (the name of the row's file) or the name of a field "
            "(default: source)",
        ),
    ] = "source",
    domain: Annotated[
        list[str] | None,
        o.option(
            "GLOB", "Domain that should be found, as a glob on its name; repeatable (default: none)"
        ),
    ] = None,
    engine: o.EngineName = None,
    workers: o.Workers = None,
    json: o.Json = False,
) -> None:
    """Compare a run with known domains, by precision and recall.

    Example:
      corpusfit audit out/ --truth source --domain "bio_*"
      corpusfit audit out/ --truth subreddit

    Prints the share of each domain that was selected and, for the domain named by --domain,
    precision, recall and F1. Writes nothing.
    """
    found = corpusfit.audit(
        folder, truth=truth, domain=domain or (), engine=engine, workers=workers
    )
    if json:
        as_json({"out": str(folder), **dataclasses.asdict(found)})
        return
    _show_domains(found)
    if found.finding is not None:
        _show_finding(found, found.finding)


def _show_domains(found: auditing.Audit) -> None:
    columns = ["domain", "segments", "share of corpus", "word pieces"]
    chosen = any(n.selected is not None for n in found.domains.values())
    if chosen:
        columns += ["selected", "share of domain", "share of selected"]
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
        say(f"{len(found.domains) - _ROWS} more domains; --json prints all.")
    if not chosen:
        say(
            "Nothing was chosen yet, so only the corpus is counted. To select: corpusfit choose DIR"
        )


def _show_finding(found: auditing.Audit, finding: Finding) -> None:
    say_result(
        f"Domain searched: {', '.join(finding.domain)}, {finding.segments:,} of "
        f"{found.segments:,} segments. Chance: precision {percent(finding.chance, 1)}."
    )
    if finding.recall is not None and finding.f1 is not None:
        precision = "–" if finding.precision is None else percent(finding.precision, 1)
        say_result(
            f"The {finding.selected:,} selected segments: precision {precision}, recall "
            f"{percent(finding.recall, 1)}, F1 {finding.f1:.3f} (higher is better)."
        )
    say_result(
        f"All segments by {found.method} score: average precision "
        f"{finding.scores.average_precision:.3f} (higher is better).\n"
    )
    rows = [
        [f"{100 * p.share:g} %", f"{p.segments:,}", percent(p.precision, 1), percent(p.recall, 1)]
        for p in finding.scores.curve
    ]
    title = "Segments with the highest scores"
    table(title, ["share of corpus", "segments", "precision", "recall"], rows)
