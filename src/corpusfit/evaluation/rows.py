"""Read rows of texts with labels: JSON lines, CSV, Parquet, `hub:`."""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from corpusfit import text as corpus
from corpusfit.core.errors import EmptyInputError, InputError
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Document, Reason, Reject, Source
from corpusfit.evaluation.plan import TaskPlan
from corpusfit.labeled.formats import Labeled
from corpusfit.labeled.formats.words import feature_of
from corpusfit.text import cures
from corpusfit.text.fields import (
    Row,
    completion_at,
    fields_in,
    json_value,
    label_of,
)
from corpusfit.text.files import unpacked_name
from corpusfit.text.formats import hub
from corpusfit.text.rejects import (
    EMPTY_LINE,
    INVALID_UTF8,
    MALFORMED_JSON,
    NO_CONVERSATION,
    RefusedError,
    hides_rows,
    lacks_field,
)
from corpusfit.training.chats import conversation_in, counted_messages
from corpusfit.training.plan import ASSISTANT, COMPLETION

WITHHELD = (
    "If its labels are withheld, as those of GLUE's test are, remove it and rename dev to test; "
    "dev is then drawn from train."
)
"""What to do about a test split without labels."""
_WHOLE = re.compile(r"-?[0-9]+")


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a split, before their labels are parsed."""

    split: str  # name of the split, for messages
    sources: Sequence[Source]  # its files
    read: ReadPlan  # how they are read; the label is the id field
    rows: list[Row]  # the rows in reading order, without empty lines
    cure: str = ""  # advice on a file that is not in UTF-8; empty if all are
    notes: tuple[str, ...] = ()  # on its files
    absent: Mapping[str, str] = field(default_factory=dict)  # `_absent`

    def values(self) -> list[object]:
        """The values of the label field that are neither missing nor blank."""
        found = [r.value for r in self.rows if isinstance(r, Document) and r.value is not None]
        return [value for value in found if not isinstance(value, str) or value.strip()]

    def holds_whole_decimals(self) -> bool:
        """Whether all labels are whole numbers, of which some are written as 1.0 and not as 1."""
        values = self.values()
        names = list(map(label_of, values))
        return all(map(_WHOLE.fullmatch, names)) and list(map(str, values)) != names

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

    def labeled(self, parse: Callable[[object], list[Any] | None], wants: str) -> Labeled:
        """The usable rows; a note counts the others."""
        texts: list[list[str]] = []
        labels: list[list[Any]] = []
        bad = 0
        first = ""
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
            return Labeled(texts, labels, self.notes)
        rows = f"{bad:,} of {bad + len(texts):,} rows of {self.split}"
        note = f"{rows} were left out: for instance, {first}. {self.cure}".rstrip()
        return Labeled(texts, labels, (*self.notes, note))

    def _nothing_usable(self, bad: int, first: str, labels: bool) -> str:
        """The message for a split without usable rows."""
        read = self.read
        split = f"{self.split} split of `task`"
        if not bad:
            return f"The {split} must hold texts{' with labels' * labels}; it is empty."
        begin = f"No row of the {split} has {'both a text and a label' if labels else 'a text'}"
        begin += f": {first}."
        reasons = Counter(row.reason for row in self.rows if isinstance(row, Reject))
        if cure := self.cure or cures.of_content(self.sources, read, reasons, ""):
            return f"{begin} {cure}"
        for name in (read.text_field, read.id_field)[: 1 + labels]:
            lacking = _fields(self.sources, replace(read, text_field=name))
            if lacking and str(lacking) not in begin:
                begin += f" Row 0: {lacking}."
        if not labels:
            return f"{begin} Set the field with `task.text_field` (now {read.text_field!r})."
        has_texts = any(isinstance(row, Document) for row in self.rows)
        more = f" {WITHHELD}" if has_texts and self.split == "test" else ""
        if not has_texts and any(source.url.endswith(".tsv") for source in self.sources):
            more = " If it has words with tags, rename it to end in .conll."
        return (
            f"{begin} Set the fields with `task.text_field` (now {read.text_field!r}) and "
            f"`task.label_field` (now {read.id_field!r}).{more}"
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
    )
    notes: list[str] = []
    sources = corpus.find(places, read, role="task", note=notes.append)
    rows: list[Row] = []
    cure = ""
    last: dict[int, Row] = {}
    for shard in corpus.shards(sources, read):
        for row in corpus.rows(shard, read):
            last[shard.source] = row
            if not isinstance(row, Reject):
                rows.append(row)
                continue
            source = sources[shard.source]
            if hides_rows(row.reason):
                raise InputError(
                    f"{source.url} cannot be read completely: {row.reason}. Fetch it again."
                )
            is_text = row.reason.name != INVALID_UTF8.name
            if not (is_text or cure) and corpus.files_of(source):
                cure = cures.of_encoding(Path(source.url).name, source.url)
            if row.reason != EMPTY_LINE:
                rows.append(row)
    for source in (sources[n] for n, row in last.items() if _is_malformed(row)):
        whole = source.compression or Path(source.url).read_bytes().endswith(b"\n")
        if not whole and any(isinstance(row, Document) for row in rows):
            raise InputError(
                f"{source.url} ends within a row. Fetch it again, or remove its last row."
            )
    absent = _absent(sources, read)
    notes += [
        f"No row of {split} has the field {name!r} of `task.text_field`; it is empty in the texts."
        for name in absent
    ]
    return Rows(split, sources, read, rows, cure, tuple(notes), absent)


def _is_malformed(row: Row) -> bool:
    return isinstance(row, Reject) and row.reason == MALFORMED_JSON


def _absent(sources: Sequence[Source], read: ReadPlan) -> dict[str, str]:
    """The fields of a template that no row has, and what row 0 has in their place."""
    names = fields_in(read.text_field)
    absent = {}
    for name in names if len(names) > 1 else ():
        own = replace(read, text_field=name)
        lacking = _fields(sources, own)
        rows = (row for shard in corpus.shards(sources, own) for row in corpus.rows(shard, own))
        if lacking and all(isinstance(row, Reject) and lacks_field(row.reason) for row in rows):
            absent[name] = str(lacking)
    return absent


def fields_like_labels(places: Sequence[str], plan: TaskPlan) -> list[str]:
    """Of rows that lack the field of the label, the fields whose values repeat as labels do."""
    rows = read_rows(places, plan, "")
    lacking = _fields(rows.sources, replace(rows.read, text_field=plan.label_field))
    found = []
    for name in lacking.fields if lacking else ():
        labels = list(map(str, read_rows(places, replace(plan, label_field=name), "").values()))
        if name not in fields_in(plan.text_field) and 2 <= len({*labels}) <= len(labels) / 2:
            found.append(name)
    return found


def read_texts(places: Sequence[str], split: str, plan: TaskPlan) -> Labeled:
    """The texts of a split, without labels; arguments and errors are those of `read_rows`.

    With `task.loss_on`, a text is a row as JSON (`text`, `fields`), and its label is the number of
    bytes that the loss is on.
    """
    rows = read_rows(places, plan, split)
    if not plan.loss_on:
        return rows.labeled(lambda _: [], "")

    def with_bytes(row: Row) -> Row:
        if isinstance(row, Reject):
            return row
        fields = row.fields or {}
        try:
            size = _counted_bytes(row.text, fields, plan.text_field, plan.loss_on)
        except RefusedError as e:
            return Reject(row.row, row.byte, e.reason)
        whole = {"text": row.text, "fields": fields}
        text = json.dumps(whole, ensure_ascii=False, default=json_value)
        return replace(row, text=text, value=size)

    return replace(rows, rows=list(map(with_bytes, rows.rows))).labeled(lambda size: [size], "")


def _counted_bytes(text: str, fields: Mapping[str, Any], field: str, loss_on: str) -> int:
    """The bytes in UTF-8 of what a row says where the loss is, without a template's marks."""
    parts = conversation_in(fields, field)
    if not parts:
        begin = completion_at(text, fields, field) if loss_on == COMPLETION else 0
        if loss_on == ASSISTANT or begin is None:
            raise RefusedError(NO_CONVERSATION)
        return len(text[begin:].encode("utf-8", "replace"))
    messages, at = counted_messages(parts, loss_on)
    said = [m for m in messages[at:] if loss_on != ASSISTANT or m["role"] == "assistant"]
    calls = [json.dumps(m["tool_calls"], ensure_ascii=False) for m in said if m.get("tool_calls")]
    return sum(len(s.encode("utf-8", "replace")) for s in [*calls, *(m["content"] for m in said)])


def row_of(text: str, plan: TaskPlan, field: str) -> dict[str, Any]:
    """A row with a text of a task in `field`; of a conversation (`read_texts`), its own fields."""
    return json.loads(text)["fields"] if plan.loss_on else {field: text}


def _fields(sources: Sequence[Source], read: ReadPlan) -> Reason | None:
    """That the first row lacks the text field of `read`, with its fields; None if it has it."""
    rows = (row for shard in corpus.shards(sources, read) for row in corpus.rows(shard, read))
    first = next(rows, None)
    return first.reason if isinstance(first, Reject) and lacks_field(first.reason) else None


def class_names(place: str, plan: TaskPlan) -> Sequence[str]:
    """The names of label numbers, from 0: those of the plan, or of the data set's own features."""
    names: Sequence[str] = given_names(plan)
    if not names and place.startswith(hub.PREFIX):
        names = getattr(hub.opened(place)[1].get(plan.label_field), "names", None) or ()
    elif not names and unpacked_name(place)[0].lower().endswith(".parquet"):
        with contextlib.suppress(AttributeError, ValueError):  # notes that are not of `datasets`
            names = feature_of(pq.read_schema(place), plan.label_field).get("names") or ()
    return names


def given_names(plan: TaskPlan) -> list[str]:
    """The plan's names for label numbers, from 0; empty without them."""
    return [name.strip() for name in plan.label_names.split(",") if name.strip()]
