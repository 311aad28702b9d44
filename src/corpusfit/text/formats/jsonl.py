"""JSON lines: one object per line.

What: a block is raw lines; each line is parsed alone, so that a malformed line costs one row.
Why: `columns` reads one field with a numba kernel, because creating Python objects would cost more
than all later work on the text; orjson parses the lines that the kernel cannot decide.
Trade-off: `row` counts every line, also blank ones, so that it is the line number in an editor
(from 0).
Reference: https://jsonlines.org
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import orjson

from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Documents, Reject, Shard, Source, texts_between
from corpusfit.kernels.lines import field_texts, line_spans
from corpusfit.text import rejects
from corpusfit.text.contract import Format, completed, is_utf8
from corpusfit.text.cutting import BOM, Block, Lines, Text, cut, lines_of
from corpusfit.text.fields import Pick, Row, fields_in, from_broken, from_mapping, json_value
from corpusfit.text.files import Stream

_LONG = re.compile(rb"\d{19}")
_ESCAPED = re.compile(rb'[\x00-\x1f"\\]')


class JsonLines(Format):
    """Formats whose shards hold JSON lines."""

    written = "jsonl"
    joins = True

    def parse(self, shard: Shard, plan: ReadPlan) -> Iterator[Row]:
        byte = shard.first_byte
        for row, line in enumerate(lines_of(shard.data), shard.first_row):
            yield _row(row, byte, line, plan)
            byte += len(line) + 1

    def columns(
        self, shard: Shard, plan: ReadPlan, pick: Pick | None = None
    ) -> tuple[Documents, list[Reject]]:
        begins, ends = line_spans(shard.data)
        numbers = shard.first_row + np.arange(len(begins))
        if pick:
            picked = pick(numbers, ends - begins)
            numbers = numbers[picked]
            begins = begins[picked]
            ends = ends[picked]
        data = np.frombuffer(shard.data, np.uint8)
        field = plan.text_field.encode("utf-8", "surrogatepass")
        out = np.empty(len(data) + 8, np.uint8)
        # the field name is escaped in the lines, or other fields decide on a row
        if _ESCAPED.search(field) or plan.where or plan.numbers:
            through = np.zeros(len(begins) + 1, np.int64)
            plain = np.zeros(len(begins), np.bool_)
        else:
            through, plain = field_texts(data, begins, ends, np.frombuffer(field, np.uint8), out)

        def line(i: int) -> bytes:
            return shard.data[begins[i] : ends[i]]

        def parse(i: int) -> Row:
            return _row(int(numbers[i]), shard.first_byte + int(begins[i]), line(i), plan)

        if not is_utf8(shard.data):
            plain &= np.array([is_utf8(line(i)) for i in range(len(begins))], np.bool_)
        return completed(Documents(numbers, texts_between(through, out)), plain, parse)

    def joined(self, data: bytes, plan: ReadPlan) -> bytes:
        """The lines, with white space in the place of a byte order mark."""
        del plan
        if data.startswith(BOM):
            data = b"   " + data[len(BOM) :]
        return data if not data or data.endswith(b"\n") else data + b"\n"


class Jsonl(JsonLines):
    """Files of JSON lines."""

    name = "jsonl"
    suffixes = (".jsonl", ".ndjson", ".jsonlines")
    plain = line_ends = True

    def blocks(self, source: Source, plan: ReadPlan) -> Iterator[Block]:
        return self.blocks_from(source, plan, 0, 0)

    def blocks_from(self, source: Source, plan: ReadPlan, row: int, byte: int) -> Iterator[Block]:
        text = Text(Stream(source, plan), plan, skip=byte)
        return cut(text, Lines(row), plan, first_byte=byte, first_row=row)


def as_line(row: Mapping[str, Any], plan: ReadPlan, kept: tuple[str, ...] = ()) -> bytes:
    """Convert a row of another format to a JSON line of its text, its id and the `kept` fields.

    A row without a text keeps the names of its fields, for the reject.
    """
    fields = (plan.text_field, *fields_in(plan.text_field))
    texts = [n for name in fields for n in (name, name.partition(".")[0]) if n in row]
    other_fields = (plan.id_field, *plan.other_fields(), *kept)
    others = [n for name in other_fields for n in (name, name.partition(".")[0])]
    names = (*texts, *others)
    has_text = bool(texts)
    subset = {} if has_text else dict.fromkeys(row)
    subset |= {name: row[name] for name in (names if has_text else others) if name in row}
    return line_of(subset)


_OPTIONS = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_DATETIME


def line_of(row: Mapping[Any, Any]) -> bytes:
    """A row of any values as a JSON line; a text that is no Unicode is rejected when it is read."""
    try:
        return orjson.dumps(row, default=json_value, option=_OPTIONS) + b"\n"
    except orjson.JSONEncodeError:
        pass
    try:
        # an integer of more than 64 bits becomes text, with its digits
        plain = json.loads(json.dumps(row, default=json_value), parse_int=_digits)
    except (TypeError, ValueError, RecursionError):
        return b'"\xff"\n'
    try:
        return orjson.dumps(plain) + b"\n"
    except orjson.JSONEncodeError:  # a lone surrogate
        return json.dumps(plain).encode() + b"\n"


def _digits(number: str) -> int | str:
    return int(number) if -(1 << 63) <= int(number) < 1 << 64 else number


def _row(row: int, byte: int, line: bytes, plan: ReadPlan) -> Row:
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError:
        return _failed(row, byte, line, plan)
    # the parser makes integers of more than 64 bits floats, also within a field that is kept
    if (plan.kept_fields() and _LONG.search(line)) or (
        isinstance(record, dict)
        and any(isinstance(value, float) and abs(value) >= 2.0**63 for value in record.values())
    ):
        with contextlib.suppress(ValueError, RecursionError):
            record = json.loads(line, parse_int=_digits)
    return from_mapping(row, byte, record, plan)


def _failed(row: int, byte: int, line: bytes, plan: ReadPlan) -> Row:
    """The row of a line that is almost JSON, or its reject.

    A byte order mark may begin any line, as files are joined. NaN, Infinity and numbers beyond a
    float's range are null: a missing number must not cost the text.
    """
    if line.startswith(BOM):
        line = line.removeprefix(BOM)
        try:
            return from_mapping(row, byte, orjson.loads(line), plan)
        except orjson.JSONDecodeError:
            pass
    if not line.strip():
        return Reject(row, byte, rejects.EMPTY_LINE)
    valid = is_utf8(line)
    try:
        record = json.loads(
            line.decode(errors="surrogateescape"),
            parse_constant=lambda _: None,
            parse_float=_finite,
            parse_int=_digits,
        )
        return from_broken(row, byte, record, plan, rejects.HALF_CHARACTER if valid else None)
    except (ValueError, RecursionError):
        return Reject(row, byte, rejects.MALFORMED_JSON if valid else rejects.INVALID_UTF8)


def _finite(number: str) -> float | None:
    return value if math.isfinite(value := float(number)) else None
