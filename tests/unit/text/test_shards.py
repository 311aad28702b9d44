"""Small files in common shards: the rows are those of the files read one by one (`shards`)."""

import gzip

import numpy as np
import pytest

from corpusfit.core.plan import TXT, ReadPlan
from corpusfit.core.types import file_of, in_file
from corpusfit.text import documents, find, layout, packed, rows, shards

BOM = b"\xef\xbb\xbf"
FILES = {
    "a/1.jsonl": b'{"text": "one"}\n{"text": "two"}',
    "a/2.jsonl": BOM + b'{"text": "three"}\n\n{"text": 4}\n',
    "a/3.jsonl": b"",
    "a/4.jsonl": b'not json\n{"text": "f\\u00fcnf"}\r\n{"text": "six"}\n',
    "a/5.jsonl": BOM + b"\n",
    "a/6.jsonl": b'{"text": "\xff"}\n{"text": "seven"}\n',
    "a/7.jsonl.gz": gzip.compress(b'{"text": "eight"}\n' * 3),
    "a/8.jsonl.gz": gzip.compress(b'{"text": "cut"}\n' * 500)[:-9],
    "b/1.txt": BOM + b"eine Zeile\n\nnoch eine\r\nund ihre zweite\n",
    "b/2.txt": b" \n\n",
    "b/3.txt": b"a\0b\n\nc",
    "c/1.csv": b'id,text\n1,"neun\nzehn"\n2,elf\n3,\n',
    "c/2.csv": b"text\nzwei\n",
}


@pytest.fixture
def sources(tmp_path, write):
    for name, content in FILES.items():
        write(f"in/{name}", content)

    def found(**settings):
        plan = ReadPlan(**settings)
        return find([str(tmp_path / "in")], plan, role="corpus"), plan

    return found


def _placed(shard, row, *more):
    return (shard.source + file_of(row), in_file(row), *more)


def _plain(row):
    return row.byte, getattr(row, "text", None), getattr(row, "reason", None)


@pytest.mark.parametrize("mib", [4, 0.0002, 0.00005, 0.00001])
@pytest.mark.parametrize("txt", TXT)
def test_rows_and_columns_are_those_of_each_file(sources, mib, txt):
    found, plan = sources(shard_mb=mib, txt=txt)
    alone = [
        (shard.source, row.row, *_plain(row))
        for shard in shards(found, plan)
        for row in rows(shard, plan)
    ]
    together, texts, rejected = [], [], []
    for index, shard in enumerate(packed(found, plan)):
        assert shard.index == index
        together += [_placed(shard, row.row, *_plain(row)) for row in rows(shard, plan)]
        columns, unusable = documents(shard, plan)
        numbered = zip(columns.row.tolist(), columns.texts.to_pylist(), strict=True)
        texts += [_placed(shard, row, text) for row, text in numbered]
        rejected += [_placed(shard, r.row, r.byte, None, r.reason) for r in unusable]
    assert together == alone
    assert texts == [(s, row, text) for s, row, _, text, _ in alone if text is not None]
    assert rejected == [row for row in alone if row[3] is None]


def test_picked_rows_are_known_by_their_numbers_in_the_shard(sources):
    found, plan = sources()
    for shard in packed(found, plan):
        every, _ = documents(shard, plan)
        wanted = every.row[::2]
        some, _ = documents(shard, plan, lambda seen, _, w=wanted: np.isin(seen, w))
        assert some.row.tolist() == wanted.tolist()
        assert some.texts.to_pylist() == every.texts.to_pylist()[::2]


def test_a_shard_holds_the_files_of_one_format_that_fit(sources):
    found, plan = sources()
    assert [shard.format for shard in packed(found, plan)] == ["jsonl", "txt", "csv"]
    limit = 0.00005 * 2**20
    for shard in packed(*sources(shard_mb=0.00005)):
        assert shard.parts is None or sum(shard.parts.sizes) <= limit


def test_larger_files_keep_their_shards(tmp_path, write):
    for name in ("a.jsonl", "b.jsonl"):
        write(f"in/{name}", b'{"text": "word"}\n' * 100)
    plan = ReadPlan(shard_mb=0.001)
    found = find([str(tmp_path / "in")], plan, role="corpus")
    assert list(packed(found, plan)) == list(shards(found, plan))
    assert layout(found, plan) == {}
    assert layout(found, ReadPlan()) != {}


def test_a_row_larger_than_a_shard_is_not_lost(tmp_path, write):
    long = b'{"text": "' + b"word " * 500 + b'"}\n'
    write("in/a.jsonl", b'{"text": "first"}\n')
    write("in/b.jsonl", long)
    write("in/c.jsonl", b'{"text": "last"}\n')
    plan = ReadPlan(shard_mb=0.001)
    found = find([str(tmp_path / "in")], plan, role="corpus")
    sizes = [len(row.text) for shard in packed(found, plan) for row in rows(shard, plan)]
    assert sizes == [5, 2500, 4]
