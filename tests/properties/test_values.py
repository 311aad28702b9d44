"""The same values mean the same however they are written, in every format: times, labels, groups.

The generator knows the time, the number or the name that a value stands for.
"""

import csv
import operator
import tempfile
from datetime import datetime, timedelta
from pathlib import Path

import orjson
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

import corpusfit
from corpusfit import text as corpus
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Document
from corpusfit.evaluation.plan import TaskPlan
from corpusfit.evaluation.reading import read_task
from corpusfit.selection.labels import NONE, labels_at
from corpusfit.text.in_memory import inputs
from dialects import spelled, whole_number

ORDERS = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
MOMENTS = st.integers(0, 6).map(lambda n: datetime(2024, 2, 28) + timedelta(hours=12 * n))


def written(folder, name, rows):
    """The rows as JSON lines, as CSV, and as Parquet where each column has one type."""
    paths = [Path(folder, f"{name}.jsonl"), Path(folder, f"{name}.csv")]
    paths[0].write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    with paths[1].open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    # Arrow refuses no booleans beside floats: they become 0.0 and 1.0
    if any({float, bool} <= {type(row[name]) for row in rows} for name in rows[0]):
        return paths
    try:
        table = pa.Table.from_pylist(rows)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return paths
    paths.append(Path(folder, f"{name}.parquet"))
    pq.write_table(table, paths[-1])
    return paths


def read(path, plan):
    sources = corpus.find([str(path)], plan, role="corpus")
    return [row for shard in corpus.shards(sources, plan) for row in corpus.rows(shard, plan)]


@given(st.data(), st.lists(MOMENTS, min_size=1, max_size=6), MOMENTS, st.sampled_from([*ORDERS]))
def test_times(data, moments, asked, order):
    rows = [{"text": f"text {n}", "t": data.draw(spelled(m))} for n, m in enumerate(moments)]
    where = f"t {order} {data.draw(spelled(asked))!r}"
    meant = [n for n, moment in enumerate(moments) if ORDERS[order](moment, asked)]
    with tempfile.TemporaryDirectory() as folder:
        paths = written(folder, "rows", rows)
        for name, zone in (("plain", None), ("zone", "Asia/Kolkata")):
            own = [{"text": row["text"], "t": m} for row, m in zip(rows, moments, strict=True)]
            paths.append(Path(folder, f"{name}.parquet"))
            schema = pa.schema([("text", pa.string()), ("t", pa.timestamp("us", zone))])
            pq.write_table(pa.Table.from_pylist(own, schema), paths[-1])
        frame = pd.DataFrame({"text": [row["text"] for row in rows], "t": pd.to_datetime(moments)})
        machine = corpusfit.Machine(cache=folder)
        for each in (frame, frame.set_index("t")):
            paths += inputs(each, "corpus", machine)
        for path in paths:
            kept = [
                row.row for row in read(path, ReadPlan(where=where)) if isinstance(row, Document)
            ]
            assert kept == meant, path


@given(st.data(), st.lists(st.integers(-1, 4), min_size=4, max_size=12))
def test_whole_numbers_are_the_same_labels(data, numbers):
    numbers = [0, 1, *numbers]
    spellings = [data.draw(whole_number(number)) for number in numbers]
    rows = [{"text": f"text {i}", "label": label} for i, label in enumerate(spellings)]
    with tempfile.TemporaryDirectory() as folder:
        for path in written(folder, "train", rows):
            task = Path(folder, path.suffix[1:])
            task.mkdir()
            for split in ("train", "dev", "test"):
                (task / f"{split}{path.suffix}").write_bytes(path.read_bytes())
            found = read_task(str(task), TaskPlan(), seed=0)
            assert found.kind == "classification"
            assert [found.labels[n] for n in found.train.flat] == list(map(str, numbers)), path


@given(st.data(), st.lists(st.integers(0, 3) | st.none(), min_size=1, max_size=8))
def test_groups(data, groups):
    names = ["Bio", "caf\u00e9", "7", "False"]
    forms = [["Bio", " Bio", "Bio\t"], ["caf\u00e9", "cafe\u0301 "], [7, 7.0, "7", "7.0"], [False]]
    nothing = [None, "", " "]
    values = [data.draw(st.sampled_from(nothing if g is None else forms[g])) for g in groups]
    rows = [{"text": f"text {n}", "g": value} for n, value in enumerate(values)]
    meant = [NONE if g is None else names[g] for g in groups]
    plan = ReadPlan(id_field="g")
    with tempfile.TemporaryDirectory() as folder:
        for path in written(folder, "rows", rows):
            (shard,) = corpus.shards(corpus.find([str(path)], plan, role="corpus"), plan)
            found = labels_at(shard, plan, pd.RangeIndex(len(rows)).to_numpy())
            assert found == meant, path


@given(st.permutations(["text", "id", "n", "day"]), st.integers(0, 4))
def test_an_index_of_a_frame(names, levels):
    rows = [
        {"text": f"text {n}", "id": f"x{n}", "n": n * n, "day": f"2024-01-0{n + 1}"}
        for n in range(4)
    ]
    frame = pd.DataFrame(rows)
    if levels:
        frame = frame.set_index(names[:levels])
    plan = ReadPlan(where="n > 0 and day <= '2024-01-03T00:00'")
    with tempfile.TemporaryDirectory() as folder:
        (path,) = inputs(frame, "corpus", corpusfit.Machine(cache=folder))
        kept = [row for row in read(path, plan) if isinstance(row, Document)]
        assert [(row.text, row.id) for row in kept] == [("text 1", "x1"), ("text 2", "x2")]
