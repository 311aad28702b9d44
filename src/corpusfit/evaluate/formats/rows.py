"""Texts with a class each, as rows: JSON lines, CSV, TSV, Parquet, a Hugging Face dataset.

What: the corpus's own readers, with the label as the row's id.
Why: they know every format, every archive and every way in which a row can be bad.
Trade-off: a label is a string, a whole number or a boolean; anything else is no label.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from corpusfit import corpus
from corpusfit.corpus.rejects import EMPTY_LINE, missing_field
from corpusfit.errors import EmptyInputError, InputError
from corpusfit.evaluate.formats.labelled import Labelled
from corpusfit.evaluate.plan import TaskPlan
from corpusfit.plan import ReadPlan
from corpusfit.types import Document, Reject, Source

_BROKEN = ("truncated .", "corrupt .", "bomb limit", "unreadable parquet")
"""Reasons (`corpus/rejects.py`) that stand for all rows from there on."""


def read_rows(places: Sequence[str], plan: TaskPlan, split: str) -> Labelled:
    """The usable rows of a split; a note counts the others.

    Args:
        places: files, or `hub:NAME[:CONFIG]@SPLIT`.
        plan: names the fields.
        split: for messages.

    Raises:
        EmptyInputError: no row has a text and a label; says which fields there are.
        InputError: the bytes cannot be read, or an archive breaks off: half a split is another.
        MissingDependencyError: a dataset was named and `datasets` is not installed.
    """
    read = ReadPlan(text_field=plan.text_field, id_field=plan.label_field)
    sources = corpus.find(places, read, spool=Path(), role="task")
    texts: list[list[str]] = []
    labels: list[list[str]] = []
    bad, first = 0, ""
    for shard in corpus.shards(sources, read):
        for row in corpus.rows(shard, read):
            if isinstance(row, Document) and str("" if row.id is None else row.id).strip():
                texts.append([row.text])
                labels.append([str(row.id)])
                continue
            reason = row.reason if isinstance(row, Reject) else ""
            if reason.startswith(_BROKEN):
                raise InputError(f"{sources[shard.source].url} cannot be read whole: {reason}.")
            if reason != EMPTY_LINE:
                bad += 1
                first = first or f"row {row.row} has {_lack(reason, plan)}"
    if not texts:
        raise EmptyInputError(_nothing_usable(sources, read, split, bad, first))
    if not bad:
        return Labelled(texts, labels)
    rows = f"{bad:,} of {bad + len(texts):,} rows"
    return Labelled(texts, labels, (f"{rows} of {split} were left out: for instance, {first}.",))


def _lack(reason: str, plan: TaskPlan) -> str:
    """What a row lacks, from the reader's reason; without one it is the label."""
    if reason:
        return f"no usable text ({reason})"
    return f"no label in {plan.label_field!r} (a string, a whole number or a boolean)"


def _nothing_usable(
    sources: Sequence[Source], read: ReadPlan, split: str, bad: int, first: str
) -> str:
    """The sentence for a split without one example."""
    if not bad:
        return f"The {split} split of --task must hold texts with labels; it is empty."
    begin = f"No row of the {split} split of --task has both a text and a label: {first}."
    for field in (read.text_field, read.id_field):
        lacking = _fields(sources, replace(read, text_field=field))
        if lacking:
            begin += f" Row 0: {lacking}."
    return (
        f"{begin} Name the fields with --text-field (now {read.text_field!r}) and "
        f"--set task.label_field=NAME (now {read.id_field!r})."
    )


def _fields(sources: Sequence[Source], read: ReadPlan) -> str:
    """Which fields the first row has, if not the one that `read` takes for the text."""
    lacking = corpus.kind(missing_field(read.text_field, ()))
    for shard in corpus.shards(sources, read):
        for row in corpus.rows(shard, read):
            found = isinstance(row, Reject) and row.reason.startswith(lacking)
            return row.reason if found and isinstance(row, Reject) else ""
    return ""
