"""Read rows with words and their tags: JSON, JSON lines, Parquet, `hub:`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from corpusfit.core.errors import InputError, raise_machine_fault
from corpusfit.labeled.formats import Labeled, whole_text
from corpusfit.labeled.formats.conll import TAG, with_type
from corpusfit.text.fields import of_first_names
from corpusfit.text.files import unpacked_name
from corpusfit.text.formats import hub

SUFFIXES = (".json", ".jsonl", ".ndjson", ".parquet")
# Rows, and the data set's names for tag numbers, if it has any.
_Rows = tuple[Iterable[Mapping[str, Any]], Sequence[str]]


@dataclass(frozen=True)
class Fields:
    """Where rows have words and tags."""

    text: str = "text"
    label: str = "label"
    names: tuple[str, ...] = ()  # of tags that are numbers, from 0; by default the data set's own


class TextRowsError(InputError):
    """The rows of a source are of texts, not of words."""

    def __init__(self, source: str, field: str) -> None:
        super().__init__(
            f"{source} must be rows with a list of words in {field!r}; it has texts there. Name a "
            ".jsonl file of texts."
        )
        self.source = source


def read_tokens(places: Sequence[str], split: str, fields: Fields) -> Labeled:
    """Read the sentences of a split: in each row a list of words and one of tags.

    Reference: https://huggingface.co/docs/datasets/about_dataset_features (ClassLabel).
    """
    # Tags are words or numbers; the names of numbers are those of `task.label_names`, or of the
    # data set's own features.
    pieces: list[list[str]] = []
    tags: list[list[str]] = []
    for source in places:
        rows, names = _opened(source, fields.label)
        for number, row in enumerate(rows):
            words = row.get(fields.text)
            labels = row.get(fields.label)
            if isinstance(words, str):
                raise TextRowsError(source, fields.text)
            if (
                not isinstance(words, list)
                or not isinstance(labels, list)
                or len(words) != len(labels)
            ):
                present = ", ".join(map(str, row))
                raise InputError(
                    f"{source}, row {number}: must have as many tags in {fields.label!r} as "
                    f"words in {fields.text!r}; its fields are {present}. Set "
                    "`task.text_field` and `task.label_field`."
                )
            if words:
                pieces.append([str(word) for word in words])
                tags.append(
                    [_tag(tag, fields.names or names, f"{source}, row {number}") for tag in labels]
                )
    return Labeled.of_sentences(split, pieces, tags)


def _tag(tag: object, names: Sequence[str], where: str) -> str:
    if isinstance(tag, int) and 0 <= tag < len(names):
        tag = names[tag]
    if not isinstance(tag, str) or not TAG.fullmatch(tag):
        raise InputError(
            f"{where}: a tag must be O, B-NAME or I-NAME, or the number of one; got {tag!r}, and "
            f"the names {', '.join(names) or 'none'}. For example "
            "`task.label_names=O,B-Disease,I-Disease`."
        )
    return with_type(tag)


def _opened(source: str, label: str) -> _Rows:
    if source.startswith(hub.PREFIX):
        streamed, features = hub.opened(source)
        tag = getattr(features.get(label), "feature", None)
        return streamed, getattr(tag, "names", None) or ()
    name, _ = unpacked_name(source)
    if name.lower().endswith(".parquet"):
        return _parquet(source, label)
    if not name.lower().endswith(SUFFIXES):
        raise InputError(f"{source}: rows of words and tags must be {', '.join(SUFFIXES)} or hub:.")
    text = whole_text(Path(source)).removeprefix("\ufeff").strip()
    try:
        lines = [text] if text.startswith("[") else filter(None, map(str.strip, text.split("\n")))
        parsed = [orjson.loads(line) for line in lines]
    except orjson.JSONDecodeError as e:
        raise InputError(f"{source}: must be a JSON list of rows or JSON lines; {e}.") from e
    rows: list[Any] = parsed[0] if len(parsed) == 1 and isinstance(parsed[0], list) else parsed
    if not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{source}: every row must be a JSON object.")
    return rows, ()


def _parquet(source: str, label: str) -> _Rows:
    """The rows, and the names in the features that `datasets` wrote into the schema."""
    try:
        table = pq.ParquetFile(source)
        # batches without columns have no number of rows
        batches = table.iter_batches() if table.schema.names else ()
        rows = [row for batch in batches for row in of_first_names(batch).to_pylist()]
        feature = feature_of(table.schema_arrow, label)
        return rows, feature.get("feature", feature).get("names", ())
    except (pa.ArrowException, AttributeError, LookupError, OSError, ValueError) as e:
        raise_machine_fault(e)
        raise InputError(f"{source} cannot be read: {str(e).splitlines()[0]}.") from e


def feature_of(schema: pa.Schema, label: str) -> dict[str, Any]:
    """What `datasets` wrote into a schema about the field with the labels; empty without it."""
    notes = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
    feature = notes.get("info", {}).get("features", {}).get(label, {})
    return feature if isinstance(feature, dict) else {}
