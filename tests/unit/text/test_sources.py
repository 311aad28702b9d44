"""What can be named as an input, and what is said when it cannot be read."""

import glob
import gzip
import hashlib
import os
import re
from pathlib import Path

import fsspec
import pytest
import xxhash

from corpusfit.core.errors import EmptyInputError, InputError, UsageError
from corpusfit.core.plan import ReadPlan
from corpusfit.text import find as find_sources
from corpusfit.text import fingerprint, shards

ROW = b'{"text": "x"}\n'


@pytest.fixture
def find():
    def find(*inputs, role="corpus", **settings):
        return find_sources([str(i) for i in inputs], ReadPlan(**settings), role=role)

    return find


@pytest.fixture
def memory():
    fs = fsspec.filesystem("memory")
    yield fs
    fs.store.clear()
    fs.pseudo_dirs[:] = [""]


def names(sources):
    return [source.name for source in sources]


def test_one_file(find, write):
    path = write("deep/down/a.jsonl.gz", gzip.compress(ROW))
    (source,) = find(path)
    assert (source.name, source.format, source.compression) == ("a.jsonl.gz", "jsonl", "gz")
    assert source.size == path.stat().st_size
    data = path.read_bytes()
    seen = len(data).to_bytes(8, "little") + xxhash.xxh3_128_digest(data)
    assert source.fingerprint == hashlib.blake2b(seen, digest_size=16).hexdigest()


def test_a_glob_with_the_separators_of_windows(find, write, tmp_path, monkeypatch):
    write("in/deep/a.txt", b"x")
    write("in/b.txt", b"x")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "sep", "\\")
    assert names(find("in\\**\\*.txt")) == ["b.txt", "deep/a.txt"]


def test_a_folder_without_what_is_hidden_or_unknown(find, write, tmp_path):
    kept = ["b.txt", "a/z.csv", "a/b/c.parquet", "a/UPPER.JSONL"]
    for name in [*kept, "a/.hidden.txt", ".cache/x.txt", "a/notes.rst", "a/x.gz", "noext"]:
        write(f"in/{name}", b"")
    assert names(find(tmp_path / "in")) == sorted(kept)


UNFINISHED = {
    "spark": ["_temporary/0/attempt_1/part-0.jsonl", "_SUCCESS", ".part-0.jsonl.crc"],
    "magic": ["__magic/job/a.jsonl", "_d.jsonl", "_spark_metadata/0.txt", "_delta_x.csv"],
    "sums": ["SHA256SUMS.txt", "checksums.csv", "manifest-md5.txt", "a.jsonl.sha1", "md5sum.tsv"],
    "wikipedia": ["enwiki-20200501-pages-articles-multistream-index.txt.bz2"],
}


@pytest.mark.parametrize("given", ["{}", "{}/*", "{}/**", "{}/**/*.*", "memory://{}"])
@pytest.mark.parametrize("kind", UNFINISHED)
def test_names_that_are_no_data_are_left_out_and_counted(write, tmp_path, memory, kind, given):
    kept = ["_year=2024/b.jsonl", "a_b.jsonl", "md5-explained.txt", "part-0.jsonl"]
    for name in [*kept, *UNFINISHED[kind]]:
        memory.pipe(str(write(f"in/{name}", ROW)), ROW)
    said = []
    place = given.format(tmp_path / "in")
    found = find_sources([place], ReadPlan(), role="corpus", note=said.append)
    assert names(found) == kept
    counted = {"magic": 4, "sums": 4}.get(kind, 1)  # without what no reader would read
    assert re.search(rf" {counted} (file|folder)", said[0])


def test_what_is_named_itself_is_read_whatever_its_name(find, write, tmp_path):
    write("in/_d.jsonl", ROW)
    write("in/_temporary/b.jsonl", ROW)
    assert names(find(tmp_path / "in/_d.jsonl")) == ["_d.jsonl"]
    assert names(find(tmp_path / "in/_temporary")) == ["b.jsonl"]
    assert names(find(f"{tmp_path}/in/_*")) == ["_d.jsonl", "_temporary/b.jsonl"]


@pytest.mark.parametrize("given", ["", "/t", "/t/*.parquet", "/t/x=1", "/t/part-0.parquet"])
@pytest.mark.parametrize(
    ("log", "kind"),
    [
        ("_delta_log/00000000000000000000.json", "Delta"),
        (".hoodie/hoodie.properties", "Hudi"),
        ("metadata/v3.metadata.json", "Iceberg"),
        ("metadata/00002-6f1c.metadata.json", "Iceberg"),
    ],
)
def test_files_of_a_table_are_refused(find, write, tmp_path, memory, log, kind, given):
    for name in ("part-0.parquet", "x=1/part-1.parquet", log):
        memory.pipe(str(write(f"lake/t/{name}", b"{}")), b"{}")
    place = f"{tmp_path}/lake{given}"
    with pytest.raises(InputError, match=f"lake/t is an? {kind} table"):
        find(place)
    if given in ("", "/t", "/t/*.parquet") and not (kind == "Iceberg" and "*" in given):
        with pytest.raises(InputError, match=f"lake/t is an? {kind} table"):
            find(f"memory://{place}")


def test_names_are_relative_to_what_inputs_share(find, write, tmp_path):
    write("in/a/1.txt", b"")
    write("in/b/1.txt", b"")
    inside = tmp_path / "in"
    assert names(find(inside / "b", inside / "a")) == ["a/1.txt", "b/1.txt"]
    assert names(find(inside / "a" / "1.txt", inside / "b" / "1.txt")) == ["a/1.txt", "b/1.txt"]
    assert names(find(f"{inside}/*/1.txt")) == ["a/1.txt", "b/1.txt"]
    assert names(find(f"{inside}/**/*.txt")) == ["a/1.txt", "b/1.txt"]
    assert names(find(f"{inside}/[b]*")) == ["b/1.txt"]


def test_named_twice_is_one_source(find, write, tmp_path):
    path = write("a.txt", b"")
    assert names(find(path, tmp_path, f"{tmp_path}/*.txt", f"file://{path}")) == ["a.txt"]


def test_relative_paths_and_home(find, write, tmp_path, monkeypatch):
    write("in/a.txt", b"")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert names(find("in")) == names(find("~/in")) == names(find("in/a.txt")) == ["a.txt"]


def test_a_name_with_wildcards_in_it(find, write):
    assert names(find(write("a[1].txt", b""))) == ["a[1].txt"]


@pytest.fixture
def linked(write, tmp_path):
    """A folder with links to files and folders, some of which lead back or nowhere."""
    for name in (
        "in/a.txt",
        "in/deep/b.txt",
        "in/more/part/c.txt",
        "disk/part2/d.txt",
        "disk/d.txt",
    ):
        write(name, name.encode())
    for name, to in {
        "in/part2": "more/part",
        "in/out": "../disk/part2",
        "in/again": "deep",
        "in/deep/loop": "..",
        "in/self": ".",
        "in/up": "../..",
        "in/a-too.txt": "a.txt",
        "in/d.txt": "../disk/d.txt",
        "in/gone.txt": "../disk/none.txt",
        "in/ring.txt": "ring.txt",
        "in/more/part/back": "..",
        "in/more/part/other": "../../deep",
    }.items():
        (tmp_path / name).symlink_to(to)
    return tmp_path / "in"


@pytest.mark.parametrize("pattern", ["", "/**", "/**/*.txt", "/**/*", "/*"])
def test_linked_files_and_folders_are_read_once_each(linked, pattern):
    said = []
    given = [f"{linked}{pattern}"]
    found = find_sources(given, ReadPlan(), role="corpus", note=said.append)
    assert names(found) == ["a.txt", "deep/b.txt", "more/part/c.txt"]
    assert "5 link" in said[0]  # d.txt, gone.txt, out, ring.txt, up
    assert said[0].endswith(f"name it itself: {linked}/d.txt")


def test_links_of_the_hubs_cache_are_followed_and_no_others_out_of_the_folder(write, tmp_path):
    """A link of a stranger's folder must not bring a private text into what is published."""
    home = tmp_path / "hub/datasets--a--b"
    for name in ("blobs/1", "blobs/in/2", "refs/3"):
        write(f"hub/datasets--a--b/{name}", b"one")
    write("private/blobs/4", b"secret")
    links = {
        "1.txt": "../../blobs/1",
        "deep/1.txt": "../../../blobs/1",
        "2.txt": "../../blobs/in/2",
        "3.txt": "../../refs/3",
        "4.txt": "../../../../private/blobs/4",
        "zero.txt": "/dev/zero",
    }
    for name, to in links.items():
        link = home / "snapshots/abc" / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(to)
    said = []
    given = [str(home / "snapshots/abc")]
    found = find_sources(given, ReadPlan(), role="corpus", note=said.append)
    assert names(found) == ["1.txt"]
    assert "4 link" in said[0]
    (home / "snapshots/abc/1.txt").unlink()
    (home / "snapshots/abc/deep/1.txt").unlink()
    with pytest.raises(EmptyInputError, match=r"name it itself: .*/2\.txt$"):
        find_sources(given, ReadPlan(), role="corpus")


def test_a_file_that_two_inputs_reach_is_one_source(find, linked, tmp_path):
    found = find(linked, tmp_path / "disk", linked / "a-too.txt", linked / "d.txt", linked / "out")
    got = ["a.txt", "b.txt", "c.txt", "d.txt", "d.txt"]
    assert sorted(Path(name).name for name in names(found)) == got


def test_a_pattern_finds_files_through_a_link(find, linked):
    assert names(find(f"{linked}/part?/*.txt")) == ["part2/c.txt"]
    assert names(find(f"{linked}/**/part2/*.txt")) == ["part2/c.txt"]
    assert names(find(f"{linked}/**/again/*")) == ["again/b.txt"]


def test_folders_that_link_to_each_other_end(find, write, tmp_path):
    for i in range(8):
        write(f"in/{i}/{i}.txt", b"")
        for j in range(8):
            (tmp_path / f"in/{i}/to{j}").symlink_to(f"../{j}")
    assert len(find(f"{tmp_path}/in/**/*.txt")) == len(find(tmp_path / "in")) == 8


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("**", "abcd"),
        ("**/*.txt", "abcd"),
        ("x/**", "bcd"),
        ("*/b.txt", "b"),
        ("*/*/**", "cd"),
        ("x/**/y/*.txt", "cd"),
        ("x/y", "cd"),
        ("[!x]*", "a"),
        ("x/.h*/*.txt", "h"),
    ],
)
def test_patterns_find_what_the_standard_library_finds(find, write, tmp_path, pattern, expected):
    for name in ("a.txt", "x/b.txt", "x/y/c.txt", "x/y/z/../d.txt", "x/.h/h.txt", ".k.txt"):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        write(f"in/{name}", b"")
    if "*" in pattern or "[" in pattern:
        globbed = glob.glob(f"{tmp_path}/in/{pattern}", recursive=True)  # noqa: PTH207 (the reference)
        files = {f for g in globbed for f in ([g] if Path(g).is_file() else Path(g).rglob("*.txt"))}
        seen = {Path(f).stem for f in files if "/.h" not in str(f) or ".h" in pattern}
        assert seen - {".k"} == set(expected)
    assert {Path(name).stem for name in names(find(f"{tmp_path}/in/{pattern}"))} == set(expected)


@pytest.fixture
def closed_folder(write, monkeypatch):
    """`in/closed`, with a file, may not be listed."""
    write("in/closed/b.txt", b"")
    scandir = os.scandir

    def refuse(path):
        if os.fspath(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr("os.scandir", refuse)


def test_a_folder_on_the_way_of_a_pattern_may_be_closed(find, write, tmp_path, closed_folder):
    write("in/open/a.txt", b"")
    assert names(find(f"{tmp_path}/in/*/*.txt")) == ["open/a.txt"]


def test_outputs_and_folders_in_a_store(find, memory):
    for name in ("a.jsonl", "x/b.jsonl", "out/.corpusfit/run.json", "out/selected/c.jsonl"):
        memory.pipe(f"/box/{name}", ROW)
    assert names(find("memory://box")) == ["a.jsonl", "x/b.jsonl"]
    assert names(find("memory://box/*")) == ["a.jsonl", "x/b.jsonl"]
    assert names(find("memory://box/out/selected")) == ["c.jsonl"]


@pytest.mark.parametrize("role", ["target", "corpus"])
def test_missing(find, tmp_path, role):
    for given in (f"{tmp_path}/none.jsonl", f"{tmp_path}/none", f"{tmp_path}/*.txt"):
        with pytest.raises(InputError, match=rf"^`{role}` .*'{re.escape(given)}'"):
            find(given, role=role)


def test_a_name_that_is_too_long(find):
    with pytest.raises(InputError, match=r"^`corpus\b.*File name too long") as caught:
        find("x" * 300)
    assert "\n" not in str(caught.value)


def test_a_path_in_an_unreadable_folder(find, tmp_path, monkeypatch):
    stat = os.stat

    def refuse(path, **kwargs):
        if "closed" in str(path):
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, **kwargs)

    monkeypatch.setattr("os.stat", refuse)
    with pytest.raises(InputError, match=r"^`target\b.*/closed/a\.txt.*denied"):
        find(tmp_path / "closed" / "a.txt", role="target")


def test_an_unreadable_subfolder(find, write, tmp_path, closed_folder):
    write("in/a.txt", b"")
    with pytest.raises(InputError, match=r"^`target\b.*/in/closed.*Perm"):
        find(tmp_path / "in", role="target")


def test_the_output_of_a_run_is_left_out(find, write, tmp_path):
    write("in/a.txt", b"")
    for name in (".corpusfit/run.json", "selected/b.txt", "c.txt"):
        write(f"in/deep/out/{name}", b"")
    for given in ("in", "in/**/*", "in/*", "in/**/*.txt"):
        assert names(find(tmp_path / given)) == ["a.txt"], given
    with pytest.raises(EmptyInputError, match=r"^`corpus\b.*deep"):
        find(tmp_path / "in" / "deep")
    assert names(find(tmp_path / "in" / "deep" / "out" / "selected")) == ["b.txt"]


def test_unknown_suffix(find, write):
    with pytest.raises(InputError, match=r"^`corpus\b.*\.jsonl.*\.parquet.*'.*a\.rst'"):
        find(write("a.rst", b""))
    with pytest.raises(InputError, match=r"\.zst"):
        find(write("a.gz", b""))


def test_a_file_named_by_its_language_is_text(find, write):
    assert [s.format for s in find(write("test.de", b"Ein Satz.\n"))] == ["txt"]
    assert [s.compression for s in find(write("b.en.gz", gzip.compress(b"A sentence.")))] == ["gz"]


def test_a_folder_with_nothing_readable(find, write, tmp_path):
    write("in/a.rst", b"")
    for given in (tmp_path / "in", f"{tmp_path}/in/*"):
        with pytest.raises(EmptyInputError, match=r"^`target\b.*/in.*\.jsonl"):
            find(given, role="target")


def test_no_input(find):
    with pytest.raises(EmptyInputError, match=r"^`target\b"):
        find(role="target")


def test_a_wrong_plan(find):
    with pytest.raises(UsageError, match=r"read\.txt"):
        find("a.txt", txt="pages")


def test_unreadable(find, write, monkeypatch):
    path = write("a.txt", b"x")

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.open", refuse)
    with pytest.raises(InputError, match=r"a\.txt.*Permission denied"):
        find(path)


def test_urls(find, memory, read, write):
    memory.pipe("/box/a/1.jsonl", ROW)
    memory.pipe("/box/b/2.jsonl.gz", gzip.compress(ROW * 2))
    memory.pipe("/box/b/.hidden.txt", b"")
    assert names(find("memory://box")) == ["a/1.jsonl", "b/2.jsonl.gz"]
    assert names(find("memory://box/*/*.gz")) == ["b/2.jsonl.gz"]
    (source,) = find("memory://box/a/1.jsonl")
    assert source.name == "1.jsonl"
    assert source.fingerprint == find(write("same.jsonl", ROW))[0].fingerprint
    assert len(read("memory://box")) == 3
    assert names(find("memory://box/a", write("x/1.jsonl", ROW))) == ["1.jsonl", "memory/1.jsonl"]


def test_parquet_from_a_url(memory, read, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"text": ["a", "b"]}), tmp_path / "a.parquet")
    memory.pipe("/box/a.parquet", (tmp_path / "a.parquet").read_bytes())
    assert read("memory://box/a.parquet") == read(tmp_path / "a.parquet")


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.parquet"])
def test_a_store_that_gives_less_than_it_stated_is_an_error(
    memory, read, find, tmp_path, name, monkeypatch
):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"text": ["a", "b"]}), tmp_path / "a.parquet")
    data = {"a.jsonl": ROW, "a.jsonl.gz": gzip.compress(ROW)}
    memory.pipe(f"/box/{name}", data.get(name) or (tmp_path / "a.parquet").read_bytes())
    kind = type(memory.open(f"/box/{name}"))
    short = kind.read
    monkeypatch.setattr(kind, "read", lambda file, *size: short(file, *size)[:-1])
    ranges = type(memory).cat_file
    monkeypatch.setattr(type(memory), "cat_file", lambda *a, **range_: ranges(*a, **range_)[:-1])
    with pytest.raises(InputError, match=rf"{name}.*(store gave|became shorter)"):
        read(f"memory://box/{name}")


def test_urls_that_cannot_be_read(find, memory):
    memory.pipe("/box/a.rst", b"")
    with pytest.raises(InputError, match=r"'nowhere'"):
        find("nowhere://x/a.jsonl")
    with pytest.raises(InputError, match=r"memory://none\.jsonl"):
        find("memory://none.jsonl")
    with pytest.raises(EmptyInputError, match=r"memory://box"):
        find("memory://box")
    with pytest.raises(InputError, match=r"'memory://box/a\.rst'"):
        find("memory://box/a.rst")


def test_a_library_that_is_not_installed(find, monkeypatch):
    def missing(*_, **__):
        raise ImportError("Install s3fs to access S3", name="s3fs")

    monkeypatch.setattr("fsspec.core.url_to_fs", missing)
    with pytest.raises(InputError, match=r"s3://.*s3fs.*pip install 'fsspec\[s3\]'"):
        find("s3://bucket/a.jsonl")


def test_a_store_that_states_a_digest_is_not_read_twice(monkeypatch):
    from corpusfit.text import files

    class Store:
        def info(self, path):
            return {"size": 5, "ETag": path}

        def invalidate_cache(self):
            pass

    monkeypatch.setattr(files, "filesystem", lambda url, setting: (Store(), url))
    assert fingerprint("s3://b/x") == fingerprint("s3://b/x")
    assert fingerprint("s3://b/x")[0] != fingerprint("s3://b/y")[0]
    assert fingerprint("s3://b/x")[1] == 5


def test_a_pipe_is_saved_to_a_file_first(find, tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.chdir(tmp_path)
    for given in ("pipe", "-"):
        with pytest.raises(UsageError, match=rf"^`corpus` .*'{given}'.*to a file"):
            find(given)


def test_shards_are_numbered_through(find, write, tmp_path):
    write("a.jsonl", ROW * 3)
    write("b.jsonl", b"")
    write("c.jsonl", ROW)
    plan = ReadPlan(shard_mb=2e-5)
    found = list(shards(find(tmp_path, shard_mb=2e-5), plan))
    assert [s.index for s in found] == [0, 1, 2]
    assert [(s.source, s.first_row, s.first_byte) for s in found] == [
        (0, 0, 0),
        (0, 2, 28),
        (2, 0, 0),
    ]
