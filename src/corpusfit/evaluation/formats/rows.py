"""Read texts with labels from rows: JSON lines, CSV, Parquet, SQLite, Hugging Face datasets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from corpusfit import text as corpus
from corpusfit.core.errors import EmptyInputError, InputError
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Document, Reject, Source
from corpusfit.evaluation.formats.labelled import Labelled
from corpusfit.evaluation.plan import TaskPlan
from corpusfit.text import cures
from corpusfit.text.fields import Row
from corpusfit.text.rejects import BROKEN, EMPTY_LINE, INVALID_UTF8, missing_field


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a split, whose labels are not understood yet."""

    split: str  # name of the split, for messages
    sources: Sequence[Source]  # its files
    read: ReadPlan  # how they are read; the label is the id field
    rows: list[Row]  # the rows in reading order, without empty lines
    cure: str = ""  # what to do about a file that is not in UTF-8; empty if all are

    def values(self) -> list[object]:
        """The values of the label field that are not missing."""
        return [r.value for r in self.rows if isinstance(r, Document) and r.value is not None]

    def holds_words(self) -> bool:
        """Whether each row has as many labels as strings in its text: rows of words and tags."""
        documents = [row for row in self.rows if isinstance(row, Document)]
        return bool(documents) and all(
            isinstance(row.value, list)
            and isinstance(words := (row.fields or {}).get(self.read.text_field), list)
            and all(isinstance(word, str) for word in words)
            and len(words) == len(row.value)
            for row in documents
        )

    def labelled(self, parse: Callable[[object], list[Any] | None], wants: str) -> Labelled:
        """The usable rows; a note counts the others."""
        texts: list[list[str]] = []
        labels: list[list[Any]] = []
        bad, first = 0, ""
        for row in self.rows:
            parsed = parse(row.value) if isinstance(row, Document) else None
            if isinstance(row, Document) and parsed is not None:
                texts.append([row.text])
                labels.append(parsed)
                continue
            bad += 1
            lack = f"no label in {self.read.id_field!r} ({wants})"
            if isinstance(row, Reject):
                lack = f"no usable text ({row.reason})"
            first = first or f"row {row.row} has {lack}"
        if not texts:
            raise EmptyInputError(self._nothing_usable(bad, first, bool(wants)))
        if not bad:
            return Labelled(texts, labels)
        rows = f"{bad:,} of {bad + len(texts):,} rows of {self.split}"
        note = f"{rows} were left out: for instance, {first}. {self.cure}".rstrip()
        return Labelled(texts, labels, (note,))

    def _nothing_usable(self, bad: int, first: str, labels: bool) -> str:
        """The message for a split without usable rows."""
        read, split = self.read, f"{self.split} split of `task`"
        if not bad:
            return f"The {split} must hold texts{' with labels' * labels}; it is empty."
        begin = f"No row of the {split} has {'both a text and a label' if labels else 'a text'}"
        begin += f": {first}."
        if self.cure:
            return f"{begin} {self.cure}"
        for field in (read.text_field, read.id_field)[: 1 + labels]:
            lacking = _fields(self.sources, replace(read, text_field=field))
            if lacking:
                begin += f" Row 0: {lacking}."
        if not labels:
            return f"{begin} Set the field with `task.text_field` (now {read.text_field!r})."
        return (
            f"{begin} Set the fields with `task.text_field` (now {read.text_field!r}) and "
            f"`task.label_field` (now {read.id_field!r})."
        )


def read_rows(places: Sequence[str], plan: TaskPlan, split: str) -> Rows:
    """Read the rows of a split with the corpus readers."""
    read = ReadPlan(
        text_field=plan.text_field,
        id_field=plan.label_field,
        separator=plan.separator,
        quote=plan.quote,
        escape=plan.escape,
        columns=plan.columns,
        query=plan.query,
    )
    sources = corpus.find(places, read, spool=Path(), role="task")
    rows: list[Row] = []
    cure = ""
    for shard in corpus.shards(sources, read):
        for row in corpus.rows(shard, read):
            reason = row.reason if isinstance(row, Reject) else ""
            if reason.startswith(BROKEN):
                source = sources[shard.source].url
                raise InputError(f"{source} cannot be read completely: {reason}.")
            if (
                reason.startswith(INVALID_UTF8)
                and not cure
                and corpus.files_of(sources[shard.source])
            ):
                url = sources[shard.source].url
                cure = cures.of_encoding(Path(url).name, url, alone=True)
            if reason != EMPTY_LINE:
                rows.append(row)
    return Rows(split, sources, read, rows, cure)


def read_texts(places: Sequence[str], split: str, plan: TaskPlan) -> Labelled:
    """The texts of a split, without labels; arguments and errors are those of `read_rows`."""
    return read_rows(places, plan, split).labelled(lambda _: [], "")


def _fields(sources: Sequence[Source], read: ReadPlan) -> str:
    """The fields of the first row, if it lacks the text field of `read`."""
    lacking = corpus.kind(missing_field(read.text_field, ()))
    for shard in corpus.shards(sources, read):
        for row in corpus.rows(shard, read):
            is_lacking = isinstance(row, Reject) and row.reason.startswith(lacking)
            return row.reason if is_lacking and isinstance(row, Reject) else ""
    return ""
