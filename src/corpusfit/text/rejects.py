"""Reject reasons: every reason why a row is not used, and its words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Reason

MALFORMED_JSON = Reason("malformed JSON")
HALF_CHARACTER = Reason("malformed JSON", detail="half of a character in the text")
INVALID_UTF8 = Reason("invalid UTF-8")
NOT_AN_OBJECT = Reason("row is not an object")
NULL_TEXT = Reason("text is null")
EMPTY_TEXT = Reason("text is empty")
NOT_A_STRING = Reason("text is not a string")
EMPTY_LINE = Reason("empty line")
NUL = Reason("text contains NUL")
REPEATED_HEADER = Reason("repeated header")
UNCLOSED_QUOTE = Reason("unclosed quote")
NO_CONVERSATION = Reason("row is no conversation")
NO_ASSISTANT = Reason("conversation without a turn of the assistant")
NO_LOSS = Reason("nothing in the row that the loss is on")
ENDLESS_TEMPLATE = Reason(
    "conversation for which the chat template takes too much time, memory or text"
)

LEFT_OUT = Reason("left out by `read.where`")
"""Not an error: the row is counted by itself where a corpus is selected from."""

# names of reasons of which each has words of its own
_MISSING_FIELD = "missing field"
_NO_NUMBER = "no number"
_NOT_COMPARABLE = "values that `read.where` cannot compare"
_TOO_LONG = "row longer than"
_BOMB = "bomb limit"
_TRUNCATED = "truncated"
_CORRUPT = "corrupt"
_UNREADABLE = "unreadable"

FOREIGN = "not JSON"
"""The only field of an object that replaces a value without a JSON form; holds its type."""
NOT_UTF8 = {FOREIGN: INVALID_UTF8.name}
"""What replaces bytes that are no text."""

_SHOWN = 8
_LONGEST = 40
"""Most fields that a reason names, and most characters of each."""


@lru_cache(maxsize=1024)
def _reason(name: str, about: str = "", detail: str | None = None) -> Reason:
    """A reason that many rows may have: equal ones are one object, which is sent once."""
    return Reason(name, about, detail)


class RefusedError(Exception):
    """A row that is not used; the message is that of the reason."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


def stored(text: str) -> Reason:
    """The reason that a file stores as its text, without the fields of the row."""
    counted, colon, detail = text.partition(": ")
    kind = _stored_kind(counted)
    return Reason(kind.name, kind.about, detail) if colon else kind


@lru_cache(maxsize=1024)  # rows have few kinds of reasons
def _stored_kind(counted: str) -> Reason:
    name = next((name for name in _NAMES if f"{counted} ".startswith(f"{name} ")), counted)
    return Reason(name, counted[len(name) + 1 :])


def lacks_field(reason: Reason) -> bool:
    """Whether the row lacks the field to read; `fields` are those that it has."""
    return reason.name == _MISSING_FIELD


def of_field(reason: Reason) -> bool:
    """Whether the text may stand in another field."""
    texts = (NULL_TEXT, EMPTY_TEXT, NOT_A_STRING)
    return lacks_field(reason) or reason.name in [each.name for each in texts]


def of_filter(reason: Reason) -> bool:
    """Whether a number that is read of the row, or its filter, is what it lacks a value for."""
    return reason.name in (_NO_NUMBER, _NOT_COMPARABLE)


def missing_field(field: str, fields: Iterable[object]) -> Reason:
    """The row lacks the text field; the detail lists the fields that it has (at most eight).

    Of a row itself these are also the fields of its objects, such as `meta.text`.
    """
    names = _inner(fields) if isinstance(fields, Mapping) else map(str, fields)
    return _missing_field(field, tuple(names))


@lru_cache(maxsize=64)
def _missing_field(field: str, names: tuple[str, ...]) -> Reason:
    if not names:
        return Reason(_MISSING_FIELD, repr(field))
    alike = (f".{name}".lower().endswith(f".{field}".lower()) for name in names)
    guess = next((f"; try {name}" for name, fits in zip(names, alike, strict=True) if fits), "")
    shown = tuple(name[:_LONGEST] for name in names[:_SHOWN])
    return Reason(_MISSING_FIELD, repr(field), f"fields are {_listed(names)}{guess}", shown)


def not_a_string(value: object, field: str = "", *, listed: bool = False) -> Reason:
    """The text field holds neither a string nor what is said in messages or a list of strings."""
    if value == NOT_UTF8:
        return INVALID_UTF8
    if isinstance(value, Mapping) and FOREIGN in value:
        type_name = str(value[FOREIGN])[:200]
    elif isinstance(value, Mapping):
        names = _listed(_inner(value, "" if listed else field))
        type_name = "object" + (f" with the fields {names}" if names else "")
    else:
        type_name = type(value).__name__
    return _reason(NOT_A_STRING.name, detail=type_name + " in a list" * listed)


def _inner(value: Mapping[Any, Any], field: str = "") -> Iterator[str]:
    """The names that read the fields of an object, such as `meta.text`."""
    for name, inner in value.items():
        path = f"{field}.{name}" if field else str(name)
        deeper = isinstance(inner, Mapping) and FOREIGN not in inner and path.count(".") < _SHOWN
        yield from _inner(inner, path) if deeper else [path]


def _listed(fields: Iterable[object]) -> str:
    names = [str(name)[:_LONGEST] for name in fields]
    return ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")


def no_number(field: str, value: object) -> Reason:
    """The row lacks the number that it is to be scored by."""
    is_there = value is not None and value != ""
    return _reason(_NO_NUMBER, f"in {field!r}", f"it is {str(value)[:40]!r}" if is_there else None)


def not_comparable(error: Exception) -> Reason:
    """The filter compares values of the row that have no order; the detail names them."""
    return Reason(_NOT_COMPARABLE, detail=str(error))


def malformed_csv(detail: object) -> Reason:
    """A record cannot be parsed, or has more fields than the header."""
    return _reason("malformed CSV", detail=str(detail))


def too_long(plan: ReadPlan, cure: str = "") -> Reason:
    """The row is over the limit; the detail is advice."""
    return Reason(_TOO_LONG, f"{plan.max_row_mb:g} MiB", cure or None)


def hides_rows(reason: Reason) -> bool:
    """Whether the later rows of the file are missing, of which there may be any number."""
    return reason.name in (_TRUNCATED, _CORRUPT, _BOMB, _UNREADABLE)


def is_bomb(reason: Reason) -> bool:
    """Whether the archive unpacks to more than the limit allows."""
    return reason.name == _BOMB


def truncated(compression: str) -> Reason:
    """The archive ends before its end mark."""
    return Reason(_TRUNCATED, f".{compression} archive")


def noted(reason: Reason, where: str) -> Reason:
    """The same reason for another text of the row, which is named in brackets."""
    if reason.detail is not None:
        return reason._replace(detail=f"{reason.detail} ({where})")
    return reason._replace(about=f"{reason.about} ({where})".lstrip())


_IN_TRANSLATION = {
    NULL_TEXT: Reason("translation is null"),
    EMPTY_TEXT: Reason("translation is empty"),
    NUL: Reason("translation contains NUL"),
}


def in_translation(reason: Reason) -> Reason:
    """The same reason for the translation of a pair."""
    return _IN_TRANSLATION.get(reason) or noted(reason, "translation")


def corrupt(compression: str, detail: object) -> Reason:
    """The archive cannot be unpacked further."""
    return Reason(_CORRUPT, f".{compression} archive", str(detail))


def bomb(plan: ReadPlan) -> Reason:
    """The archive unpacks to more than the limit allows."""
    return Reason(_BOMB, detail=f"archive unpacks to more than {plan.max_ratio:g} times its size")


def unreadable(form: str, error: BaseException) -> Reason:
    """The library of a format cannot read the file; the detail is the first line of its error."""
    lines = str(error).splitlines() or [type(error).__name__]
    return Reason(_UNREADABLE, form, lines[0][:200])


def too_long_conversation(length: int) -> Reason:
    """The first turn that is trained on ends behind the longest sequence."""
    return Reason(
        "conversation too long",
        detail=f"its first turn to train on ends after {length:,} tokens",
    )


def refused_by_template(error: BaseException) -> Reason:
    """The chat template of a model raises; the detail is the first line of its error."""
    lines = str(error).splitlines() or [type(error).__name__]
    return Reason("conversation refused by the chat template", detail=lines[0][:200])


_NAMES = (
    *(_MISSING_FIELD, _NO_NUMBER, _TOO_LONG, _TRUNCATED, _CORRUPT, _UNREADABLE),
    *(each.name for each in (INVALID_UTF8, NULL_TEXT, EMPTY_TEXT, NOT_A_STRING, NUL, EMPTY_LINE)),
)
"""Names of reasons that are about something, or stand for another text of the row."""
