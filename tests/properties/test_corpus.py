"""Reading, whatever the bytes: nothing lost, and shards that follow from the content alone."""

import csv
import gzip
import io
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusfit.core.plan import TXT, ReadPlan
from corpusfit.core.types import Document, Reject
from corpusfit.text import cutting, documents, find, normalize, packed, rows, shards
from corpusfit.text.formats.csv import Dialect, Records
from corpusfit.text.formats.txt import _BlankLines
from corpusfit.text.shards import fingerprint

GOOD = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(str.strip)
SIZES = st.sampled_from([1e-6, 1e-5, 1e-4, 1e-3, 1.0])
BLANKS = [b" ", b"\t", b"\xc2\xa0", b"\xe3\x80\x80"]
WORDS = [b"\n", b"\n\n", b"\r\n", *BLANKS, b'"', b",", b"a", b"\xff", b"\0"]
RECORDS = [b'{"text": "b"}\n', b'"c\nd"']
MARKED = st.lists(
    st.sampled_from(
        [*WORDS, *RECORDS, b"\xef\xbb\xbf", b"\r", b"\x0b", b"\xe3\x80\x80", b"word " * 5]
    ),
    max_size=30,
).map(b"".join)
PIECES = st.lists(st.sampled_from(WORDS + RECORDS), max_size=60).map(b"".join)


def read(data: bytes, suffix: str, **values):
    plan = ReadPlan(**values)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"a.{suffix}")
        path.write_bytes(data)
        sources = find([str(path)], plan, role="corpus")
        found = list(shards(sources, plan))
        assert [s.index for s in found] == list(range(len(found)))
        return [row for shard in found for row in rows(shard, plan)]


@pytest.mark.parametrize(
    ("suffix", "txt"),
    [("jsonl", "lines"), *(("txt", txt) for txt in TXT), ("csv", "lines"), ("tsv", "lines")],
)
@given(data=PIECES, shard_mb=SIZES, max_row_mb=st.sampled_from([1e-5, 1.0]))
def test_any_bytes_in_any_shards(suffix, txt, data, shard_mb, max_row_mb):
    whole = read(data, suffix, txt=txt, max_row_mb=max_row_mb)
    assert read(data, suffix, txt=txt, max_row_mb=max_row_mb, shard_mb=shard_mb) == whole
    numbers = [row.row for row in whole]
    assert numbers == sorted(set(numbers))
    if suffix == "jsonl" or (suffix, txt) == ("txt", "lines"):
        lines = data.split(b"\n")
        assert len(whole) == len(lines) - (not lines[-1])
        starts = [sum(len(line) + 1 for line in lines[:i]) for i in range(len(whole))]
        assert [row.byte for row in whole] == starts


@pytest.mark.parametrize(("suffix", "txt"), [("jsonl", "lines"), *(("txt", txt) for txt in TXT)])
@given(files=st.lists(MARKED, min_size=1, max_size=4))
def test_columns_are_the_rows_also_of_files_in_one_shard(suffix, txt, files):
    plan = ReadPlan(txt=txt)
    with tempfile.TemporaryDirectory() as folder:
        for i, data in enumerate(files):
            Path(folder, f"{i}.{suffix}").write_bytes(data)
        sources = find([folder], plan, role="corpus")
        for shard in [*shards(sources, plan), *packed(sources, plan)]:
            one_by_one = list(rows(shard, plan))
            columns, rejected = documents(shard, plan)
            found = zip(columns.row.tolist(), columns.texts.to_pylist(), strict=True)
            assert list(found) == [(r.row, r.text) for r in one_by_one if isinstance(r, Document)]
            assert rejected == [row for row in one_by_one if isinstance(row, Reject)]


@given(texts=st.lists(GOOD), shard_mb=SIZES)
def test_csv_round_trip(texts, shard_mb):
    out = io.StringIO()
    csv.writer(out).writerows([["text"], *([text] for text in texts)])
    found = read(out.getvalue().encode(), "csv", shard_mb=shard_mb)
    assert [row.text for row in found] == texts


@given(texts=st.lists(st.one_of(GOOD, st.none(), st.just(" "))), shard_mb=SIZES)
@settings(max_examples=40)
def test_parquet_round_trip(texts, shard_mb):
    sink = io.BytesIO()
    pq.write_table(pa.table({"text": pa.array(texts, pa.string())}), sink, row_group_size=3)
    found = read(sink.getvalue(), "parquet", shard_mb=shard_mb)
    assert [row.row for row in found] == list(range(len(texts)))
    assert [row.text if isinstance(row, Document) else None for row in found] == [
        text if text and text.strip() else None for text in texts
    ]


@given(texts=st.lists(GOOD), shard_mb=SIZES)
def test_bytes_point_at_rows(texts, shard_mb):
    data = "\n\n".join(texts).encode()
    for row in read(data, "txt", shard_mb=shard_mb):
        assert isinstance(row, Document)
        assert data[row.byte :].startswith(row.text.encode())
        assert data.count(b"\n", 0, row.byte) == row.row


@given(
    texts=st.lists(st.sampled_from(["a", "あ\nb", "\u3000c", "d\u00a0e\n\u00a0f"]), max_size=5),
    blank=st.lists(st.sampled_from(BLANKS), max_size=3).map(b"".join),
    shard_mb=SIZES,
)
def test_a_line_of_white_space_is_blank(texts, blank, shard_mb):
    """No-break and ideographic spaces, too, which `str.isspace` counts and `bytes` does not."""
    data = (b"\n" + blank + b"\n").join(text.encode() for text in texts)
    assert [row.text for row in read(data, "txt", shard_mb=shard_mb)] == texts


class Chunked:
    """Bytes in chunks of any size."""

    position = 0
    problem = ""

    def __init__(self, data: bytes, size: int) -> None:
        self.data, self.size = data, size

    def __iter__(self):
        return (self.data[i : i + self.size] for i in range(0, len(self.data), self.size))


@given(
    data=PIECES,
    size=st.integers(1, 40),
    scanner=st.sampled_from([cutting.Lines, _BlankLines, lambda: Records(Dialect(",", '"'))]),
    limit=st.integers(1, 60),
    longest=st.integers(1, 60),
    problem=st.sampled_from(["", "truncated"]),
)
def test_blocks_do_not_follow_chunks(data, size, scanner, limit, longest, problem):
    plan = ReadPlan(shard_mb=limit / cutting.MIB, max_row_mb=longest / cutting.MIB)

    def blocks(size):
        chunks = Chunked(data, size)
        chunks.problem = problem
        return list(cutting.cut(chunks, scanner(), plan))

    found = blocks(size)
    assert found == blocks(len(data) + 1)
    for block in found:
        assert data[block.first_byte :].startswith(block.data)
        assert all(isinstance(r, Reject) for r in block.rejects)


MARKS = st.sampled_from(
    [
        "",
        " , ",
        " . ",
        "``",
        "''",
        "`",
        "'",
        " n't",
        " 's",
        "-LRB-",
        "-RRB-",
        "<< ",
        " >>",
        "[[ ",
        " ]]",
        "<br />",
        "&amp;",
        "amp;",
        "lt;",
        "&lt;",
        "b",
        ">",
        " #39;",
        "#39;s",
        " quot;",
        "\n",
        "  ",
        "a",
        "(",
        " )",
        "...",
        " %",
        "5",
        "\x92",
        "\xa0",
        ":",
        ";",
        "it 's",
    ]
)


@given(st.lists(st.one_of(MARKS, st.text(max_size=5)), max_size=25).map("".join))
def test_normalize_twice_is_once(text):
    once = normalize(text)
    assert normalize(once) == once


def cut_up(data: bytes, name: str, plan: ReadPlan):
    """The shards of a file as a worker gets them, their rows in hand."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(gzip.compress(data, mtime=0) if name.endswith("gz") else data)
        sources = find([str(path)], plan, role="corpus")
        found = list(shards(sources, plan))
        read = [(s.index, s.first_row, s.first_byte, list(rows(s, plan))) for s in found]
        for shard, (_, _, _, parsed) in zip(found, read, strict=True):
            columns, rejected = documents(shard, plan)
            assert columns.row.tolist() == [r.row for r in parsed if isinstance(r, Document)]
            assert rejected == [r for r in parsed if isinstance(r, Reject)]
        return read


@given(
    data=PIECES, shard_mb=SIZES, max_row_mb=st.sampled_from([1e-5, 1.0]), piece=st.integers(1, 50)
)
def test_byte_ranges_are_the_shards_of_one_reader(data, shard_mb, max_row_mb, piece):
    plan = ReadPlan(shard_mb=shard_mb, max_row_mb=max_row_mb)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules[cutting.__package__ + ".shards"], "CHUNK_BYTES", piece)
        found = cut_up(data, "a.jsonl", plan)
    assert found == cut_up(data, "a.jsonl.gz", plan)


@given(data=PIECES, piece=st.integers(1, 50))
def test_fingerprints_tell_content_apart(data, piece):
    with tempfile.TemporaryDirectory() as folder:
        path, other = Path(folder, "a"), Path(folder, "b")
        path.write_bytes(data)
        other.write_bytes(data + b"\n")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys.modules[cutting.__package__ + ".shards"], "CHUNK_BYTES", piece)
            assert fingerprint(str(path)) != fingerprint(str(other))
            other.write_bytes(data)
            assert fingerprint(str(path)) == fingerprint(str(other))
