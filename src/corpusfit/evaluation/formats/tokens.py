"""Read rows of words and tags, as Hugging Face has them: `hub:`, JSON or Parquet."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from corpusfit.core.errors import InputError, bad_setting, raise_machine_fault
from corpusfit.evaluation.formats.conll import TAG, with_type
from corpusfit.evaluation.formats.labelled import Labelled, whole_text
from corpusfit.evaluation.plan import KINDS, TaskPlan
from corpusfit.evaluation.registry import load
from corpusfit.text.files import unpacked_name
from corpusfit.text.formats import hub

SUFFIXES = (".json", ".jsonl", ".ndjson", ".parquet")
# Rows, and the names of the tags' numbers as far as the data set has them.
_Rows = tuple[Iterable[Mapping[str, Any]], Sequence[str]]


def read_tokens(places: Sequence[str], split: str, plan: TaskPlan) -> Labelled:
    """Read the sentences of a split: in each row a list of words and one of tags.

    Reference: https://huggingface.co/docs/datasets/about_dataset_features (ClassLabel).
    """
    # Tags are words or numbers; the names of numbers are those of `task.label_names`, or of the
    # data set's own features.
    given = given_names(plan)
    pieces: list[list[str]] = []
    tags: list[list[str]] = []
    for place in places:
        rows, names = _opened(place, plan)
        for number, row in enumerate(rows):
            words, labels = row.get(plan.text_field), row.get(plan.label_field)
            if isinstance(words, str):
                kinds = " or ".join(kind for kind in KINDS if "rows" in load(kind).forms)
                raise bad_setting("`task.kind`", f"{kinds} for the texts of {place}", "tagging")
            if (
                not isinstance(words, list)
                or not isinstance(labels, list)
                or len(words) != len(labels)
            ):
                fields = ", ".join(map(str, row))
                raise InputError(
                    f"{place}, row {number}: must have as many tags in {plan.label_field!r} as "
                    f"words in {plan.text_field!r}; its fields are {fields}. Set "
                    "`task.text_field` and `task.label_field`."
                )
            if words:
                pieces.append([str(word) for word in words])
                tags.append([_tag(tag, given or names, f"{place}, row {number}") for tag in labels])
    return Labelled.of_sentences(split, pieces, tags)


def given_names(plan: TaskPlan) -> list[str]:
    """What the plan calls the numbers of labels, from 0; empty if it does not."""
    return [name.strip() for name in plan.label_names.split(",") if name.strip()]


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


def _opened(place: str, plan: TaskPlan) -> _Rows:
    if place.startswith(hub.PREFIX):
        streamed, features = hub.opened(place)
        tag = getattr(features.get(plan.label_field), "feature", None)
        return streamed, getattr(tag, "names", None) or ()
    name, _ = unpacked_name(place)
    if name.lower().endswith(".parquet"):
        return _parquet(place, plan)
    if not name.lower().endswith(SUFFIXES):
        raise InputError(f"{place}: rows of words and tags must be {', '.join(SUFFIXES)} or hub:.")
    text = whole_text(Path(place)).removeprefix("\ufeff").strip()
    try:
        lines = [text] if text.startswith("[") else filter(None, map(str.strip, text.split("\n")))
        parsed = [orjson.loads(line) for line in lines]
    except orjson.JSONDecodeError as e:
        raise InputError(f"{place}: must be a JSON list of rows or JSON lines; {e}.") from e
    rows: list[Any] = parsed[0] if len(parsed) == 1 and isinstance(parsed[0], list) else parsed
    if not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{place}: every row must be a JSON object.")
    return rows, ()


def _parquet(place: str, plan: TaskPlan) -> _Rows:
    """The rows, and the names in the features that `datasets` wrote into the schema."""
    try:
        table = pq.ParquetFile(place)
        batches = table.iter_batches() if table.schema.names else ()  # none has a number of rows
        rows = [row for batch in batches for row in batch.to_pylist()]
        notes = json.loads((table.schema_arrow.metadata or {}).get(b"huggingface", b"{}"))
        feature = notes.get("info", {}).get("features", {}).get(plan.label_field, {})
        inner = feature.get("feature", feature) if isinstance(feature, dict) else {}
        return rows, inner.get("names", ())
    except (pa.ArrowException, AttributeError, LookupError, OSError, ValueError) as e:
        raise_machine_fault(e)
        raise InputError(f"{place} cannot be read: {str(e).splitlines()[0]}.") from e
