"""The column reader gives what orjson, line by line, gives: on any lines, broken or odd."""

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Document, Reject, Shard
from corpusfit.kernels.lines import field_texts, line_ends, line_spans
from corpusfit.text import documents, rows

PLAN = ReadPlan()
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)
records = st.dictionaries(st.sampled_from(["text", "id", "a", "te", "texts", 'q"', "é"]), values)
odd = st.sampled_from(
    [
        b"",
        b"  \r",
        b"{}",
        b"[]",
        b'{"text": "a"} x',
        b'{"text": "a"}{"text": "b"}',
        b'{"text": "a",}',
        b'{"text" "a"}',
        b'{"text": "\xff"}',
        b'{"text": "\xed\xa0\x80"}',
        b'{"id": "\xff", "text": "a"}',
        b'{"text": "\\ud800"}',
        b'{"text": "\\ud83d\\ude00 \\u00e9 \\n \\/ \\""}',
        b'{"text": "\\u0000"}',
        b'{"text": "\\u001c\\u2028 \\u3000"}',
        b'{"text": "a", "text": "b"}',
        b'{"t\\u0065xt": "a"}',
        b'{"text": "a", "n": 01}',
        b'{"text": "a", "n": 1e999}',
        b'{"text": "a", "n": 1e99}',
        b'{"text": "a", "n": 1e}',
        b'{"text": "a", "n": 1e+-5}',
        b'{"text": "a", "n": ' + b"9" * 400 + b"}",
        b'{"text": "a", "n": 0.1234567890123456789}',
        b'{"text": "a", "n": -}',
        b'{"text": "a", "n": 1.}',
        b'{"text": "a", "n": NaN}',
        b'{"text": "a", "n": [1, {"b": [true, null, {}]}, []]}',
        b'{"text": "a", "n": [1, ]}',
        b'{"text": "a", "n": {"b" 1}}',
        b'{"text": "a\tb"}',
        b'\xef\xbb\xbf{"text": "bom"}',
        b'\t{ "text"\t: "spaced" , "a" : 1 }\r',
        b'{"text": "' + "日本語の文章".encode() + b'"}',
        b'{"text": "' + b"long " * 50 + b'"}',
        b'{"n": ' + b"[" * 70 + b"]" * 70 + b', "text": "deep"}',
        b'{"text": "open',
        b'{"text": "open\\',
        b'{"text": "a", "b": "\\u12"}',
    ]
)
written = st.one_of(records, values).map(orjson.dumps).filter(lambda b: b"\n" not in b)
broken = st.tuples(written, st.integers(0, 60), st.binary(max_size=2)).map(
    lambda t: (t[0][: t[1]] + t[2] + t[0][t[1] + 1 :]).replace(b"\n", b" ")
)


def shard(data, first_row=3, first_byte=10):
    return Shard(0, 0, "jsonl", first_row, first_byte, data, (), 0)


@given(st.lists(st.one_of(written, odd, broken), max_size=6), st.booleans(), st.booleans())
def test_columns_are_the_rows(lines, ended, at_start):
    data = b"\n".join(lines) + (b"\n" if ended else b"")
    piece = shard(data, *((0, 0) if at_start else (3, 10)))
    expected = list(rows(piece, PLAN))
    found, rejected = documents(piece, PLAN)
    used = [row for row in expected if isinstance(row, Document)]
    assert found.row.tolist() == [d.row for d in used]
    assert found.texts.to_pylist() == [d.text for d in used]
    assert rejected == [row for row in expected if isinstance(row, Reject)]


@pytest.mark.parametrize("name", ["a\\b", 'a":"b', 'q"', "é", "", "\udcff", "a\tb"])
def test_any_name_of_the_field(name):
    lines = [b'{"a\\b": "x"}', b'{"a":"b"}', b'{"": "y"}', b'{"q\\"": "z"}', '{"é": "é"}'.encode()]
    piece, plan = shard(b"\n".join(lines)), ReadPlan(text_field=name)
    expected = [row for row in rows(piece, plan) if isinstance(row, Document)]
    found, rejected = documents(piece, plan)
    assert found.row.tolist() == [d.row for d in expected]
    assert found.texts.to_pylist() == [d.text for d in expected]
    assert len(rejected) == len(lines) - len(expected)


@pytest.mark.parametrize("number", ["0.9487486481666565", "1e-5", "-1.5E+99", "9" * 200])
def test_ordinary_numbers_never_need_the_full_parser(number):
    data = b'{"n": ' + number.encode() + b', "text": "a"}'
    field, out = np.frombuffer(b"text", np.uint8), np.empty(len(data) + 8, np.uint8)
    assert field_texts(np.frombuffer(data, np.uint8), *line_spans(data), field, out)[1].all()


@pytest.mark.parametrize("text", ["plain", 'esc \\" \\u00e9 \\ud83d\\ude00 \\n', "日本語", "é"])
def test_ordinary_lines_never_need_the_full_parser(text):
    data = b'{"id": 1.5, "meta": {"a": [1, "b", null]}, "text": "' + text.encode() + b'"}\n'
    field, out = np.frombuffer(b"text", np.uint8), np.empty(len(data) + 8, np.uint8)
    through, plain = field_texts(np.frombuffer(data, np.uint8), *line_spans(data), field, out)
    assert plain.tolist() == [True]
    assert bytes(out[: through[1]]).decode() == orjson.loads(data)["text"]


@given(st.lists(st.sampled_from([b"\n", b"\t", b"\x8a", b"a", b"\n\n", b"abcdefgh"])).map(b"".join))
def test_line_ends_are_numpys(data):
    codes = np.frombuffer(data, np.uint8)
    assert line_ends(codes).tolist() == np.flatnonzero(codes == 10).tolist()
