"""A text made of several fields, or of a chat's messages, in every format with named fields."""

import csv
import datetime as dt
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpusfit import text as corpus
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Document
from corpusfit.text import find

TEMPLATE = "{instruction}\\n{output}"
ROWS = [
    {"id": "a", "instruction": "Name a color.", "output": "Blue."},
    {"id": "b", "instruction": "Say nothing.", "output": None},
    {"id": "c", "instruction": "Two\nlines.", "output": 'Said "so".'},
]
TEXTS = ["Name a color.\nBlue.", "Say nothing.\n", 'Two\nlines.\nSaid "so".']
CHAT = [{"role": "user", "content": "Hello?"}, {"role": "assistant", "content": "Yes."}]


def jsonl(folder):
    (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return folder / "a.jsonl"


def table(folder):
    out = io.StringIO()
    rows = csv.DictWriter(out, ROWS[0])
    rows.writeheader()
    rows.writerows(ROWS)
    (folder / "a.csv").write_text(out.getvalue())
    return folder / "a.csv"


def parquet(folder):
    pq.write_table(pa.Table.from_pylist(ROWS), folder / "a.parquet")
    return folder / "a.parquet"


def hub(folder):
    pytest.importorskip("datasets")
    (folder / "box").mkdir()
    jsonl(folder).rename(folder / "box" / "train.jsonl")
    return f"hub:{folder / 'box'}"


def read(name, field):
    plan = ReadPlan(text_field=field)
    sources = find([str(name)], plan, role="corpus")
    return [row for shard in corpus.shards(sources, plan) for row in corpus.rows(shard, plan)]


@pytest.mark.parametrize("write", [jsonl, table, parquet, hub])
def test_a_template_joins_fields_and_null_is_empty(write, tmp_path):
    found = read(write(tmp_path), TEMPLATE)
    assert [(row.id, row.text) for row in found] == list(zip("abc", TEXTS, strict=True))


@pytest.mark.parametrize("write", [jsonl, table, parquet, hub])
def test_a_row_with_no_field_of_the_template_is_rejected_and_names_its_fields(write, tmp_path):
    found = read(write(tmp_path), "{title}: {body}")
    assert len(found) == 3
    for row in found:
        assert not isinstance(row, Document)
        assert "instruction" in str(row.reason)


@pytest.mark.parametrize("write", [jsonl, parquet, hub])
@pytest.mark.parametrize("field", ["meta.body.de", "{meta.body.de}"])
def test_a_field_in_a_field_is_named_with_a_point(write, field, tmp_path, monkeypatch):
    rows = [{"meta": {"body": {"de": "ja", "en": "yes"}, "n": 1}}, {"meta": {"n": 2}}, {"n": 3}]
    monkeypatch.setattr(f"{__name__}.ROWS", rows)
    found = read(write(tmp_path), field)
    assert found[0].text == "ja"
    assert not any(isinstance(row, Document) for row in found[1:])
    assert len(found) == 3


@pytest.mark.parametrize("write", [jsonl, parquet])
def test_a_field_with_a_point_in_its_name_comes_first(write, tmp_path, monkeypatch):
    monkeypatch.setattr(f"{__name__}.ROWS", [{"a.b": "itself", "a": {"b": "inner"}}])
    assert [row.text for row in read(write(tmp_path), "a.b")] == ["itself"]
    monkeypatch.setattr(f"{__name__}.ROWS", [{"a": "a text"}])
    (row,) = read(write(tmp_path), "a.b")
    assert not isinstance(row, Document)


def test_a_field_that_has_the_templates_own_name_is_the_text(tmp_path):
    (tmp_path / "a.jsonl").write_text(json.dumps({TEMPLATE: "As it is.", "output": "no"}) + "\n")
    assert [row.text for row in read(tmp_path / "a.jsonl", TEMPLATE)] == ["As it is."]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
@pytest.mark.parametrize("key", ["content", "value"])
@pytest.mark.parametrize("field", ["chat", "{chat}"])
def test_the_text_of_a_chat_is_what_is_said(kind, key, field, tmp_path):
    chat = [{"role": m["role"], key: m["content"]} for m in CHAT]
    if kind == "jsonl":
        (tmp_path / "a.jsonl").write_text(json.dumps({"chat": chat}) + "\n")
    else:
        pq.write_table(pa.Table.from_pylist([{"chat": chat}]), tmp_path / "a.parquet")
    (row,) = read(tmp_path / f"a.{kind}", field)
    assert row.text == "Hello?\nYes."


def test_dates_and_long_lists_of_parquet_are_read(tmp_path):
    says = pa.list_(pa.struct([("content", pa.string())]))
    table = pa.table(
        {
            "day": pa.array([dt.date(2026, 1, 2)]),
            "chat": pa.array([[{"content": "Hello?"}]], pa.large_list(says.value_type)),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    (row,) = read(tmp_path / "a.parquet", "{day}: {chat}")
    assert row.text == "2026-01-02: Hello?"


def test_rows_of_several_fields_fill_shards_by_all_of_them(tmp_path):
    rows = [{"title": "t", "body": "word " * 20_000} for _ in range(60)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    plan = ReadPlan(text_field="{title} {body}", shard_mb=1.0)
    sources = find([str(tmp_path / "a.parquet")], plan, role="corpus")
    shards = list(corpus.shards(sources, plan))
    assert max(len(shard.data) for shard in shards) < 2e6
    assert sum(1 for shard in shards for _ in corpus.rows(shard, plan)) == 60


@pytest.mark.parametrize(
    "value", [["a", 2], [{"role": "user"}], [{"a": "b"}], [], {"content": "x"}, 3]
)
def test_what_is_no_chat_is_no_text(value, tmp_path):
    (tmp_path / "a.jsonl").write_text(json.dumps({"chat": value}) + "\n")
    (row,) = read(tmp_path / "a.jsonl", "chat")
    assert not isinstance(row, Document)


SAID = [
    ([{"role": "user", "content": None}, {"role": "assistant", "content": "Yes."}], "Yes."),
    ([{"role": "assistant", "tool_calls": [{"id": "a"}]}, {"role": "tool", "content": "4"}], "4"),
    ([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image"}]}], "a"),
    ([{"role": "user", "parts": [{"text": "a"}, {"text": "b"}]}], "a\nb"),
    ([{"type": "text", "text": "a"}, {"type": "tool_result", "content": ["b", None]}], "a\nb"),
    ([{"content": {"content_type": "text", "parts": ["a"]}, "role": "user"}], "a"),
    (["one", None, "two"], "one\ntwo"),
    ([["one"], [], ["two", "three"]], "one\ntwo\nthree"),
]


@pytest.mark.parametrize(("value", "text"), SAID)
@pytest.mark.parametrize("field", ["x", "{x}"])
def test_what_messages_and_lists_say(value, text, field, tmp_path):
    (tmp_path / "a.jsonl").write_text(json.dumps({"x": value}) + "\n")
    assert [row.text for row in read(tmp_path / "a.jsonl", field)] == [text]


@pytest.mark.parametrize(
    "value",
    [
        [1, 2],
        [0.5],
        [True],
        {"a": "b"},
        [{"name": "a", "score": 1}],
        [{"key": "a", "value": "b"}],
        [{"role": "user", "content": 3}],
        [[[[["a"]]]], 3],
    ],
)
def test_a_template_takes_no_value_that_is_no_text(value, tmp_path):
    """Not as Python spells it either."""
    (tmp_path / "a.jsonl").write_text(json.dumps({"x": value, "n": 1}) + "\n")
    (row,) = read(tmp_path / "a.jsonl", "{n} {x}")
    assert str(row.reason).startswith("text is not a string: ")


def test_a_template_spells_numbers_and_booleans_as_json_does(tmp_path):
    row = {"i": 1, "f": 1.0, "t": True, "n": None}
    (tmp_path / "a.jsonl").write_text(json.dumps(row) + "\n")
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "a.parquet")
    for name in ("a.jsonl", "a.parquet"):
        (found,) = read(tmp_path / name, "{i} {f} {t} {n}|")
        assert found.text == "1 1.0 true |"


def test_values_nested_too_deep_cost_their_row(tmp_path):
    deep = ["[" * 900 + "]" * 900, '{"a":' * 900 + "1" + "}" * 900]
    lines = [f'{{"x": {value}}}\n' for value in deep]
    (tmp_path / "a.jsonl").write_text("".join(lines) + '{"x": ["a"]}\n')
    found = read(tmp_path / "a.jsonl", "x")
    assert [isinstance(row, Document) for row in found] == [False, False, True]


def test_the_entries_of_a_map_are_fields(tmp_path):
    entries = pa.array([[("body", "a"), ("lang", "en")]], pa.map_(pa.string(), pa.string()))
    pq.write_table(pa.table({"x": entries}), tmp_path / "a.parquet")
    assert [row.text for row in read(tmp_path / "a.parquet", "x.body")] == ["a"]
    (row,) = read(tmp_path / "a.parquet", "x")
    assert "x.body" in str(row.reason)
