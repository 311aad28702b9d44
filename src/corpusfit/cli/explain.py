"""`corpusfit explain`: why a text has its score."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from corpusfit.cli.options import command
from corpusfit.cli.show import one_line, say, say_result, table

if TYPE_CHECKING:
    from corpusfit.selection.explaining import Explanation, Neighbor

_MAX_TEXT_CHARACTERS = 300


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
