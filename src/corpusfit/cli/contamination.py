"""`corpusfit contamination`: a task's held-out texts in training text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from corpusfit.cli.options import command
from corpusfit.cli.show import one_line, percent, say, say_result, table

if TYPE_CHECKING:
    from corpusfit.evaluation.decontamination.report import Contamination

_SOURCES = 4
_MAX_CHARACTERS = 300


@command()
def contamination(result: Contamination) -> None:
    """Find a task's dev and test texts in training text.

    Example:
      corpusfit contamination --task imdb/ --data out/

    Counts exact copies and near-duplicates, even inside longer texts, and prints examples. Writes
    nothing. To leave such texts out of training, use `corpusfit adapt --guard`.

    Options:
        --task INPUT: Held-out texts: a task's folder or hub:NAME (its dev and test splits), or
            files; labels are not read; repeatable
        --data INPUT: Training texts: folder of a selection, or {INPUTS}
        --task-field NAME: Text field of the task's files (default: --text-field)
    """
    rows = []
    for name, split in result.splits.items():
        sources = [f"{source} ({n:,})" for source, n in split.sources.items()]
        more = [f"{len(sources) - _SOURCES} more"] if len(sources) > _SOURCES else []
        rows.append(
            [
                name,
                f"{split.texts:,}",
                f"{split.found:,}",
                percent(split.found, split.texts),
                f"{split.holders:,}",
                ", ".join([*sources[:_SOURCES], *more]) or "–",
            ]
        )
    columns = ["split", "texts", "found", "share found", "training texts", "sources"]
    table("Held-out texts found in the training texts", columns, rows, words=["sources"])
    from corpusfit.evaluation.decontamination.finder import found_as_copy_only

    for example in result.examples:
        found = f"{percent(example.containment, 1)} of its 5-grams"
        if found_as_copy_only(example.text):
            found = "the same text"
        say_result(
            f"{example.split} text, {found} in {example.source}, row {example.row}:\n"
            f"  task: {one_line(example.text, _MAX_CHARACTERS)}\n"
            f"  data: {one_line(example.excerpt, _MAX_CHARACTERS)}\n"
        )
    say(
        f"{result.holders:,} of {result.texts:,} texts contain a held-out text."
        + (" To train without them: corpusfit adapt --guard …" if result.holders else "")
    )
