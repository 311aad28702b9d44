"""Archives: whole, truncated, corrupt, concatenated, bombs; rows over the limit."""

import bz2
import gzip
import itertools
import lzma
import random
import tracemalloc

import pytest
import zstandard

from corpusfit import text as corpus
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Document, Reject, Source
from corpusfit.text import find, shards
from corpusfit.text.files import Stream
from corpusfit.text.rejects import stored

PACK = {
    "gz": gzip.compress,
    "zst": zstandard.ZstdCompressor(write_checksum=True).compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
}
archives = pytest.mark.parametrize("suffix", PACK)


def lines(n, seed=0):
    draw = random.Random(seed)
    return b"".join(b'{"text": "%d %064x"}\n' % (i, draw.getrandbits(256)) for i in range(n))


@archives
def test_whole(read, write, suffix):
    data = lines(10_000)
    assert read(write(f"a.jsonl.{suffix}", PACK[suffix](data))) == read(write("a.jsonl", data))


@archives
def test_concatenated_members(read, write, suffix):
    data = lines(300)
    path = write(
        f"a.jsonl.{suffix}",
        b"".join(PACK[suffix](data[i : i + 999]) for i in range(0, len(data), 999)),
    )
    assert read(path) == read(write("a.jsonl", data))


@archives
@pytest.mark.parametrize("kept", [0.5, 0.999])
def test_truncated(read, write, suffix, kept):
    data = lines(10_000)
    packed = PACK[suffix](data)
    rows = read(write(f"a.jsonl.{suffix}", packed[: int(len(packed) * kept)]))
    whole = read(write("a.jsonl", data))
    assert rows[:-1] == whole[: len(rows) - 1]
    ends = whole[len(rows) - 1].byte if len(rows) <= len(whole) else len(data)
    assert rows[-1] == Reject(len(rows) - 1, ends, stored(f"truncated .{suffix} archive"))
    assert len(rows) > 2500 or suffix == "bz2"


@archives
def test_truncated_at_once(read, write, suffix):
    path = write(f"a.jsonl.{suffix}", PACK[suffix](lines(10))[:3])
    assert read(path) == [Reject(0, 0, stored(f"truncated .{suffix} archive"))]


@archives
def test_not_an_archive(read, write, suffix):
    (row,) = read(write(f"a.jsonl.{suffix}", b'{"text": "not packed at all"}\n' * 50))
    assert str(row.reason).startswith(f"corrupt .{suffix} archive: ")


@archives
def test_corrupt_inside(read, write, suffix):
    packed = bytearray(PACK[suffix](lines(20_000)))
    at = len(packed) * 3 // 4
    packed[at : at + 64] = b"\xaa" * 64
    rows = read(write(f"a.jsonl.{suffix}", bytes(packed)))
    assert str(rows[-1].reason).startswith(f"corrupt .{suffix} archive: ")
    assert sum(isinstance(r, Document) for r in rows) > len(rows) // 4


@archives
def test_rubbish_after_the_end(read, write, suffix):
    rows = read(write(f"a.jsonl.{suffix}", PACK[suffix](lines(3)) + b"rubbish rubbish"))
    assert [type(r).__name__ for r in rows] == ["Document"] * 3 + ["Reject"]


def test_zeros_fill_a_tape(read, write):
    for suffix, pack in PACK.items():
        padded = pack(lines(3)) + bytes(512)
        assert len(read(write(f"a.jsonl.{suffix}", padded))) == 3
        assert len(read(write(f"b.jsonl.{suffix}", padded + bytes(8) + padded))) == 6


@archives
def test_empty(read, write, suffix):
    assert read(write(f"a.jsonl.{suffix}", b"")) == []
    assert read(write(f"b.jsonl.{suffix}", PACK[suffix](b""))) == []


def test_skippable_frames(read, write):
    frame = b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd"
    path = write("a.jsonl.zst", frame + PACK["zst"](lines(3)) + frame)
    assert [type(r).__name__ for r in read(path)] == ["Document"] * 3


def test_a_window_of_two_gib(read, write):
    """The largest of the command `zstd --long=31`; no program reads a larger one."""
    block = lines(9)
    for descriptor, rows in ((21 << 3, 9), (21 << 3 | 1, 1)):  # RFC 8878, section 3.1.1.1.2
        header = b"\x28\xb5\x2f\xfd\0" + bytes([descriptor])
        raw = (len(block) << 3 | 1).to_bytes(3, "little") + block
        found = read(write("a.jsonl.zst", header + raw))
        assert len(found) == rows
    assert str(found[0].reason).startswith("corrupt .zst archive: ")


AFTER = b'x\n{"text": "after"}\n'


def squeezed(path, row, times):
    """Write a row many times over without ever holding it."""
    with path.open("wb") as out, zstandard.ZstdCompressor(level=1).stream_writer(out) as packed:
        for _ in range(times):
            packed.write(row)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "end"),
    [("a.jsonl.zst", AFTER), ("a.jsonl.zst", b""), ("a.txt.zst", AFTER), ("a.csv.zst", AFTER)],
)
def test_a_line_of_64_mb_is_never_held(tmp_path, read, name, end):
    path = tmp_path / name
    begin = b"" if name.startswith("a.jsonl") else b"text\n\n"
    with path.open("wb") as out:
        packer = zstandard.ZstdCompressor(level=1).compressobj()
        out.write(packer.compress(begin + b'"'))
        for _ in range(64):
            out.write(packer.compress(b"x" * (1 << 20)))
        out.write(packer.compress(b'"' * (name.startswith("a.csv")) + end) + packer.flush())
    plan = ReadPlan(max_ratio=1e9, max_row_mb=8)
    tracemalloc.start()
    try:
        sources = find([str(path)], plan, role="corpus")
        found = [row for shard in shards(sources, plan) for row in corpus.rows(shard, plan)]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "row longer than 8 MiB" in [str(r.reason.kind) for r in found if isinstance(r, Reject)]
    assert peak < 40 << 20
    if end and not name.startswith("a.txt"):
        last = read(path, max_ratio=1e9, max_row_mb=8)[-1]
        assert last.byte == len(begin) + (64 << 20) + (4 if name.startswith("a.csv") else 3)


@archives
def test_truncated_within_a_row_over_the_limit(read, write, suffix):
    """The long row is one reject, and what is missing after it another."""
    noise = random.Random(0).randbytes(200_000).hex().encode()
    packed = PACK[suffix](b'{"text": "a"}\n{"text": "' + noise + b'"}\n')
    rows = read(write(f"a.jsonl.{suffix}", packed[: len(packed) * 2 // 3]), max_row_mb=0.002)
    said = ["row longer than", f"truncated .{suffix} archive"][-1 if suffix == "bz2" else 0 :]
    assert [row.row for row in rows] == list(range(len(rows)))
    assert [str(row.reason.kind)[:15] for row in rows if isinstance(row, Reject)] == [
        words[:15] for words in said
    ]


def test_long_rows_in_the_middle(read, write):
    long = '{"text": "' + "x" * 3000 + '"}\n'
    path = write("a.jsonl", ('{"text": "a"}\n' + long) * 3 + '{"text": "b"}')
    rows = read(path, max_row_mb=0.002)
    assert [r.row for r in rows] == list(range(7))
    assert [r.byte for r in rows] == [i * (14 + len(long)) + j for i in range(4) for j in (0, 14)][
        :7
    ]
    assert {str(r.reason) for r in rows[1::2]} == {"row longer than 0.002 MiB"}


def test_members_that_hold_nothing_take_no_memory(tmp_path, monkeypatch):
    """An archive may have millions of them."""
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b""))
    monkeypatch.setattr(Stream, "_unpacked", lambda *_: itertools.repeat(b"", 1_000_000))
    tracemalloc.start()
    try:
        assert list(Stream(Source("a", str(path), "txt", "gz", 1, ""), ReadPlan())) == []
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_bomb_is_left_alone(tmp_path, read):
    path = tmp_path / "a.jsonl.zst"
    squeezed(path, b'{"text": "' + b"x" * 65_516 + b'"}\n', 1600)
    rows = read(path, max_ratio=1000)
    assert str(rows[-1].reason) == "bomb limit: archive unpacks to more than 1000 times its size"
    assert 100 < len(rows) < 1600
    assert all(isinstance(r, Document) for r in rows[:-1])
    assert len(read(path, max_ratio=1e6)) == 1600


def test_position_reaches_the_size(write):
    path = write("a.jsonl.zst", PACK["zst"](lines(20_000)))
    plan = ReadPlan(shard_mb=0.1)
    positions = [s.position for s in shards(find([str(path)], plan, role="corpus"), plan)]
    assert positions == sorted(positions)
    assert positions[-1] == path.stat().st_size
