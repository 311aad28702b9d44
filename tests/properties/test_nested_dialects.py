"""The same rows say the same in every format: chats, lists, numbers, dates, nulls, nested or not.

The generator knows what each value is meant to say, so the reader's rule is not asked for it.
"""

import datetime as dt
import json
import tempfile
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

import corpusfit
from corpusfit import text as corpus
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Document
from corpusfit.text.in_memory import inputs

NO_TEXT = object()
"""What a value says that is no text."""

words = st.text("ab é語\n\"'{}[]🙂", max_size=6)


@dataclass(frozen=True)
class Kind:
    """A kind of column.

    Attributes:
        kind: its Arrow type.
        value: a strategy for pairs of a value and what it says: the lines, None or `NO_TEXT`.
        bare: whether a value is text by itself, not in a template alone.
    """

    kind: Any
    value: Any
    bare: bool = True


def scalar(kind, values, spell, *, bare=False):
    return Kind(kind, values.map(lambda v: (v, [spell(v)])), bare)


def dated(kind, values, spell):
    """Of values that JSON has as strings, so that they are texts by themselves."""
    return scalar(kind, values, spell, bare=True)


def messages(who, key):
    """Messages with a role and what is said, or nothing: null, missing, a call of a tool."""

    def message(pair):
        role, text, form = pair
        calls = {"tool_calls": [{"name": "weather"}]}
        if form == "said":
            return {who: role, key: text}, [text]
        return ({who: role, key: None, **calls} if form == "null" else {who: role, **calls}), []

    parts = st.tuples(
        st.sampled_from(["user", "assistant", "tool"]),
        words,
        st.sampled_from(["said", "said", "null", "missing"]),
    )
    return listed(parts.map(message))


def listed(pairs):
    """A list of values, and the lines that they say."""
    return st.lists(pairs, max_size=4).map(
        lambda some: ([v for v, _ in some], [line for _, lines in some for line in lines])
    )


def in_parts(some):
    """A message whose content is texts and images."""
    image = {"type": "image_url", "image_url": {"url": "a.png"}}
    content = [image if text is None else {"type": "text", "text": text} for text in some]
    return {"role": "user", "content": content}, [text for text in some if text is not None]


calls = pa.list_(pa.struct([("name", pa.string())]))
openai = pa.struct([("role", pa.string()), ("content", pa.string()), ("tool_calls", calls)])
sharegpt = pa.struct([("from", pa.string()), ("value", pa.string()), ("tool_calls", calls)])
part = pa.struct(
    [
        ("type", pa.string()),
        ("text", pa.string()),
        ("image_url", pa.struct([("url", pa.string())])),
    ]
)
strings = st.one_of(words.map(lambda w: (w, [w])), st.just((None, [])))
moments = st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1))
small = st.floats(-1e6, 1e6, width=32)

KINDS = {
    "string": Kind(pa.string(), words.map(lambda w: (w, [w]))),
    "dictionary": Kind(pa.dictionary(pa.int8(), pa.string()), words.map(lambda w: (w, [w]))),
    "binary": Kind(pa.binary(), words.map(lambda w: (w.encode(), [w]))),
    "chat": Kind(pa.list_(openai), messages("role", "content")),
    "sharegpt": Kind(pa.list_(sharegpt), messages("from", "value")),
    "parts": Kind(
        pa.list_(pa.struct([("role", pa.string()), ("content", pa.list_(part))])),
        listed(st.lists(st.none() | words, max_size=3).map(in_parts)),
    ),
    "strings": Kind(pa.list_(pa.string()), listed(strings)),
    "lists": Kind(pa.list_(pa.list_(pa.string())), listed(listed(strings))),
    "integers": Kind(
        pa.list_(pa.int64()),
        st.lists(st.integers(0, 9), min_size=1).map(lambda v: (v, NO_TEXT)),
    ),
    "object": Kind(
        pa.struct([("role", pa.string()), ("content", pa.string())]),
        words.map(lambda w: ({"role": "user", "content": w}, NO_TEXT)),
    ),
    "objects": Kind(
        pa.list_(pa.struct([("a", pa.string()), ("content", pa.string())])),
        words.map(lambda w: ([{"a": w}], NO_TEXT)),
    ),
    "map": Kind(
        pa.map_(pa.string(), pa.string()),
        st.dictionaries(st.sampled_from("kl"), words).map(lambda v: (v, NO_TEXT)),
    ),
    "integer": scalar(pa.int64(), st.integers(-(2**63), 2**63 - 1), str),
    "unsigned": scalar(pa.uint64(), st.integers(0, 2**64 - 1), str),
    "boolean": scalar(pa.bool_(), st.booleans(), lambda v: "true" if v else "false"),
    "double": scalar(pa.float64(), st.floats(allow_nan=False, allow_infinity=False), repr),
    "float": scalar(pa.float32(), small.map(lambda v: float(str(np.float32(v)))), repr),
    "decimal": dated(
        pa.decimal128(9, 2),
        st.integers(-(10**6), 10**6).map(lambda v: Decimal(v).scaleb(-2)),
        "{:.2f}".format,
    ),
    "date": dated(pa.date32(), moments.map(dt.datetime.date), dt.date.isoformat),
    "time": dated(pa.time64("us"), moments.map(dt.datetime.time), dt.time.isoformat),
    "micro": dated(pa.timestamp("us"), moments, dt.datetime.isoformat),
    "nano": dated(pa.timestamp("ns"), moments, dt.datetime.isoformat),
    "zoned": dated(
        pa.timestamp("us", "UTC"),
        moments.map(lambda m: m.replace(tzinfo=dt.UTC)),
        dt.datetime.isoformat,
    ),
}


def wide(kind):
    """The same type with 64-bit offsets."""
    if pa.types.is_string(kind):
        return pa.large_string()
    if pa.types.is_binary(kind):
        return pa.large_binary()
    if pa.types.is_list(kind):
        return pa.large_list(wide(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, wide(field.type)) for field in kind])
    return kind


def as_json(value):
    if isinstance(value, Decimal):
        return f"{value:.2f}"
    return value.decode() if isinstance(value, bytes) else value.isoformat()


def read(name, field):
    plan = ReadPlan(text_field=field)
    sources = corpus.find([str(name)], plan, role="corpus")
    rows = [row for shard in corpus.shards(sources, plan) for row in corpus.rows(shard, plan)]
    assert [row.row for row in rows] == list(range(len(rows)))
    return [row.text if isinstance(row, Document) else None for row in rows]


def in_files(folder, values, kind):
    """The rows in files of every format that has their type."""
    # another field may hold what JSON does not allow, and a column may be there twice
    wrong = '"n": 1e400, "cut": "\\ud83d"'
    lines = (
        json.dumps({"id": i, "x": v}, default=as_json)[:-1] + f", {wrong}}}"
        for i, v in enumerate(values)
    )
    (folder / "a.jsonl").write_text("".join(line + "\n" for line in lines))
    yield "a.jsonl"
    for name, own in (("narrow", kind), ("wide", wide(kind))):
        columns = [pa.array(range(len(values))), pa.array(values, own), pa.nulls(len(values))]
        table = pa.table(columns, names=["id", "x", "x"])
        pq.write_table(table, folder / f"{name}.parquet", row_group_size=2)
        yield f"{name}.parquet"
        for suffix, new in (("arrow", pa.ipc.new_file), ("feather", pa.ipc.new_stream)):
            with new(folder / f"{name}.{suffix}", table.schema) as out:
                out.write_table(table, max_chunksize=3)
            yield f"{name}.{suffix}"


def in_memory(name, values, kind):
    """The rows as data that a caller in Python may hold."""
    table = pa.table({"x": pa.array(values, kind)})
    yield "table with x twice", table.append_column("x", pa.nulls(len(values)))
    yield "rows", [{"x": value} for value in values]
    yield "table", table
    yield "reader", table.to_reader()
    yield "pandas", pd.DataFrame({"x": pd.Series(values, dtype=object)})
    if name == "float":
        yield (
            "float32",
            pd.DataFrame({"x": np.array([v if v is not None else 0 for v in values], np.float32)}),
            True,
        )
    if name != "dictionary":
        yield "pandas of Arrow", table.to_pandas(types_mapper=pd.ArrowDtype)
    if None not in values and name != "map":
        yield "pandas by default", table.to_pandas()
    try:
        import polars as pl
    except ImportError:
        return
    if name not in ("map", "dictionary"):
        yield "polars", pl.from_arrow(table)


def check(name, pairs, template, folder, cache):
    kind, field = KINDS[name], "<{x}>" if template else "x"
    values, meant = [value for value, _ in pairs], []
    for value, lines in pairs:
        said = "" if value is None else NO_TEXT if lines is NO_TEXT else "\n".join(lines)
        if template:
            meant.append(None if said is NO_TEXT else f"<{said}>")
        else:
            none = said is NO_TEXT or not said.strip() or not kind.bare
            meant.append(None if none else said)
    counted = 0
    for file in in_files(folder, values, kind.kind):
        assert read(folder / file, field) == meant, file
        counted += 1
    for form, data, *zero in in_memory(name, values, kind.kind):
        if zero and None in values:
            continue
        (given_as,) = inputs(data, "corpus", cache, field)
        assert read(given_as, field) == meant, form
        counted += 1
    return counted


def run(data, names):
    name = data.draw(st.sampled_from(sorted(names)))
    value = KINDS[name].value
    pairs = data.draw(st.lists(value | st.just((None, None)), min_size=1, max_size=6))
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        check(name, pairs, data.draw(st.booleans()), place, corpusfit.Machine(cache=place / "c"))


@given(st.data())
def test_the_same_rows_say_the_same_in_every_format(data):
    run(data, KINDS)
