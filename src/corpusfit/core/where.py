"""The filter on rows of `read.where`: a small language of comparisons, parsed and never evaluated.

What: `FIELD == VALUE`, also `!= < <= > >=`, `in [..]`, `not in [..]` and `is null`, joined by
`and`, `or`, `not` and parentheses; a value is a string in quotes, a number, `true`, `false` or
`null`. A field is a name, a dotted one for a field within a field, or `field("any name")`. Strings
that spell times are compared as times, because programs write the same time differently.
Why: Python's own parser gives a tree with the usual precedences; only the nodes above are taken.
Trade-off: one side of a comparison is a value, so two fields cannot be compared.
"""

from __future__ import annotations

import ast
import operator
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from corpusfit.core.errors import UsageError, bad_setting

ValueOf = Callable[[str], Any]
"""The value of a row's field by its name; None for null and for a missing field."""
Condition = Callable[[ValueOf], bool]

EXAMPLE = '`read.where=score > 0.8 and topic in ["Health", "Law"]`'
_WORDS = {"true": True, "false": False, "null": None}
_ORDERS: dict[type, Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_TURNED: dict[type, type] = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}
_LONGEST = 10_000
_TIME = re.compile(
    r"""(\d{4}) ([-/]) (\d\d?) \2 (\d\d?)
    (?: (?: T | [ ]+ ) (\d\d?) : (\d\d) (?: : (\d\d) (?: [.,] (\d+) )? )?
        (?: [ ]? (?: Z | UTC | ([-+]) (\d\d) (?: :? (\d\d) )? ) )? )?""",
    re.ASCII | re.IGNORECASE | re.VERBOSE,
)
_DAY_OR_MONTH_FIRST = re.compile(r"\d\d?([-/.])\d\d?\1\d{2,4}\b.*", re.ASCII)


class NotComparableError(Exception):
    """A value has no order with the one of the filter; the message is the reject reason."""


@dataclass(frozen=True)
class Where:
    """A filter."""

    fields: tuple[str, ...]  # the fields that it reads
    keeps: Condition  # whether a row is kept; raises `NotComparableError`


@dataclass(frozen=True)
class _Field:
    name: str


class _RefusedError(Exception):
    """A part of the filter that the language does not have; the message is the part."""


@lru_cache
def parsed(text: str) -> Where:
    """The filter that a text states.

    Raises:
        UsageError: it is not in the language.
    """
    try:
        if len(text) > _LONGEST:
            raise _RefusedError(f"a filter of more than {_LONGEST:,} characters")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of backslashes in strings
            tree = ast.parse(text.strip(), mode="eval")
        fields: dict[str, None] = {}
        condition = _condition(tree.body, fields)
        return Where(tuple(fields), condition)
    except _RefusedError as e:
        raise _wrong(text, f"This part is none of these: {e}.") from e
    except (SyntaxError, ValueError, RecursionError, MemoryError) as e:
        raise _wrong(text, "") from e


def _wrong(text: str, why: str) -> UsageError:
    allowed = (
        "comparisons of a field with a value by == != < <= > >= in, joined by and, or, not and "
        "parentheses"
    )
    return bad_setting("`read.where`", allowed, text, f"{why} For example {EXAMPLE}.".strip())


def _condition(node: ast.expr, fields: dict[str, None]) -> Condition:
    """The condition of a part of the tree; notes its fields."""
    if isinstance(node, ast.BoolOp):
        parts = [_condition(part, fields) for part in node.values]
        every = all if isinstance(node.op, ast.And) else any
        return lambda row: every(part(row) for part in parts)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = _condition(node.operand, fields)
        return lambda row: not inner(row)
    if not isinstance(node, ast.Compare):
        raise _RefusedError(ast.unparse(node))
    # 0.2 < score < 0.5 is both of its comparisons
    operands = [node.left, *node.comparators]
    pairs = zip(operands, node.ops, operands[1:], strict=False)
    comparisons = [_comparison(node, left, op, right, fields) for left, op, right in pairs]
    if len(comparisons) == 1:
        return comparisons[0]
    return lambda row: all(comparison(row) for comparison in comparisons)


def _comparison(
    whole: ast.expr, left: ast.expr, op: ast.cmpop, right: ast.expr, fields: dict[str, None]
) -> Condition:
    """The condition of one comparison, of a field with a value on either side or with a list."""
    kind: type = type(op)
    if kind in (ast.In, ast.NotIn):
        if not isinstance(right, ast.List | ast.Tuple | ast.Set):
            raise _RefusedError(ast.unparse(whole))
        field = _operand(left)
        values = [_operand(element) for element in right.elts]
    else:
        field = _operand(left)
        values = [_operand(right)]
        if isinstance(values[0], _Field):
            field, values, kind = values[0], [field], _TURNED.get(kind, kind)
    if not isinstance(field, _Field) or any(isinstance(value, _Field) for value in values):
        raise _RefusedError(ast.unparse(whole))
    name = field.name
    fields[name] = None
    if kind in (ast.Eq, ast.In) or (kind is ast.Is and values == [None]):
        return lambda row: any(_same(row(name), value) for value in values)
    if kind in (ast.NotEq, ast.NotIn) or (kind is ast.IsNot and values == [None]):
        return lambda row: not any(_same(row(name), value) for value in values)
    if kind not in _ORDERS or isinstance(values[0], bool) or values[0] is None:
        raise _RefusedError(ast.unparse(whole))
    written = str(values[0]).strip()
    no_time = _TIME.fullmatch(written) and not time_of(written)
    if no_time or _DAY_OR_MONTH_FIRST.fullmatch(written):
        raise _RefusedError(f"{ast.unparse(whole)}; write a date as 2024-12-31")
    return lambda row: _in_order(name, row(name), values[0], _ORDERS[kind])


def _operand(node: ast.expr) -> Any:
    """A field, or a value."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr):
        raise _RefusedError(f"{ast.unparse(node)}; write `and` for `&` and `or` for `|`")
    if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float | None):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        number = _operand(node.operand)
        if type(number) in (int, float):
            return -number if isinstance(node.op, ast.USub) else number
    if isinstance(node, ast.Name):
        return _WORDS[node.id] if node.id in _WORDS else _Field(node.id)
    if isinstance(node, ast.Attribute):
        outer = _operand(node.value)
        if isinstance(outer, _Field):
            return _Field(f"{outer.name}.{node.attr}")
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "field" and len(node.args) == 1:
        name = node.args[0]
        if not node.keywords and isinstance(name, ast.Constant) and isinstance(name.value, str):
            return _Field(name.value)
    raise _RefusedError(ast.unparse(node))


def number_of(value: Any) -> int | float | None:
    """The number that a value is or, as every value of a CSV file, spells; None for any other."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    if not isinstance(value, str) or "_" in value:
        return None
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            pass
    return None


@lru_cache
def time_of(text: str) -> tuple[datetime, str] | None:
    """The time that a text spells, in UTC, and its digits behind the second; None for any other.

    A time without an offset is taken as UTC, as one without a zone in Parquet; a date is its
    midnight.
    """
    match = _TIME.fullmatch(text.strip())
    if match is None:
        return None
    year = int(match[1])
    month = int(match[3])
    day = int(match[4])
    hour, minute, second = (int(match[n] or 0) for n in (5, 6, 7))
    offset = timedelta(hours=int(match[10] or 0), minutes=int(match[11] or 0))
    try:
        local = datetime(year, month, day, hour, minute, second)
        utc = local + offset if match[9] == "-" else local - offset
    except (ValueError, OverflowError):
        return None
    return utc, (match[8] or "").rstrip("0")


def _begin_of(text: str) -> tuple[datetime, str] | None:
    """The time that a text spells, or when the month or the year that it spells begins."""
    return time_of(text) or time_of(f"{text.strip()}-01") or time_of(f"{text.strip()}-01-01")


def _same(value: Any, wanted: Any) -> bool:
    """Whether a row's value is that of the filter; values of different kinds never are."""
    if isinstance(wanted, bool):
        if isinstance(value, str):
            return value.strip().lower() == str(wanted).lower()
        return value in (True, False) and bool(value) == wanted
    if isinstance(wanted, int | float):
        return number_of(value) == wanted
    if isinstance(value, int | float) and not isinstance(value, bool) and wanted is not None:
        return value == number_of(wanted)  # a number in quotes
    if wanted is None and isinstance(value, str):
        return not value.strip()  # an empty value of a CSV file
    if isinstance(value, str) and isinstance(wanted, str) and value != wanted:
        time = time_of(wanted)
        return time is not None and time == time_of(value)
    return bool(value == wanted)


def _in_order(name: str, value: Any, other: Any, order: Callable[[Any, Any], bool]) -> bool:
    """Whether a row's value is below, or above, that of the filter; null is neither."""
    if value is None:
        return False
    number = number_of(value)
    wanted = number_of(other)
    if number is not None and wanted is not None:
        return order(number, wanted)
    if isinstance(value, str) and not value.strip():  # an empty value of a CSV file
        return False
    if isinstance(other, str):
        time = _begin_of(other)
        if time and isinstance(value, str) and number is None and (its := _begin_of(value)):
            return order(its, time)
        if time and wanted is None:
            raise NotComparableError(f"{name!r} is not a time: {str(value)[:40]!r}")
        if isinstance(value, str) and time_of(value):
            cure = "write a date as 2024-12-31"
            raise NotComparableError(f"{name!r} is a time, and {other[:40]!r} is none; {cure}")
        if isinstance(value, str):
            return order(value, other)
        raise NotComparableError(f"{name!r} is not text: {type(value).__name__}")
    raise NotComparableError(f"{name!r} is not a number: {str(value)[:40]!r}")
