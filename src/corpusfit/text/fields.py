"""Extract a row's text and id, and check them: a document or a reject."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Document, Reason, Reject
from corpusfit.core.where import NotComparableError, number_of, parsed
from corpusfit.kernels.normal_form import normalized
from corpusfit.text import rejects

Row = Document | Reject
"""The result of reading one row."""

TOOLS = "tools"
"""The field of a chat's row that lists the tools which the assistant may call."""
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_TEMPLATE_FIELD = re.compile(r"\{([^{}]+)\}")
_MISSING = object()
_WHOLE = re.compile(r"(-?(?:0|[1-9][0-9]*))\.0+")
"""A whole number as pandas writes it where one is missing."""
_MOST = float(np.finfo(np.float32).max)

Pick = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.bool_]]
"""Chooses the rows to read, from their numbers [n] and their sizes in bytes [n]."""


def from_mapping(row: int, byte: int, record: object, plan: ReadPlan) -> Row:
    """Make a row from named fields with JSON values (see `json_value`)."""
    if not isinstance(record, Mapping):
        return Reject(row, byte, rejects.NOT_AN_OBJECT)
    if plan.joined and (beside := plan.joined(row, record)):
        record = {**record, **beside}
    numbers: list[float] = []
    if plan.where or plan.numbers:
        decided = _decided(record, plan)
        if isinstance(decided, Reason):
            return Reject(row, byte, decided)
        numbers = decided
    try:
        text = text_in(record, plan.text_field)
    except KeyError:
        return Reject(row, byte, rejects.missing_field(plan.text_field, record))
    except NoTextError as e:
        return Reject(row, byte, e.reason)
    plain = isinstance(record.get(plan.text_field), str)
    names = [] if plain else fields_in(plan.text_field)
    # a chat is the messages and the tools that the assistant may call
    if record.get(TOOLS) and any(isinstance(record.get(name), list) for name in names):
        names.append(TOOLS)
    fields = {n: record[n] for n in names if n in record}
    for name in plan.kept_fields():
        fields[name] = field_of(record, name)
    id = field_of(record, plan.id_field)
    return from_value(row, byte, text, id, fields or None, tuple(numbers))


def from_broken(
    row: int, byte: int, record: object, plan: ReadPlan, half: Reason | None = None
) -> Row:
    """Make a row from fields with lone surrogates, as `surrogateescape` has of invalid bytes.

    They cost a row that has them in its text; in other fields they become replacement characters.
    `half` is the reason for a text whose surrogates are not of bytes.
    """
    found = from_mapping(row, byte, record, plan)
    plain = json.dumps(record, ensure_ascii=False)
    if not _SURROGATE.search(plain):
        return found
    if isinstance(found, Reject):
        kept = half or found.reason == rejects.LEFT_OUT
        return found if kept else Reject(row, byte, rejects.INVALID_UTF8)
    if _SURROGATE.search(found.text):
        return Reject(row, byte, half or rejects.INVALID_UTF8)
    return from_mapping(row, byte, orjson.loads(_SURROGATE.sub("\ufffd", plain)), plan)


def _decided(record: Mapping[Any, Any], plan: ReadPlan) -> list[float] | Reason:
    """The numbers of a row that the plan asks for, or why the row is not used."""
    try:
        if plan.where and not parsed(plan.where).keeps(partial(field_of, record)):
            return rejects.LEFT_OUT
    except NotComparableError as e:
        return rejects.not_comparable(e)
    numbers = []
    for name in plan.number_fields():
        value = field_of(record, name)
        number = number_of(value)
        # scores are float32
        if number is None or not abs(number) <= _MOST:
            return rejects.no_number(name, value)
        numbers.append(float(number))
    return numbers


def fields_in(text_field: str) -> list[str]:
    """The fields of a row's text: one, or those of a template such as `{title} {body}`."""
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

    def filled(match: re.Match[str]) -> str:
        name = match[1]
        value = values[name]
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, int | float):
            return str(value)
        return "" if value is _MISSING else text_of_value(value, name) or ""

    return _TEMPLATE_FIELD.sub(filled, _unescaped(text_field))


def completion_at(text: str, fields: Mapping[str, Any], field: str) -> int | None:
    """Where the last field of a template begins in a row's text; None if there is none.

    Raises:
        RefusedError: the field is empty.
    """
    names = fields_in(field)
    if len(names) < 2 or names[-1] not in fields:
        return None
    without = text_in({**fields, names[-1]: ""}, field) or ""
    if len(without) == len(text):
        raise rejects.RefusedError(rejects.NO_LOSS)
    # a completion is all from the last field of the template on
    return len(without) - len(_unescaped(field.rpartition("}")[2]))


def _unescaped(template: str) -> str:
    return template.replace("\\n", "\n").replace("\\t", "\t")


def field_of(record: Mapping[Any, Any], name: str) -> Any:
    """The value of a field, as `_value` finds it; None if it is missing."""
    value = _value(record, name)
    return None if value is _MISSING else value


def _value(record: Mapping[Any, Any], name: str) -> Any:
    """The value of a field, or `_MISSING`; the name `a.b` also finds the field `b` inside `a`."""
    if name in record:
        return record[name]
    outer, dot, inner = name.partition(".")
    within = record.get(outer) if dot else None
    return _value(within, inner) if isinstance(within, Mapping) else _MISSING


class NoTextError(rejects.RefusedError):
    """A value without text."""


_MAX_DEPTH = 32
# fields that hold the text of a chat message or a part of it; the first non-null counts
_TEXT_KEYS = ("content", "value", "text", "parts")
# fields that mark an object as a message or a part, even without text
_MESSAGE_KEYS = {"role", "from", "type"}


def is_conversation(fields: Mapping[str, Any] | None, text_field: str) -> bool:
    """Whether all fields of a row's text hold messages."""
    for name in fields_in(text_field):
        value = (fields or {}).get(name)
        if not isinstance(value, list) or not value:
            return False
        for item in value:
            speaks = isinstance(item, Mapping) and (item.get("role") or item.get("from"))
            if not isinstance(speaks, str):
                return False
    return True


def text_of_value(value: Any, field: str, depth: int = 0) -> str | None:
    """Convert a field's value to text; None for null.

    One rule for every format; the value is one of JSON, in which null is as missing. A string is
    itself. A list gives one line for each string, list or message in it. A message, or a part of
    its content, gives `content` (OpenAI), else `value` (ShareGPT), `text` or `parts`; tool calls,
    reasoning and images give nothing. Other objects, numbers and booleans are no text.
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list) and depth < _MAX_DEPTH:
        texts = [text_of_value(item, field, depth + 1) for item in value]
        parts = [text for text in texts if text is not None]
        return "\n".join(parts) if parts or not depth else None
    if isinstance(value, Mapping) and 0 < depth < _MAX_DEPTH:
        non_null = {name: inner for name, inner in value.items() if inner is not None}
        name = next((name for name in _TEXT_KEYS if name in non_null), "")
        if name and "key" not in non_null:  # entries of a map have a `value`, too
            return text_of_value(non_null[name], field, depth + 1)
        if _MESSAGE_KEYS & non_null.keys() or not non_null:
            return None
    raise NoTextError(rejects.not_a_string(value, field, listed=depth > 0))


def label_of(value: object) -> str:
    """The name of a label or a group that a value is; empty for none.

    White space around it and the form of its accents make no other one, and a whole number is the
    same as 1 and as 1.0, which a program may write where a column has a missing value.
    """
    if isinstance(value, float):
        if not math.isfinite(value):
            return ""
        return str(int(value) if value.is_integer() else value)
    if not isinstance(value, str | int):
        return ""
    name = normalized(str(value).strip())
    whole = _WHOLE.fullmatch(name)
    return str(int(whole[1])) if whole else name


def json_value(value: Any) -> Any:
    """Convert a value to one of JSON, as `default` of orjson.

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
            return dict(rejects.NOT_UTF8)
    if hasattr(value, "isoformat") and not isinstance(value, timedelta):
        return value.isoformat()
    return value.tolist() if hasattr(value, "tolist") else {rejects.FOREIGN: type(value).__name__}


def missing(value: object) -> bool:
    """Whether a value stands for a missing one, such as NaN in pandas."""
    return (
        value is None
        or type(value).__name__ in ("NAType", "NaTType")
        or (isinstance(value, float) and math.isnan(value))
    )


def from_value(
    row: int,
    byte: int,
    text: str | None,
    id: object = None,
    fields: dict[str, Any] | None = None,
    numbers: tuple[float, ...] = (),
) -> Row:
    """Check a row whose text and id are already found.

    The text must not be blank or contain NUL. An id of another type than string, integer, whole
    number or boolean is dropped; `value` keeps it as it is, because labels are read through the id
    field.
    """
    if text is None:
        return Reject(row, byte, rejects.NULL_TEXT)
    if "\0" in text:
        return Reject(row, byte, rejects.NUL)
    if not text or text.isspace():
        return Reject(row, byte, rejects.EMPTY_TEXT)
    # pandas has whole numbers as floats where one is missing
    whole = int(id) if isinstance(id, float) and id.is_integer() else id
    row_id = whole if isinstance(whole, str | int) else None
    return Document(row, byte, text, row_id, value=id, fields=fields, numbers=numbers)


_Convert = Callable[[Any], Any]


def of_first_names(table: Any) -> Any:
    """An Arrow table or batch with the first of the columns that have one name."""
    names = table.schema.names
    return table.select([names.index(name) for name in dict.fromkeys(names)])


def records(table: Any) -> Iterator[dict[str, Any]]:
    """The rows of an Arrow table or batch, still with the dates, decimals and bytes of Python."""
    table = of_first_names(table)
    names = table.schema.names
    columns = list(map(values, table.columns))
    for row in zip(*columns, strict=True) if names else [()] * table.num_rows:
        yield dict(zip(names, row, strict=True))


def values(column: Any) -> list[Any]:
    """The values of an Arrow array; what Python cannot represent becomes a `rejects.FOREIGN`."""
    convert = _converter(column.type)
    try:
        plain: list[Any] = column.to_pylist()
        return list(map(convert, plain)) if convert else plain
    except (ValueError, OverflowError):
        # a date that Python cannot represent, or invalid UTF-8: find out which values
        pass
    checked: list[Any] = []
    for scalar in column:
        try:
            value = scalar.as_py()
            checked.append(convert(value) if convert else value)
        except UnicodeError:
            checked.append(dict(rejects.NOT_UTF8))
        except (ValueError, OverflowError) as e:
            checked.append({rejects.FOREIGN: str(rejects.unreadable(str(column.type), e))})
    return checked


def _converter(kind: Any) -> _Convert | None:
    """The converter from Arrow's values of a type to JSON's; None if they need none."""
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        if kind.extension_name == "arrow.json":
            return lambda value: None if value is None else orjson.loads(value)
        return _converter(kind.storage_type)
    if types.is_dictionary(kind):
        return _converter(kind.value_type)
    if types.is_float16(kind) or types.is_float32(kind):
        # shortest round-trip digits, as in JSON lines and CSV
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
        convert_item = _converter(kind.value_type)
        return convert_item and (lambda value: value and list(map(convert_item, value)))
    return None


def _same(value: Any) -> Any:
    return value
