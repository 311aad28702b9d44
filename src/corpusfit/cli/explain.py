"""`corpusfit explain`: why a text has its score."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated

import typer

from corpusfit import api, pipeline
from corpusfit.cli import options as o
from corpusfit.cli.show import Bar, as_json, one_line, say, table

if TYPE_CHECKING:
    from corpusfit.jobs.explain import Neighbour

EXAMPLE = """Explain one score of a run: what raised it, what lowered it, what it is like.

Example:

\b
  corpusfit explain out/ --row news.jsonl:17
  corpusfit explain out/ --text "The enzyme binds its substrate." """

_SHOWN = 300


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("explain", help=EXAMPLE)(explain)


def explain(
    folder: Annotated[
        str, typer.Argument(metavar="DIR", help="Folder or URL of a select or score run.")
    ],
    row: Annotated[
        str | None,
        typer.Option(
            "--row", help="SOURCE:ROW[:SEGMENT], as in scores/; without a segment the first."
        ),
    ] = None,
    text: Annotated[str | None, typer.Option("--text", help="Or any text.")] = None,
    top: Annotated[
        int, typer.Option("--top", help="N-grams to each side, and target texts, at most.")
    ] = 10,
    cache: o.Cache = None,
    json: o.Json = False,
) -> None:
    """Parse, call, print."""
    machine = pipeline.Machine(workers=1, cache=cache, progress=Bar())
    found = api.explain(folder, row=row, text=text, top=top, machine=machine)
    if json:
        as_json(dataclasses.asdict(found))
        return
    typer.echo(_headline(found))
    typer.echo(f"\n  {one_line(found.text, _SHOWN)}\n")
    for title, effects in (("Raised", found.raised), ("Lowered", found.lowered)):
        if effects:
            rows = [[e.part, f"{e.effect:+.3g}"] for e in effects]
            table(title, ["words", "effect"], rows)
    if not found.raised and not found.lowered and found.dropped is None:
        say(f"{found.method} does not tell which words made the score, or knows none of these.")
    by = "words in common (TF-IDF)" if found.nearest_by == "words" else "embedding"
    if found.learned_from:
        _neighbours("Corpus texts that it learned from, nearest by embedding", found.learned_from)
    if found.nearest:
        _neighbours(f"Target texts nearest by {by}", found.nearest)
    else:
        say("No target text has a word in common with it.")


def _neighbours(title: str, found: list[Neighbour]) -> None:
    rows = [[f"{n.cosine:.3f}", one_line(n.text, _SHOWN)] for n in found]
    table(title, ["cosine", "text"], rows, words=["text"])


def _headline(found: pipeline.Explanation) -> str:
    where = "The text"
    if found.source is not None:
        where = (
            f"{found.source}, row {found.row}, segment {found.segment} "
            f"({found.segments} in the document)"
        )
    taken = {True: ", selected", False: ", not selected", None: ""}[found.selected]
    if found.dropped is not None:
        return (
            f"{where}: dropped out of the cascade at the stage {found.dropped}, with the score "
            f"{found.score:.4g} there{taken}."
        )
    least = "" if found.threshold is None else f"; the lowest score taken is {found.threshold:.4g}"
    return f"{where}: {found.method} score {found.score:.4g}{taken}{least}."
