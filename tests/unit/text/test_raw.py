"""Raw rows: what is written from them reads as the rows that they were."""

import gzip
import json

import pytest

from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Document, Reject
from corpusfit.text import find, load_format, raw_rows, rows, shards

CSV = '\ufeffid,text\r\n1,"a\nb ""c"", d"\r\n2,plain\r\n\r\n3\r\n4,"last"'
FILES = {
    "a.csv": CSV,
    "a.tsv": CSV.replace(",", "\t"),
    "a.jsonl": '\ufeff{"text": "a", "n": [1]}\n\n{"text": 3}\r\n{"x": 0, "text": "b", "id": "q"}',
    "p.tsv": "de\ten\tn\nein\tone\t1\n\tleer\t2\nzwei\ttwo\t3\r\n",
}


def inputs(write, name):
    path = write(name, FILES[name])
    return f"pair:{path}:de,en" if name == "p.tsv" else str(path)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("shard_mb", [4.0, 1e-5])
def test_a_file_made_of_the_raw_rows_reads_the_same(write, name, shard_mb):
    plan = ReadPlan(shard_mb=shard_mb)
    (source,) = find([inputs(write, name)], plan, role="data")
    cut = list(shards([source], plan))
    assert len(cut) > 1 or shard_mb == 4.0
    found = [(row, raw) for shard in cut for row, raw in raw_rows(shard, plan)]
    assert [row for row, _ in found] == [row for shard in cut for row in rows(shard, plan)]
    head = load_format(source.format).header(source, plan)
    lines = [raw for row, raw in found if isinstance(row, Document)]
    again = write(f"again/{name}", b"".join(x + b"\n" for x in ([head] if head else []) + lines))
    named = f"pair:{again}:de,en" if name == "p.tsv" else str(again)
    sources = find([named], plan, role="data")
    rows_again = [row for shard in shards(sources, plan) for row in rows(shard, plan)]
    assert not any(isinstance(row, Reject) for row in rows_again)

    def texts(found):
        return [(r.text, r.id, r.fields) for r in found if isinstance(r, Document)]

    assert texts(rows_again) == texts(row for row, _ in found)
    assert len(rows_again) >= 2


def test_all_fields_of_a_packed_line_are_there(write):
    records = [{"text": f"t{i}", "label": i, "more": {"x": [i]}} for i in range(200)]
    data = "".join(json.dumps(r) + "\n" for r in records).encode()
    plan = ReadPlan(shard_mb=0.001)
    sources = find([str(write("a.jsonl.gz", gzip.compress(data)))], plan, role="data")
    found = [json.loads(raw) for s in shards(sources, plan) for _, raw in raw_rows(s, plan)]
    assert found == records


def test_rows_over_the_limit_and_a_truncated_end_shift_nothing(write):
    lines = [json.dumps({"text": f"row {i}" + " long" * (600 * (i in (2, 5)))}) for i in range(300)]
    packed = gzip.compress("\n".join(lines).encode())
    plan = ReadPlan(max_row_mb=0.002)
    sources = find([str(write("a.jsonl.gz", packed[:-20]))], plan, role="data")
    found = [pair for s in shards(sources, plan) for pair in raw_rows(s, plan)]
    used = [(row, raw) for row, raw in found if isinstance(row, Document)]
    assert len(used) > 50
    assert all(json.loads(raw)["text"] == row.text for row, raw in used)
