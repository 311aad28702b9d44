"""What a row says: its text and id from any kind of value, checked to a document or a reject."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Document, Reject
from corpusfit.text import rejects

Row = Document | Reject
"""The result of reading one row."""

_TEMPLATE_FIELD = re.compile(r"\{([^{}]+)\}")
_MISSING = object()

Pick = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.bool_]]
"""Chooses the rows to read, from their numbers [n] and their sizes in bytes [n]."""


def from_mapping(row: int, byte: int, record: object, plan: ReadPlan) -> Row:
    """A row of a format with named fields, whose values are those of JSON (`json_value`)."""
    if not isinstance(record, Mapping):
        return Reject(row, byte, rejects.NOT_AN_OBJECT)
    try:
        text = text_in(record, plan.text_field)
    except KeyError:
        return Reject(row, byte, rejects.missing_field(plan.text_field, record))
    except NoTextError as e:
        return Reject(row, byte, str(e))
    plain = isinstance(record.get(plan.text_field), str)
    names = () if plain else fields_in(plan.text_field)
    fields = {n: record[n] for n in names if n in record} or None
    return from_value(row, byte, text, record.get(plan.id_field), fields)


def fields_in(text_field: str) -> list[str]:
    """The fields that hold a row's text: those of a template such as `{title} {body}`, or one."""
    return list(dict.fromkeys(_TEMPLATE_FIELD.findall(text_field))) or [text_field]


def text_in(record: Mapping[Any, Any], text_field: str) -> str | None:
    """The text of a row, not checked; a template's missing and null fields are empty.

    Numbers and booleans are text in a template alone, spelled as in JSON.
    """
    if text_field in record:
        return text_of_value(record[text_field], text_field)
    values = {name: _value(record, name) for name in fields_in(text_field)}
    if all(value is _MISSING for value in values.values()):
        raise KeyError(text_field)
    if text_field in values:
        return text_of_value(values[text_field], text_field)

    def written(name: re.Match[str]) -> str:
        value = values[name[1]]
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, int | float):
            return str(value)
        return "" if value is _MISSING else text_of_value(value, name[1]) or ""

    return _TEMPLATE_FIELD.sub(written, text_field.replace("\\n", "\n").replace("\\t", "\t"))


def _value(record: Mapping[Any, Any], name: str) -> Any:
    """The value of a field, also of `b` in `a` by the name `a.b`; `_MISSING` without it."""
    if name in record:
        return record[name]
    outer, dot, inner = name.partition(".")
    within = record.get(outer) if dot else None
    return _value(within, inner) if isinstance(within, Mapping) else _MISSING


class NoTextError(Exception):
    """A value that says no text; the message is the reason to reject its row."""


_DEEPEST = 32
# where a message or a part of one holds what is said; the first that is not null counts
_SAYS = ("content", "value", "text", "parts")
# an object with one of these is a message or a part, even if nothing is said in it
_SILENT = {"role", "from", "type"}


def text_of_value(value: Any, field: str, depth: int = 0) -> str | None:
    """What a value of a field says as text; None for null.

    One rule for every format; the value is one of JSON, in which null is as missing. A string is
    itself. A list says what its strings and lists say, and what is said in its messages, a line
    each. Of a message, or a part of its content, that is `content` (OpenAI), else `value`
    (ShareGPT), `text` or `parts`; calls of tools, reasoning and images say nothing. An object that
    is no message, and a number or a boolean, are no text.
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list) and depth < _DEEPEST:
        texts = [text_of_value(item, field, depth + 1) for item in value]
        held = [text for text in texts if text is not None]
        return "\n".join(held) if held or not depth else None
    if isinstance(value, Mapping) and 0 < depth < _DEEPEST:
        non_null = {name: inner for name, inner in value.items() if inner is not None}
        name = next((name for name in _SAYS if name in non_null), "")
        if name and "key" not in non_null:  # an entry of a map has a value, too
            return text_of_value(non_null[name], field, depth + 1)
        if _SILENT & non_null.keys() or not non_null:
            return None
    if depth and value != {rejects.FOREIGN: rejects.INVALID_UTF8}:
        raise NoTextError(f"{rejects.not_a_string(value)} in a list")
    raise NoTextError(rejects.not_a_string(value, field))


def json_value(value: Any) -> Any:
    """A value that JSON lacks as one that it has, for `default` of orjson.

    Every format and data in memory go through it, so the same value gives the same text: a date or
    time as ISO 8601, a decimal in its digits, bytes as UTF-8. What is no text, such as an image or
    a duration, becomes an object that says so.
    """
    if missing(value):
        return None
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, bytes | bytearray | memoryview):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            return {rejects.FOREIGN: rejects.INVALID_UTF8}
    if hasattr(value, "isoformat") and not isinstance(value, timedelta):
        return value.isoformat()
    return value.tolist() if hasattr(value, "tolist") else {rejects.FOREIGN: type(value).__name__}


def missing(value: object) -> bool:
    """Whether a value stands for a missing one, as in a column of pandas."""
    return (
        value is None
        or type(value).__name__ in ("NAType", "NaTType")
        or (isinstance(value, float) and math.isnan(value))
    )


def from_value(
    row: int, byte: int, text: str | None, id: object = None, fields: dict[str, Any] | None = None
) -> Row:
    """Check a row whose text and id are already found.

    The text must not be blank or hold NUL. The id is kept if it is a string, an integer or a
    boolean; labels are read as the id, or of any type as its `value`.
    """
    if text is None:
        return Reject(row, byte, rejects.NULL_TEXT)
    if "\0" in text:
        return Reject(row, byte, rejects.NUL)
    if not text or text.isspace():
        return Reject(row, byte, rejects.EMPTY_TEXT)
    kept = id if isinstance(id, str | int) else None
    return Document(row, byte, text, kept, value=id, fields=fields)


_Convert = Callable[[Any], Any]


def records(table: Any) -> Iterator[dict[str, Any]]:
    """The rows of an Arrow table or batch; dates, decimals and bytes as `json_value` takes them."""
    names, columns = table.schema.names, list(map(values, table.columns))
    for row in zip(*columns, strict=True) if names else [()] * table.num_rows:
        yield dict(zip(names, row, strict=True))


def values(column: Any) -> list[Any]:
    """The values of an Arrow array; one that Python cannot hold is a `rejects.FOREIGN`."""
    convert = _converter(column.type)
    try:
        plain: list[Any] = column.to_pylist()
        return list(map(convert, plain)) if convert else plain
    except (ValueError, OverflowError):  # a date beyond Python's, or no Unicode
        pass
    checked: list[Any] = []
    for scalar in column:
        try:
            value = scalar.as_py()
            checked.append(convert(value) if convert else value)
        except UnicodeError:
            checked.append({rejects.FOREIGN: rejects.INVALID_UTF8})
        except (ValueError, OverflowError) as e:
            checked.append({rejects.FOREIGN: rejects.unreadable(str(column.type), e)})
    return checked


def _converter(kind: Any) -> _Convert | None:
    """What makes a value as Arrow gives it one as JSON has it; None if it is one already."""
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        if kind.extension_name == "arrow.json":
            return lambda value: None if value is None else orjson.loads(value)
        return _converter(kind.storage_type)
    if types.is_dictionary(kind):
        return _converter(kind.value_type)
    if types.is_float16(kind) or types.is_float32(kind):
        # the shortest digits that give it again, as JSON lines and CSV have them
        return lambda value: None if value is None else float(str(np.float32(value)))
    if types.is_map(kind):
        inner = _converter(kind.item_type) or _same
        return lambda value: None if value is None else {k: inner(v) for k, v in value}
    if types.is_struct(kind):
        converted = {f.name: c for f in kind if (c := _converter(f.type))}
        if not converted:
            return None
        return lambda value: value and {k: converted.get(k, _same)(v) for k, v in value.items()}
    if types.is_nested(kind) and hasattr(kind, "value_type"):
        each = _converter(kind.value_type)
        return each and (lambda value: value and list(map(each, value)))
    return None


def _same(value: Any) -> Any:
    return value
