"""`corpusfit explain` and `audit`: why a text has its score, and whether a domain was found."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from corpusfit.cli.options import command
from corpusfit.cli.show import one_line, percent, say, say_result, table

if TYPE_CHECKING:
    from corpusfit.selection.auditing import Audit, Finding
    from corpusfit.selection.explaining import Explanation, Neighbor

_MAX_TEXT_CHARACTERS = 300
_MAX_NAME_CHARACTERS = 60
_MAX_DOMAINS = 30


@command(machine=("cache", "verify"))
def explain(explanation: Explanation) -> None:
    """Explain the score of one text.

    Example:
      corpusfit explain out/ --row news.jsonl:17
      corpusfit explain out/ --text "The enzyme binds its substrate."

    Prints the words that raised and lowered the score, and the nearest target texts.
    Writes nothing.

    Options:
        DIR: {RUN_FOLDER}
        --row SOURCE:ROW[:SEGMENT]: Row to explain, named as in DIR/scores; without SEGMENT, its
            first segment (default: none; --row or --text is required)
        --text TEXT: Text to explain instead of a row (default: none)
        --top N: Most n-grams to print in each direction, and most target texts (default: 10)
    """
    say_result(explanation.headline)
    say_result(f"\n  {one_line(explanation.text, _MAX_TEXT_CHARACTERS)}\n")
    if explanation.meaning:
        say(explanation.meaning)
    effects = [abs(e.effect) for e in (*explanation.raised, *explanation.lowered) if e.effect]
    # the smallest effect is shown with two significant digits, but never with more than 6 decimals
    smallest = min(effects, default=1.0)
    decimals = min(6, max(0, 1 - math.floor(math.log10(smallest))))
    for title, parts in (
        ("Words that raised the score", explanation.raised),
        ("Words that lowered the score", explanation.lowered),
    ):
        if parts:
            rows = [[e.part, f"{e.effect:+.{decimals}f}"] for e in parts]
            table(title, ["words", "effect on the score"], rows)
    shown = explanation.raised or explanation.lowered or explanation.meaning
    if not shown:
        by_words = explanation.nearest_by == "words"
        why = "knows none of the words of this text" if by_words else "does not score by words"
        say(f"{explanation.method} {why}.")
    if explanation.learned_from:
        title = "Corpus texts used for training, nearest by embedding"
        _neighbors(title, explanation.learned_from)
    if explanation.nearest:
        _neighbors(f"Target texts nearest by {explanation.similarity}", explanation.nearest)
    else:
        say("No target text has a word in common with this text.")


def _neighbors(title: str, neighbors: list[Neighbor]) -> None:
    rows = [[f"{n.cosine:.3f}", one_line(n.text, _MAX_TEXT_CHARACTERS)] for n in neighbors]
    table(title, ["cosine", "text"], rows, words=["text"])


def _facts(result: Audit, request: Mapping[str, Any]) -> dict[str, Any]:
    return {"out": request["out"], **dataclasses.asdict(result)}


@command(machine=("engine", "workers", "verify"), facts=_facts)
def audit(result: Audit) -> None:
    """Compare a run with known domains, by precision and recall.

    Example:
      corpusfit audit out/ --truth source --domain "bio_*"
      corpusfit audit out/ --truth subreddit

    Prints how much of each domain was selected and, with --domain, the precision, recall and F1 of
    finding that domain. Writes nothing.

    Options:
        DIR: {RUN_FOLDER}
        --truth NAME: Domain of a row: source (the name of the row's file) or the name of a field
            (default: source)
        --domain GLOB: Name of the domain that the run should find, or a glob; repeatable
            (default: none)
    """
    _show_domains(result)
    if result.finding is not None:
        _show_finding(result, result.finding)


def _show_domains(result: Audit) -> None:
    columns = ["domain", "segments", "share of corpus", "word pieces"]
    chosen = any(n.selected is not None for n in result.domains.values())
    if chosen:
        columns += ["selected", "share of domain", "share of selected"]
    rows = []
    for name, n in list(result.domains.items())[:_MAX_DOMAINS]:
        star = " *" if n.sought else ""
        row = [
            one_line(name, _MAX_NAME_CHARACTERS) + star,
            f"{n.segments:,}",
            percent(n.segments, result.segments),
            f"{n.tokens:,}",
        ]
        if n.selected is not None and n.taken is not None:
            row += [f"{n.selected:,}", percent(n.taken, 1), percent(n.of_selection or 0, 1)]
        rows.append(row)
    legend = " (*: the domain sought)" if result.finding is not None else ""
    table(f"Domains by {result.truth}{legend}", columns, rows)
    if len(result.domains) > _MAX_DOMAINS:
        say(f"{len(result.domains) - _MAX_DOMAINS} more domains; --json prints all.")
    if not chosen:
        say(
            "Nothing was chosen yet, so only the corpus is counted. To select: corpusfit choose DIR"
        )


def _show_finding(result: Audit, finding: Finding) -> None:
    say_result(
        f"Domain searched: {', '.join(finding.domain)}, {finding.segments:,} of "
        f"{result.segments:,} segments. Chance: precision {percent(finding.chance, 1)}."
    )
    if finding.recall is not None and finding.f1 is not None:
        precision = "–" if finding.precision is None else percent(finding.precision, 1)
        say_result(
            f"The {finding.selected:,} selected segments: precision {precision}, recall "
            f"{percent(finding.recall, 1)}, F1 {finding.f1:.3f} (higher is better)."
        )
    say_result(
        f"All segments by {result.method} score: average precision "
        f"{finding.scores.average_precision:.3f} (higher is better).\n"
    )
    rows = [
        [f"{100 * p.share:g} %", f"{p.segments:,}", percent(p.precision, 1), percent(p.recall, 1)]
        for p in finding.scores.curve
    ]
    title = "Segments with the highest scores"
    table(title, ["share of corpus", "segments", "precision", "recall"], rows)
