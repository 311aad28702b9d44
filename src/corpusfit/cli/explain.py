"""`corpusfit explain`: why a text has its score."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Annotated

import typer

import corpusfit
from corpusfit.cli import options as o
from corpusfit.cli.show import as_json, one_line, say, say_result, table

if TYPE_CHECKING:
    from corpusfit.selection.explaining import Neighbour


_SHOWN = 300


def explain(
    folder: Annotated[str, typer.Argument(metavar="DIR", help=o.RUN_FOLDER)],
    row: Annotated[
        str | None,
        o.option(
            "SOURCE:ROW[:SEGMENT]",
            "Row to explain, named as in DIR/scores; without SEGMENT, the row's first segment "
            "(default: none; --row or --text is required)",
        ),
    ] = None,
    text: Annotated[
        str | None, o.option("TEXT", "Any text to explain, in place of --row (default: none)")
    ] = None,
    top: Annotated[
        int,
        o.option(
            "N",
            "Highest number of n-grams per direction, and of target texts (default: 10)",
            parser=o.whole_number,
        ),
    ] = 10,
    cache: o.Cache = None,
    json: o.Json = False,
) -> None:
    """Explain the score of one text.

    Example:
      corpusfit explain out/ --row news.jsonl:17
      corpusfit explain out/ --text "The enzyme binds its substrate."

    Prints the words that raised and lowered the score, and the target texts nearest to the text.
    Writes nothing.
    """
    found = corpusfit.explain(folder, row=row, text=text, top=top, cache=cache)
    if json:
        as_json(dataclasses.asdict(found))
        return
    say_result(found.headline)
    say_result(f"\n  {one_line(found.text, _SHOWN)}\n")
    if found.meaning:
        say(found.meaning)
    effects = [abs(e.effect) for e in (*found.raised, *found.lowered) if e.effect]
    smallest = min(effects, default=1.0)  # it has two significant digits, within 6 decimals
    decimals = min(6, max(0, 1 - math.floor(math.log10(smallest))))
    raised = ("Words that raised the score", found.raised)
    for title, parts in (raised, ("Words that lowered the score", found.lowered)):
        if parts:
            rows = [[e.part, f"{e.effect:+.{decimals}f}"] for e in parts]
            table(title, ["words", "effect on the score"], rows)
    if not found.raised and not found.lowered and found.dropped is None:
        by_words = found.nearest_by == "words"
        why = "knows none of the words of this text" if by_words else "does not score by words"
        say(f"{found.method} {why}.")
    if found.learned_from:
        title = "Corpus texts used for training, nearest by embedding"
        _neighbours(title, found.learned_from)
    if found.nearest:
        _neighbours(f"Target texts nearest by {found.similarity}", found.nearest)
    else:
        say("No target text has a word in common with this text.")


def _neighbours(title: str, found: list[Neighbour]) -> None:
    rows = [[f"{n.cosine:.3f}", one_line(n.text, _SHOWN)] for n in found]
    table(title, ["cosine", "text"], rows, words=["text"])
