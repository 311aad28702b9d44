"""`corpusfit explain`: why a text has its score."""

from __future__ import annotations

from typing import TYPE_CHECKING

from corpusfit.cli.options import command
from corpusfit.cli.show import say_result

if TYPE_CHECKING:
    from corpusfit.selection.explaining import Explanation


@command(machine=("cache", "verify"))
def explain(explanation: Explanation) -> None:
    """Explain the score of one text.

    Example:
      corpusfit explain out/ --row news.jsonl:17
      corpusfit explain out/ --text "The enzyme binds its substrate."

    Prints the words that raised and lowered the score and, of a method on embeddings, the nearest
    target texts. Writes nothing.

    Options:
        DIR: {RUN_FOLDER}
        --row SOURCE:ROW[:SEGMENT]: Row to explain, named as in DIR/scores; without SEGMENT, its
            first segment; or the id of a text in DIR/selected (default: none; --row or --text is
            required)
        --text TEXT: Text to explain instead of a row (default: none)
        --top N: Most n-grams to print in each direction, and most target texts (default: 10)
    """
    say_result(str(explanation))
