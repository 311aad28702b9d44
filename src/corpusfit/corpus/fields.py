"""The rows of every format: `Row`, `Pick`, and the checks that make a document or a reject."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.corpus import rejects
from corpusfit.plan import ReadPlan
from corpusfit.types import Document, Reject

Row = Document | Reject
"""The result of reading one row."""

_PLACE = re.compile(r"\{([^{}]+)\}")
_MISSING = object()

Pick = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.bool_]]
"""Chooses the rows to read, from their numbers [n] and their sizes in bytes [n]."""


def from_mapping(row: int, byte: int, record: object, plan: ReadPlan) -> Row:
    """A row of a format with named fields, such as JSON."""
    if not isinstance(record, Mapping):
        return Reject(row, byte, rejects.NOT_AN_OBJECT)
    try:
        text = text_in(record, plan.text_field)
    except KeyError:
        return Reject(row, byte, rejects.missing_field(plan.text_field, record))
    plain = isinstance(record.get(plan.text_field), str)
    names = () if plain else fields_in(plan.text_field)
    fields = {n: record[n] for n in names if n in record} or None
    return from_value(row, byte, text, record.get(plan.id_field), fields)


def fields_in(text_field: str) -> list[str]:
    """The fields that hold a row's text: those of a template such as `{title} {body}`, or one."""
    return list(dict.fromkeys(_PLACE.findall(text_field))) or [text_field]


def text_in(record: Mapping[Any, Any], text_field: str) -> Any:
    """The text of a row, not checked; a template's missing and null fields are empty.

    Raises:
        KeyError: the row has none of the fields.
    """
    if text_field in record:
        return record[text_field]
    found = {name: _value(record, name) for name in fields_in(text_field)}
    if all(value is _MISSING for value in found.values()):
        raise KeyError(text_field)
    if text_field in found:
        return found[text_field]

    def written(place: re.Match[str]) -> str:
        value = found[place[1]]
        return "" if value is None or value is _MISSING else str(_said(value))

    return _PLACE.sub(written, text_field.replace("\\n", "\n").replace("\\t", "\t"))


def _value(record: Mapping[Any, Any], name: str) -> Any:
    """The value of a field, also of `b` in `a` by the name `a.b`; `_MISSING` without it."""
    if name in record:
        return record[name]
    outer, dot, inner = name.partition(".")
    within = record.get(outer) if dot else None
    return _value(within, inner) if isinstance(within, Mapping) else _MISSING


def _said(value: Any) -> Any:
    """What is said in the messages of a chat, a line each; any other value as it is.

    A message is a dict with `content`, as OpenAI has it, or with `value`, as ShareGPT has it.
    """
    if not isinstance(value, list) or not value:
        return value
    said = [m.get("content", m.get("value")) if isinstance(m, Mapping) else None for m in value]
    texts = [each for each in said if isinstance(each, str)]
    return "\n".join(texts) if len(texts) == len(said) else value


def from_value(
    row: int, byte: int, text: object, id: object = None, fields: dict[str, Any] | None = None
) -> Row:
    """Check a row whose text and id are already found.

    The text must be a string that is not blank and holds no NUL, or a chat's messages. The id is
    kept if it is a string, an integer or a boolean; labels are read as the id, or of any type as
    its `value`.
    """
    if text is None:
        return Reject(row, byte, rejects.NULL_TEXT)
    text = _said(text)
    if not isinstance(text, str):
        return Reject(row, byte, rejects.not_a_string(text))
    if "\0" in text:
        return Reject(row, byte, rejects.NUL)
    if not text or text.isspace():
        return Reject(row, byte, rejects.EMPTY_TEXT)
    kept = id if isinstance(id, str | int) else None
    return Document(row, byte, text, kept, value=id, fields=fields)
