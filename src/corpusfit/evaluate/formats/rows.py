"""Read texts with a class from rows: JSON lines, CSV, TSV, Parquet, a Hugging Face dataset."""

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
"""Reasons (`corpus/rejects.py`) that concern all rows from there on."""


def read_rows(places: Sequence[str], plan: TaskPlan, split: str) -> Labelled:
    """Read the usable rows of a split; a note counts the others.

    The corpus readers are used, with the label as the row's id: a string, an integer or a boolean.

    Args:
        places: files, or `hub:NAME[:CONFIG]@SPLIT`.
        plan: names of the fields.
        split: name of the split, for messages.

    Raises:
        EmptyInputError: no row has a text and a label; the message lists the fields of a row.
        InputError: a file cannot be read completely.
        MissingDependencyError: the place is a dataset and `datasets` is not installed.
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
                source = sources[shard.source].url
                raise InputError(f"{source} cannot be read completely: {reason}.")
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
    """What a row lacks, by the reader's reason; without a reason, the label."""
    if reason:
        return f"no usable text ({reason})"
    return f"no label in {plan.label_field!r} (a string, a whole number or a boolean)"


def _nothing_usable(
    sources: Sequence[Source], read: ReadPlan, split: str, bad: int, first: str
) -> str:
    """The message for a split without usable rows."""
    if not bad:
        return f"The {split} split of --task must hold texts with labels; it is empty."
    begin = f"No row of the {split} split of --task has both a text and a label: {first}."
    for field in (read.text_field, read.id_field):
        lacking = _fields(sources, replace(read, text_field=field))
        if lacking:
            begin += f" Row 0: {lacking}."
    return (
        f"{begin} Set the fields with --text-field (now {read.text_field!r}) and "
        f"--label-field (now {read.id_field!r})."
    )


def _fields(sources: Sequence[Source], read: ReadPlan) -> str:
    """The fields of the first row, if it lacks the text field of `read`."""
    lacking = corpus.kind(missing_field(read.text_field, ()))
    for shard in corpus.shards(sources, read):
        for row in corpus.rows(shard, read):
            found = isinstance(row, Reject) and row.reason.startswith(lacking)
            return row.reason if found and isinstance(row, Reject) else ""
    return ""
