"""Reject reasons: every reason why a row is not used; details follow the first ": "."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from corpusfit.core.plan import ReadPlan

MALFORMED_JSON = "malformed JSON"
HALF_CHARACTER = f"{MALFORMED_JSON}: half of a character in the text"
INVALID_UTF8 = "invalid UTF-8"
NOT_AN_OBJECT = "row is not an object"
NULL_TEXT = "text is null"
EMPTY_TEXT = "text is empty"
NOT_A_STRING = "text is not a string"
MISSING_FIELD = "missing field"
EMPTY_LINE = "empty line"
NUL = "text contains NUL"
REPEATED_HEADER = "repeated header"
UNCLOSED_QUOTE = "unclosed quote"
NO_CONVERSATION = "row is no conversation"
NO_ASSISTANT = "conversation without a turn of the assistant"
NO_LOSS = "nothing in the row that the loss is on"
ENDLESS_TEMPLATE = "conversation for which the chat template takes too much time, memory or text"

LEFT_OUT = "left out by `read.where`"
"""Not an error: the row is counted by itself where a corpus is selected from."""
NOT_COMPARABLE = "values that `read.where` cannot compare"
NO_NUMBER = "no number"

FOREIGN = "not JSON"
"""The only field of an object that replaces a value without a JSON form; holds its type."""

_SHOWN = 8


class RefusedError(Exception):
    """A row that is not used; the message is the reject reason."""


def kind(reason: str) -> str:
    """The reason without its detail, by which summaries count."""
    return reason.partition(": ")[0]


def of_field(reason: str) -> bool:
    """Whether the text may stand in another field."""
    return reason.startswith((MISSING_FIELD, NULL_TEXT, EMPTY_TEXT, NOT_A_STRING))


def missing_field(field: str, fields: Iterable[object]) -> str:
    """The row lacks the text field; the detail lists the fields that it has (at most eight).

    Of a row itself these are also the fields of its objects, such as `meta.text`.
    """
    names = [*_inner(fields)] if isinstance(fields, Mapping) else [str(name) for name in fields]
    alike = (f".{name}".lower().endswith(f".{field}".lower()) for name in names)
    guess = next((f"; try {name}" for name, fits in zip(names, alike, strict=True) if fits), "")
    return f"{MISSING_FIELD} {field!r}" + (f": fields are {_listed(names)}{guess}" if names else "")


def fields_named(reason: str) -> list[str]:
    """The fields that the reason of `missing_field` lists."""
    listed = reason.partition(": fields are ")[2].partition("; try ")[0]
    return [name for name in listed.split(", ") if name.strip("…")]


def not_a_string(value: object, field: str = "") -> str:
    """The text field holds neither a string nor what is said in messages or a list of strings."""
    if isinstance(value, Mapping) and FOREIGN in value:
        what = value[FOREIGN]
        return INVALID_UTF8 if what == INVALID_UTF8 else f"{NOT_A_STRING}: {str(what)[:200]}"
    if isinstance(value, Mapping):
        names = _listed(_inner(value, field))
        return f"{NOT_A_STRING}: object" + (f" with the fields {names}" if names else "")
    return f"{NOT_A_STRING}: {type(value).__name__}"


def _inner(value: Mapping[Any, Any], field: str = "") -> Iterator[str]:
    """The names that read the fields of an object, such as `meta.text`."""
    for name, inner in value.items():
        path = f"{field}.{name}" if field else str(name)
        deeper = isinstance(inner, Mapping) and FOREIGN not in inner and path.count(".") < _SHOWN
        yield from _inner(inner, path) if deeper else [path]


def _listed(fields: Iterable[object]) -> str:
    names = [str(name)[:40] for name in fields]
    return ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")


def no_number(field: str, value: object) -> str:
    """The row lacks the number that it is to be scored by."""
    if value is None or value == "":
        return f"{NO_NUMBER} in {field!r}"
    return f"{NO_NUMBER} in {field!r}: it is {str(value)[:40]!r}"


def malformed_csv(detail: object) -> str:
    """A record cannot be parsed, or has more fields than the header."""
    return f"malformed CSV: {detail}"


def too_long(plan: ReadPlan, cure: str = "") -> str:
    """The row is over the limit; the detail is advice."""
    return f"row longer than {plan.max_row_mb:g} MiB" + (f": {cure}" if cure else "")


BOMB = "bomb limit"
_BROKEN = ("truncated .", "corrupt .", BOMB, "unreadable ")


def hides_rows(reason: str) -> bool:
    """Whether the later rows of the file are missing, of which there may be any number."""
    return reason.startswith(_BROKEN)


def truncated(compression: str) -> str:
    """The archive ends before its end mark."""
    return f"truncated .{compression} archive"


def in_translation(reason: str) -> str:
    """The same reason for the translation of a pair."""
    if reason.startswith("text "):
        return reason.replace("text", "translation", 1)
    return f"{reason} (translation)"


def corrupt(compression: str, detail: object) -> str:
    """The archive cannot be unpacked further."""
    return f"corrupt .{compression} archive: {detail}"


def bomb(plan: ReadPlan) -> str:
    """The archive unpacks to more than the limit allows."""
    return f"{BOMB}: archive unpacks to more than {plan.max_ratio:g} times its size"


def unreadable(form: str, error: BaseException) -> str:
    """The library of a format cannot read the file; the detail is the first line of its error."""
    lines = str(error).splitlines() or [type(error).__name__]
    return f"unreadable {form}: {lines[0][:200]}"


def too_long_conversation(length: int) -> str:
    """The first turn that is trained on ends behind the longest sequence."""
    return f"conversation too long: its first turn to train on ends after {length:,} tokens"


def refused_by_template(error: BaseException) -> str:
    """The chat template of a model raises; the detail is the first line of its error."""
    lines = str(error).splitlines() or [type(error).__name__]
    return f"conversation refused by the chat template: {lines[0][:200]}"
