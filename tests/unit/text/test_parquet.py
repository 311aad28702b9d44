"""Parquet: types of columns, limits, broken files."""

import gzip
import random
import tracemalloc
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpusfit import text as corpus
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Document, Reject
from corpusfit.text import find, shards
from corpusfit.text.fields import records
from corpusfit.text.formats import parquet
from corpusfit.text.rejects import stored


@pytest.fixture
def table(tmp_path):
    def table(name="a.parquet", row_group_size=None, **columns):
        path = tmp_path / name
        pq.write_table(pa.table(columns), path, row_group_size=row_group_size)
        return path

    return table


def test_rows(read, table):
    path = table(text=["one", None, " ", "a\0b", "zwölf"], id=[1, 2, 3, 4, None], other=[0.0] * 5)
    assert read(path) == [
        Document(0, 0, "one", 1),
        Reject(1, 0, stored("text is null")),
        Reject(2, 0, stored("text is empty")),
        Reject(3, 0, stored("text contains NUL")),
        Document(4, 0, "zwölf", None),
    ]


def test_of_columns_with_one_name_the_first_counts(read, tmp_path):
    columns = [["one", "two"], ["no", "no"], [1, 2], [{"x": "a"}, {"x": "b"}], [{"x": "no"}] * 2]
    table = pa.table(list(map(pa.array, columns)), names=["text", "text", "id", "of", "of"])
    pq.write_table(table, tmp_path / "a.parquet")
    with pa.ipc.new_file(tmp_path / "a.arrow", table.schema) as out:
        out.write_table(table)
    rows = [Document(0, 0, "one", 1), Document(1, 0, "two", 2)]
    assert read(tmp_path / "a.parquet") == read(tmp_path / "a.arrow") == rows
    assert list(records(table)) == [
        {"text": "one", "id": 1, "of": {"x": "a"}},
        {"text": "two", "id": 2, "of": {"x": "b"}},
    ]
    for name in ("a.parquet", "a.arrow"):
        found = read(tmp_path / name, text_field="{text} {of.x}", id_field="text")
        assert [(row.text, row.id) for row in found] == [("one a", "one"), ("two b", "two")]


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())],
)
def test_every_kind_of_string(read, table, kind):
    texts = pa.array(["a", "b", None, "a"]).cast(kind)
    rows = read(table(text=texts, id=pa.array(["x", "y", "z", None]).cast(kind)))
    assert rows[0] == Document(0, 0, "a", "x")
    assert rows[2] == Reject(2, 0, stored("text is null"))
    assert rows[3] == Document(3, 0, "a", None)


BOMB = "bomb limit: archive unpacks to more than 20 times its size"


@pytest.mark.parametrize("kind", [pa.string(), pa.dictionary(pa.int32(), pa.string())])
@pytest.mark.parametrize("field", ["text", "id"])
def test_a_row_group_that_unfolds_is_left_alone(tmp_path, monkeypatch, read, kind, field):
    """One value of a dictionary that every row repeats, in the second of two row groups."""
    monkeypatch.setattr(parquet, "FREE", 1 << 20)
    path = tmp_path / "a.parquet"
    values = {"text": ["one"] * 3000, "id": ["two"] * 3000}
    values[field] = ["one"] * 1000 + ["x" * 5000] * 2000
    columns = {name: pa.array(texts).cast(kind) for name, texts in values.items()}
    pq.write_table(pa.table(columns), path, row_group_size=1000)
    assert path.stat().st_size < 10_000
    rows = read(path, max_ratio=20)
    assert 1000 <= len(rows) < 1300
    assert rows[-1] == Reject(len(rows) - 1, 0, stored(BOMB))
    assert len(read(path, max_ratio=1e6)) == 3000


def test_pages_that_unpack_to_too_much_are_left_alone(tmp_path, monkeypatch, read):
    monkeypatch.setattr(parquet, "FREE", 1 << 20)
    path = tmp_path / "a.parquet"
    table = pa.table({"text": ["one", "x" * (2 << 20)]})
    pq.write_table(table, path, compression="zstd", use_dictionary=False)
    assert read(path, max_ratio=20) == [Reject(0, 0, stored(BOMB))]


def test_a_row_is_too_long_for_its_other_fields_too(read, table):
    path = table(text=["one", "two", "three"], id=["a", "b" * 20_000, "c"])
    assert read(path, max_row_mb=0.01) == [
        Document(0, 0, "one", "a"),
        Reject(1, 0, stored("row longer than 0.01 MiB")),
        Document(2, 0, "three", "c"),
    ]


def test_text_that_is_no_string(read, table):
    assert read(table(text=[1, 2], id=["a", "b"])) == [
        Reject(0, 0, stored("text is not a string: int")),
        Reject(1, 0, stored("text is not a string: int")),
    ]


def test_a_column_of_nulls(read, table):
    assert [str(r.reason) for r in read(table(text=pa.nulls(2)))] == ["text is null"] * 2


def test_no_text_column(read, table):
    rows = read(table(body=["x", "y"], n=[1, 2]))
    assert rows[1].row == 1
    assert str(rows[1].reason) == "missing field 'text': fields are body, n"


def test_invalid_utf8(read, table):
    raw = pa.array([b"ok", b"\xff"])
    text = pa.Array.from_buffers(pa.string(), 2, raw.buffers())
    assert [type(r).__name__ for r in read(table(text=text))] == ["Document", "Reject"]


def test_shards_do_not_follow_row_groups(read, table):
    texts = [f"text {i} " * 20 for i in range(1000)]
    path, other = table(text=texts, row_group_size=7), table("b.parquet", text=texts)
    rows = read(path, shard_mb=1e-3)
    assert rows == read(other, shard_mb=0.1)
    assert [r.text for r in rows] == texts


def test_a_long_row(read, table):
    rows = read(table(text=["a", "x" * 5000, "b"]), max_row_mb=1e-3)
    assert rows == [
        Document(0, 0, "a", None),
        Reject(1, 0, stored("row longer than 0.001 MiB")),
        Document(2, 0, "b", None),
    ]


def test_packed_and_empty(read, table, write):
    path = table(text=["a", "b"])
    packed = write("p.parquet.gz", gzip.compress(path.read_bytes()))
    assert read(packed) == read(path)
    assert read(write("e.parquet", b"")) == []
    assert read(table("n.parquet", text=pa.array([], pa.string()))) == []
    cut = write("t.parquet.gz", gzip.compress(path.read_bytes())[:-20])
    assert [str(r.reason) for r in read(cut)] == ["truncated .gz archive"]


def test_broken_files(read, table, write):
    path = table(text=[f"text {i}" * 50 for i in range(3000)], row_group_size=1000)
    data = path.read_bytes()
    (row,) = read(write("cut.parquet", data[: len(data) // 2]))
    assert str(row.reason).startswith("unreadable parquet: ")
    middle = len(data) // 2
    broken = data[:middle] + b"\xff" * 200 + data[middle + 200 :]
    rows = read(write("broken.parquet", broken))
    assert [r.row for r in rows] == list(range(len(rows)))
    assert str(rows[-1].reason).startswith("unreadable parquet: ")
    assert all(isinstance(r, Document) for r in rows[:-1])
    assert len(rows) > 1000


def test_a_schema_of_broken_bytes(read, table, write):
    data = table(text=["a"], label=["b"]).read_bytes()
    (row,) = read(write("broken.parquet", data.replace(b"label", b"\xffabel")))
    assert str(row.reason).startswith("unreadable parquet: ")


def test_position_is_the_share_of_the_rows(table):
    path = table(text=["x" * 1000] * 1000)
    size, plan = path.stat().st_size, ReadPlan(shard_mb=0.1)
    sources = find([str(path)], plan, role="corpus")
    positions = [s.position for s in shards(sources, plan)]
    assert positions == sorted(set(positions))
    assert positions[0] == size * 105 // 1000
    assert positions[-1] == size


def test_a_giant_row_group_is_not_read_whole(tmp_path):
    path = tmp_path / "a.parquet"
    draw = random.Random(0)
    texts = [draw.randbytes(1000).hex() for _ in range(20_000)]
    pq.write_table(pa.table({"text": texts}), path, compression="none")
    del texts
    plan = ReadPlan(shard_mb=1.0)
    sources = find([str(path)], plan, role="corpus")
    tracemalloc.start()
    try:
        assert sum(1 for _ in shards(sources, plan)) == 39
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16 << 20 < path.stat().st_size


def test_nested_fields_are_listed_by_the_names_that_read_them(read, tmp_path):
    path = tmp_path / "a.parquet"
    rows = [{"id": 1, "a": {"n": {"body": "x"}, "k": 1}, "text": {"body": "y"}}]
    pq.write_table(pa.Table.from_pylist(rows), path)
    (row,) = read(path, text_field="no")
    assert str(row.reason) == "missing field 'no': fields are id, a.n.body, a.k, text.body"
    (row,) = read(path)
    assert str(row.reason).endswith("object with the fields text.body")
    assert [read(path, text_field=f)[0].text for f in ("a.n.body", "text.body")] == ["x", "y"]


def test_ids_before_the_texts_do_not_make_shards_large(table):
    path, plan = table(id=["n"] * 2000, text=["x" * 1000] * 2000), ReadPlan(shard_mb=0.1)
    sources = find([str(path)], plan, role="corpus")
    assert len(list(shards(sources, plan))) == 20


@pytest.mark.parametrize("field", ["{a} {b}", "messages", "text"])
def test_each_shard_alone_has_the_rows_of_one_pass(tmp_path, field):
    """Also where the size of a text is not known, and borders follow from means of batches."""
    rows = [
        {
            "a": "word " * (i % 37),
            "b": f"row {i}",
            "text": f"row {i} " * (1 + i % 7),
            "messages": [{"role": "user", "content": f"row {i} " * (1 + i * i % 53)}],
        }
        for i in range(3000)
    ]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=1100)
    plan = ReadPlan(text_field=field, shard_mb=0.02)
    sources = corpus.find([str(path)], plan, role="corpus")
    shards = list(corpus.shards(sources, plan))
    assert len(shards) > 4
    backwards = [list(corpus.rows(shard, plan)) for shard in reversed(shards)]
    numbers = [row.row for shard in reversed(backwards) for row in shard]
    assert numbers == list(range(3000))
    one_pass = corpus.shards([replace(sources[0], blocks=None)], plan)
    assert [list(corpus.rows(shard, plan)) for shard in one_pass] == backwards[::-1]
