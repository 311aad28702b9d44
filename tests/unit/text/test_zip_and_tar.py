"""Files of zip and tar archives are sources, as if the archive were a folder."""

import errno
import gzip
import io
import json
import os
import random
import struct
import subprocess
import tarfile
import zipfile

import pytest

from corpusfit import text as corpus
from corpusfit.core.errors import CorpusfitError, EmptyInputError, InputError
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Reject
from corpusfit.text import archives, current_sources, documents, find, packed, rows, shards
from corpusfit.text.files import CHUNK, FREE, Stream, open_stored, read_bytes
from corpusfit.text.rejects import is_bomb
from corpusfit.text.sources import changed

STORED, DEFLATED, BZIPPED, LZMA = 0, 8, 12, 14


def lines(n, name="row"):
    draw = random.Random(name)
    texts = (f"{i} {name} {draw.getrandbits(99):x}" for i in range(n))
    return "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()


FILES = {
    "a.jsonl": lines(3_000),
    "in/b.csv": b"id,text\n" + b"".join(b"%d,line %d\n" % (i, i) for i in range(500)),
    "in/c.txt": b"\n\n".join(b"block %d" % i for i in range(50)),
    "in/d.jsonl.gz": gzip.compress(lines(2_000, "packed")),
}


def zipped(files, method=DEFLATED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in files if isinstance(files, list) else files.items():
            archive.writestr(name, data)
    return out.getvalue()


def tarred(files, mode="w"):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode, format=tarfile.GNU_FORMAT) as archive:
        for name, data in files if isinstance(files, list) else files.items():
            info = tarfile.TarInfo(name) if isinstance(name, str) else name
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def listed(*inputs, role="corpus"):
    """The names of the sources, relative to an archive, and the notes."""
    notes = []
    sources = find([str(i) for i in inputs], ReadPlan(), role=role, note=notes.append)
    return [s.name.partition("/")[2] for s in sources], notes


@pytest.fixture
def folder(write):
    for name, data in FILES.items():
        write(f"folder/{name}", data)
    return write("folder/in/c.txt", FILES["in/c.txt"]).parents[1]


ARCHIVES = {
    "stored.zip": zipped(FILES, STORED),
    "deflated.zip": zipped(FILES),
    "bzipped.ZIP": zipped(FILES, BZIPPED),
    "a.tar": tarred(FILES),
}


@pytest.mark.parametrize("shard_mb", [4.0, 0.01])
@pytest.mark.parametrize("name", ARCHIVES)
def test_an_archive_reads_as_the_folder_that_it_holds(write, read, folder, name, shard_mb):
    path = write(name, ARCHIVES[name])
    assert listed(path) == ([*FILES], [])
    rows_of = read(path, shard_mb=shard_mb)
    assert rows_of == read(folder, shard_mb=shard_mb)
    assert len(rows_of) == 5_550
    assert read(f"{path}/in", shard_mb=shard_mb) == read(folder / "in", shard_mb=shard_mb)
    assert len(read(f"{path}/in/d.jsonl.gz", shard_mb=shard_mb)) == 2_000


@pytest.mark.parametrize("name", ARCHIVES)
def test_shards_are_read_in_any_order(write, name):
    plan = ReadPlan(shard_mb=0.01)
    sources = find([str(write(name, ARCHIVES[name]))], plan, role="corpus")
    cut = list(shards(sources, plan))
    in_order = [list(rows(shard, plan)) for shard in cut]
    assert len(cut) > 20
    for number in (*range(len(cut))[::-3], 0, 5, 5):
        assert list(rows(cut[number], plan)) == in_order[number]


def test_small_files_share_a_shard(write):
    files = {f"{i:04d}.txt": b"text %d\n" % i for i in range(600)}
    for path in (write("a.tar", tarred(files)), write("a.zip", zipped(files))):
        plan = ReadPlan()
        sources = find([str(path)], plan, role="corpus")
        (shard,) = packed(sources, plan)
        texts, rejected = documents(shard, plan)
        assert texts.texts.to_pylist() == [f"text {i}" for i in range(600)]
        assert not rejected


def test_archives_lie_in_a_folder_with_other_files(write, tmp_path):
    write("pile/a.jsonl", lines(2))
    write("pile/x/b.zip", zipped({"c.jsonl": lines(3)}))
    (tmp_path / "pile/again.zip").symlink_to(tmp_path / "pile/x/b.zip")
    sources = find([str(tmp_path / "pile")], ReadPlan(), role="corpus")
    assert [source.name for source in sources] == ["a.jsonl", "x/b.zip/c.jsonl"]
    write("dir.zip/e.jsonl", lines(1))
    assert len(find([str(tmp_path / "dir.zip")], ReadPlan(), role="corpus")) == 1
    # two slashes are in no path, so a folder cannot name a part of another file
    write("pile/a.jsonl 0+9/f.jsonl", lines(1))
    assert len(find([str(tmp_path / "pile")], ReadPlan(), role="corpus")) == 3


def test_a_store(write, tmp_path):
    fsspec = pytest.importorskip("fsspec")
    fsspec.filesystem("memory").pipe("/box/a.zip", ARCHIVES["deflated.zip"])
    fsspec.filesystem("memory").pipe("/box/b.tar", ARCHIVES["a.tar"])
    plan = ReadPlan()
    sources = find(["memory://box"], plan, role="corpus")
    assert len(sources) == 8
    assert sum(len(list(rows(shard, plan))) for shard in shards(sources, plan)) == 11_100


@pytest.mark.parametrize("make", [zipped, tarred])
def test_names_stay_in_the_archive(write, read, make):
    names = ["/etc/a.txt", "../../b.txt", "c/../../d.txt", "./e.txt", "f//g//h.txt", "i//0+9/j.txt"]
    files = {name: name.encode() for name in [*names, "k\nl?m=1#n.txt", "\u4e2d\u6587.txt", ".."]}
    path = write("a.archive", make(files)).rename(write("a.x", "").with_suffix(_suffix(make)))
    inside = ["b.txt", "d.txt", "e.txt", "etc/a.txt", "f/g/h.txt", "i/0+9/j.txt"]
    assert listed(path)[0] == [*inside, "k\nl?m=1#n.txt", "\u4e2d\u6587.txt"]
    assert {row.text for row in read(path)} == {*files} - {".."}


def _suffix(make):
    return ".zip" if make is zipped else ".tar"


def test_names_of_windows_and_in_other_encodings(write):
    assert listed(write("a.zip", zipped({"x\\y.txt": b"a"})))[0] == ["x/y.txt"]
    names = ("caf\udce9.txt", "caf\udce8.txt")
    assert len(listed(write("a.tar", tarred(dict.fromkeys(names, b"a"))))[0]) == 2


@pytest.mark.parametrize("make", [zipped, tarred])
def test_what_is_no_data_is_left_out(write, make):
    names = ("__MACOSX/._a.txt", ".DS_Store", "_log.txt", "README.md", "logo.png", "a.txt")
    path = write(f"a{_suffix(make)}", make(dict.fromkeys(names, b"a")))
    found, (note,) = listed(path)
    assert found == ["a.txt"]
    assert all(name in note for name in ("__MACOSX", "_log.txt", "logo.png"))
    assert listed(f"{path}/_log.txt")[0] == ["_log.txt"]
    run = {"o/.corpusfit/run.json": b"{}", "o/selected/a.jsonl": b"{}", "a.txt": b"a"}
    assert listed(write(f"b{_suffix(make)}", make(run)))[0] == ["a.txt"]
    with pytest.raises(InputError, match="Delta"):
        listed(write(f"c{_suffix(make)}", make({"_delta_log/0.json": b"", "a.parquet": b""})))


@pytest.mark.parametrize("make", [zipped, tarred])
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_of_a_repeated_name_the_last_is_read(write, read, make):
    path = write(f"a{_suffix(make)}", make([("a.jsonl", lines(3)), ("a.jsonl", lines(5))]))
    found, notes = listed(path)
    assert found == ["a.jsonl"]
    assert len(notes) == 1
    assert len(read(path)) == 5


def test_links_and_devices_are_named_and_not_followed(write, tmp_path):
    kinds = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE)
    odd = []
    for number, kind in enumerate(kinds):
        odd.append(tarfile.TarInfo(f"odd{number}.txt"))
        odd[-1].type = kind
        odd[-1].linkname = "/etc/passwd"
    link = zipfile.ZipInfo("odd0.txt")
    link.create_system = 3
    link.external_attr = 0o120777 << 16
    files = [("a.txt", b"a")]
    for path in (
        write("a.tar", tarred([*((info, b"") for info in odd), *files])),
        write("a.zip", zipped([(link, b"/etc/passwd"), *files])),
    ):
        found, (note,) = listed(path)
        assert found == ["a.txt"]
        assert "odd0.txt" in note


def with_bytes(data, at, new):
    return data[:at] + new + data[at + len(new) :]


def encrypted(data):
    """The first file of a zip is marked as encrypted."""
    at = data.index(b"PK\1\2") + 8
    return with_bytes(data, at, b"\1\0")


def test_files_that_are_not_read_are_named_with_the_command_that_unpacks_them(write, read):
    two = {"a.txt": b"a", "b.txt": b"b"}
    found, (note,) = listed(write("a.zip", encrypted(zipped(two))))
    assert found == ["b.txt"]
    assert "a.txt" in note
    assert "7z x" in note
    with pytest.raises(EmptyInputError, match="7z x"):
        listed(write("b.zip", zipped(two, LZMA)))
    within = {"in.zip": zipped(two), "in.tar.gz": b"", "in.tgz": b"", "c.txt": b"c"}
    path = write("my files.zip", zipped(within))
    found, (note,) = listed(path)
    assert found == ["c.txt"]
    subprocess.run(note[note.index("python -m") :], shell=True, check=True)
    assert len(read(path.with_suffix(""))) == 3


@pytest.mark.parametrize("suffix", ["tar.gz", "tgz", "tar.bz2", "txz", "tar"])
def test_the_command_for_a_compressed_tar_makes_it_readable(write, read, suffix):
    mode = {"z": "bz2"}.get(suffix, "xz" if "xz" in suffix else "bz2" if "bz2" in suffix else "gz")
    path = write(f"my files/a.{suffix}", tarred(FILES, f"w:{mode}"))
    with pytest.raises(CorpusfitError, match="mkdir -p") as error:
        listed(path)
    message = str(error.value)
    subprocess.run(message[message.index("mkdir -p") :], shell=True, check=True)
    assert len(read(path.parent / "a")) == 5_550


def test_advice_on_a_file_in_an_archive_unpacks_it_first(write, read):
    rows_of = [{"text": "a"}, {"text": "b"}]
    files = {"x/list.json": json.dumps(rows_of, indent=1).encode(), "a.jsonl": lines(4)}
    path = write("my files.zip", zipped(files))
    found, (note,) = listed(path)
    assert found == ["a.jsonl"]
    subprocess.run(note[note.index("python -m") :], shell=True, check=True)
    assert len(read(path.with_suffix(""))) == 6


WHOLE = {f"{i}.jsonl": lines(500, str(i)) for i in range(5)}


@pytest.mark.parametrize("kept", [0.0, 0.5, 0.85])
def test_a_truncated_archive_is_told(write, kept):
    data = zipped(WHOLE)
    with pytest.raises(EmptyInputError, match=r"Fetch it again"):
        listed(write("a.zip", data[: int(len(data) * kept)]))
    data = tarred(WHOLE)
    path = write("pile/a.tar", data[: int(len(data) * kept)])
    write("pile/b.txt", "b")
    found, (note,) = listed(path.parent)
    assert "a.tar" in note
    assert "Fetch it again" in note
    assert len(found) == 1 + int(5 * kept)


def test_a_tar_that_ends_between_files_or_within_a_header(write):
    data = tarred(WHOLE)
    at = tarfile.open(fileobj=io.BytesIO(data)).getmembers()[3].offset  # noqa: SIM115
    for part in (data[:at], data[: at + 99], with_bytes(data, at, b"\xff" * 512)):
        found, notes = listed(write("a.tar", part))
        assert len(found) == 3
        assert len(notes) == 1


@pytest.mark.parametrize("make", [zipped, tarred])
def test_what_is_no_archive_or_has_no_file(write, make):
    for data in (b"", b"neither" * 200, make({}), zipped({"folder/": b""})):
        with pytest.raises(EmptyInputError, match="Fetch it again"):
            listed(write(f"a{_suffix(make)}", data))


def test_a_size_below_zero(write):
    header = bytearray(tarfile.TarInfo("n.txt").tobuf(tarfile.GNU_FORMAT))
    header[124:136] = b"\xff" * 11 + b"\0"
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    with pytest.raises(EmptyInputError, match="less than 0"):
        listed(write("a.tar", bytes(header) + bytes(1024)))


def test_a_damaged_file_is_a_reject_and_a_lost_one_is_named(write, read):
    data = zipped(WHOLE)
    info = zipfile.ZipFile(io.BytesIO(data)).infolist()[2]
    damaged = with_bytes(data, info.header_offset + 80, random.Random(1).randbytes(400))
    found = read(write("a.zip", damaged))
    assert sum(isinstance(row, Reject) for row in found) >= 1
    assert sum(not isinstance(row, Reject) for row in found) >= 2_000
    found, notes = listed(write("b.zip", with_bytes(data, info.header_offset, b"XX")))
    assert len(found) == 4
    assert len(notes) == 1


def test_a_name_that_is_not_in_its_own_encoding(write):
    """https://github.com/python/cpython/issues/153426"""
    data = zipped({"\u00e4.txt": b"a"}).replace("\u00e4".encode(), b"\xff\xff")
    with pytest.raises(EmptyInputError, match="Fetch it again"):
        listed(write("a.zip", data))


def test_bombs_are_bounded(write, read):
    path = write("a.zip", zipped({"a.txt.gz": gzip.compress(bytes(64 << 20))}))
    (source,) = find([str(path)], ReadPlan(), role="corpus")
    stream = Stream(source, ReadPlan())
    assert sum(map(len, stream)) < FREE + CHUNK
    assert is_bomb(stream.problem)
    assert isinstance(read(path)[-1], Reject)
    # files that share their bytes
    data = zipped({"0.jsonl": lines(9)})
    begin, end = data.index(b"PK\1\2"), data.index(b"PK\5\6")
    entries = [data[begin:end].replace(b"0.jsonl", b"%d.jsonl" % i) for i in range(10)]
    tail = bytearray(data[end:])
    struct.pack_into("<HHL", tail, 8, 10, 10, sum(map(len, entries)))
    found, (note,) = listed(write("b.zip", data[:begin] + b"".join(entries) + bytes(tail)))
    assert len(found) == 1
    assert "9 of" in note


def test_a_web_dataset(write):
    samples = [(f"{i:06d}.{k}", v) for i in range(30) for k, v in WEB.items()]
    found, (note,) = listed(write("a.tar", tarred(samples)))
    assert found == [f"{i:06d}.txt" for i in range(30)]
    assert "60 files" in note
    data = tarred(samples)
    unclosed = data[: data.rindex(b"\xff\xd8") + 512]
    assert len(listed(write("b.tar", unclosed))[0]) == 30


WEB = {"txt": b"a caption", "json": b'{"text": "a", "width": 1}', "jpg": b"\xff\xd8"}


@pytest.mark.parametrize("role", ["target", "task", "guard"])
def test_other_inputs_than_a_corpus_are_unpacked_first(write, role):
    """They may have splits, of which not all may be read."""
    path = write("a.zip", zipped({"train.jsonl": lines(3), "test.jsonl": lines(3)}))
    with pytest.raises(EmptyInputError, match="python -m zipfile -e"):
        listed(path, role=role)
    write("pile/a.txt", "a")
    path.rename(path.parent / "pile/a.zip")
    found, (note,) = listed(path.parent / "pile", role=role)
    assert len(found) == 1
    assert "a.zip" in note


def test_a_failing_disk_is_no_damaged_archive(write, monkeypatch):
    def fail(*_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(archives, "_of_tar", fail)
    with pytest.raises(InputError, match="Input/output error"):
        listed(write("a.tar", ARCHIVES["a.tar"]))


@pytest.mark.parametrize("name", ["a.tar", "deflated.zip"])
def test_a_change_is_found(write, name):
    plan = ReadPlan()
    path = write(name, ARCHIVES[name])
    before = find([str(path)], plan, role="corpus")
    assert changed(before) is None
    os.utime(path, (1, 1))
    assert changed(before) is None
    at = before[0].url.split("//")[1].partition("+")[0]
    write(name, with_bytes(ARCHIVES[name], int(at) + 20, b"Q"))
    os.utime(path, (2, 2))
    assert changed(before).name == f"{name}/a.jsonl"
    assert current_sources(before, plan)[1] == [f"{name}/a.jsonl"]
    write(name, ARCHIVES[name][:100])
    with pytest.raises(InputError, match="shorter"):
        current_sources(before, plan)


def test_fingerprints_do_not_depend_on_the_place(write):
    alone = find([str(write("x/a.tar", ARCHIVES["a.tar"]))], ReadPlan(), role="corpus")
    other = find([str(write("b.tar", tarred({"0": b"", **FILES})))], ReadPlan(), role="corpus")
    assert [s.fingerprint for s in alone] == [s.fingerprint for s in other]


def test_a_file_of_an_archive_is_a_file(write):
    (source,) = find([f"{write('a.tar', ARCHIVES['a.tar'])}/in/c.txt"], ReadPlan(), role="corpus")
    data = FILES["in/c.txt"]
    assert read_bytes(source.url, 3, 9) == data[3:9]
    with open_stored(source.url) as file:
        assert file.read(4) == data[:4]
        assert file.seek(-5, 2) == len(data) - 5
        assert file.read() == data[-5:]
        assert (file.tell(), file.read()) == (len(data), b"")
    assert corpus.files_of(source) == [source.url]
