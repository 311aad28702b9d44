"""Stored scorers and files that appear whole."""

import errno
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from corpusfit.core.artifacts import (
    folder_path,
    read_arrays,
    remove,
    require_plain,
    restore,
    store,
    sweep,
    user_path,
    write_arrays,
    write_bytes,
    writing,
)
from corpusfit.core.errors import ModelError, StorageError, UsageError
from corpusfit.core.manifest import OutFolder
from corpusfit.text.context import Machine


@dataclass(frozen=True)
class Thing:
    weights: np.ndarray
    names: tuple[str, ...]
    count: int
    share: float
    label: str


def test_a_dataclass_comes_back_as_it_was(tmp_path):
    thing = Thing(np.arange(6, dtype=np.float32).reshape(2, 3)[:, ::-1], ("a", "ü"), 3, 0.1, "x")
    store(tmp_path / "t.safetensors", "thing", thing)
    back = restore(tmp_path / "t.safetensors", {"thing": Thing}.__getitem__)
    np.testing.assert_array_equal(back.weights, thing.weights)
    assert (back.names, back.count, back.share, back.label) == (("a", "ü"), 3, 0.1, "x")


def test_a_header_is_read_without_the_arrays_and_a_cut_file_is_refused(tmp_path):
    path = tmp_path / "a.safetensors"
    write_arrays(path, {"x": np.zeros(1000)}, {"rows": [1, 2]})
    assert read_arrays(path, []) == ({}, {"rows": [1, 2]})
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ModelError, match=r"a\.safetensors"):
        read_arrays(path)


def test_a_file_that_cannot_be_finished_never_appears(tmp_path):
    def fill():
        with writing(tmp_path / "x") as f:
            f.write(b"half")
            raise OSError(28, "No space left on device")

    with pytest.raises(StorageError, match="No space left on device"):
        fill()
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_on_the_disk_before_it_has_its_name_and_then_the_name_is(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr("os.urandom", lambda n: b"U" * n)
    monkeypatch.setattr(
        "os.fsync", lambda _: seen.append(sorted(p.name for p in tmp_path.iterdir()))
    )
    write_bytes(tmp_path / "x", b"new")
    assert seen == [["x.555555555555.part"], ["x"]]
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


def test_an_old_file_stays_until_the_new_one_is_whole(tmp_path):
    def replace():
        with writing(tmp_path / "x") as f:
            f.write(b"half of the new")
            raise KeyboardInterrupt

    write_bytes(tmp_path / "x", b"old")
    with pytest.raises(KeyboardInterrupt):
        replace()
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("x", b"old")]


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_what_is_written_does_not_go_through_a_planted_link(tmp_path, monkeypatch):
    """A stranger's folder holds links with the names of temporary files, or of the file itself."""
    monkeypatch.setattr("os.urandom", lambda n: b"U" * n)
    outside, out = tmp_path / "outside", tmp_path / "out"
    outside.write_bytes(b"mine")
    out.mkdir()
    (out / "report.html").symlink_to(outside)
    (out / f"x.{os.getpid()}.part").symlink_to(outside)
    (out / "x.555555555555.part").symlink_to(outside)
    write_bytes(out / "report.html", b"new")
    with pytest.raises(StorageError, match=r"x: File exists"):
        write_bytes(out / "x", b"new")
    assert outside.read_bytes() == b"mine"
    assert (out / "report.html").read_bytes() == b"new"
    assert not (out / "report.html").is_symlink()
    monkeypatch.undo()
    write_bytes(out / "x", b"new")
    assert (outside.read_bytes(), (out / "x").read_bytes()) == (b"mine", b"new")


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_a_link_is_removed_and_not_what_it_leads_to(tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/file").write_bytes(b"")
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    remove(tmp_path / "link")
    assert [p.name for p in tmp_path.rglob("*")] == ["kept", "file"]


@pytest.mark.skipif(os.name == "nt", reason="other permissions there")
@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o002, 0o664), (0o077, 0o600)])
def test_the_umask_decides_who_may_read_and_write(tmp_path, mask, mode):
    before = os.umask(mask)
    try:
        write_bytes(tmp_path / "x", b"")
    finally:
        os.umask(before)
    assert (tmp_path / "x").stat().st_mode & 0o777 == mode


@pytest.mark.parametrize("times", [2, 9])
def test_windows_replaces_a_file_that_is_open_for_a_moment(tmp_path, monkeypatch, times):
    """It refuses to, as long as another process reads the old file."""
    refused = []

    def replace(path, to, plain=Path.replace):
        if len(refused) < times:
            refused.append(path)
            raise PermissionError(13, "Access is denied")
        return plain(path, to)

    monkeypatch.setattr(Path, "replace", replace)
    monkeypatch.setattr("time.sleep", lambda _: None)
    with pytest.raises(StorageError, match=r"x: Access is denied"):
        write_bytes(tmp_path / "x", b"new")
    monkeypatch.setattr("sys.platform", "win32")
    if times > 5:
        with pytest.raises(StorageError, match=r"x: Access is denied"):
            write_bytes(tmp_path / "x", b"new")
    else:
        write_bytes(tmp_path / "x", b"new")
        assert (tmp_path / "x").read_bytes() == b"new"
    assert len(list(tmp_path.iterdir())) == (times < 5)


def test_a_place_that_cannot_hold_files_is_named(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match=r"below: File exists"):
        write_bytes(tmp_path / "file" / "below", b"")


def test_the_home_of_nobody_is_a_name_and_no_error(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    assert user_path("~/models") == Path("/home/me/models")
    assert user_path("~nobody-here/x") == Path("~nobody-here/x")


def test_a_folder_may_be_in_the_home_or_a_file_url(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("USERPROFILE", "/home/me")
    for named in ("~/out", Path("~/out"), "file:///home/me/out", "file://localhost/home/me/out"):
        assert folder_path(named, "`out`") == Path("/home/me/out")
    with pytest.raises(UsageError, match=r"^`out` must be .*file://elsewhere/home"):
        folder_path("file://elsewhere/home", "`out`")


@pytest.mark.parametrize("name", ["run*", "run?", "run[1]", "a::b"])
def test_nothing_is_written_to_a_url_that_fsspec_takes_for_a_pattern_or_a_chain(name):
    """Removing `run?` removed a neighbor, `run1`."""
    with pytest.raises(UsageError, match="`out`"):
        OutFolder(folder_path(f"memory://bucket/{name}", "`out`")).claim()
    with pytest.raises(UsageError, match="`cache`"):
        Machine(cache=f"memory://bucket/{name}").cache_folder()
    require_plain(folder_path(f"/home/me/{name}", "`out`"), "`out`")


def test_sweeping_takes_only_what_was_left_aside(tmp_path):
    (tmp_path / "scores").mkdir()
    for name in (
        "a.parquet",
        "a.parquet.0123456789ab.part",
        "scores/b.json.ba9876543210.part",
        "my.part",
        "7.part.txt",
    ):
        (tmp_path / name).write_bytes(b"")
    sweep(tmp_path)
    left = {p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*")}
    assert left == {"a.parquet", "my.part", "7.part.txt", "scores"}


def test_sweeping_beside_a_file_takes_only_its_own(tmp_path):
    for name in ("page.html", "page.html.0123456789ab.part", "other.html.0123456789ab.part"):
        (tmp_path / name).write_bytes(b"")
    sweep(tmp_path, "page.html.*")
    assert {p.name for p in tmp_path.iterdir()} == {"page.html", "other.html.0123456789ab.part"}


@pytest.mark.parametrize("keep", [0, 4, 20, 200, -1])
def test_a_truncated_file_is_a_model_error(tmp_path, keep):
    path = tmp_path / "t.safetensors"
    store(path, "thing", Thing(np.ones((9, 9), np.float32), (), 1, 0.5, "y"))
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ModelError, match=r"t\.safetensors"):
        restore(path, {"thing": Thing}.__getitem__)


def test_a_safetensors_file_of_others_is_a_model_error(tmp_path):
    save_file({"x": np.zeros(3)}, tmp_path / "other.safetensors")
    with pytest.raises(ModelError, match=r"other\.safetensors"):
        read_arrays(tmp_path / "other.safetensors")
    with pytest.raises(ModelError, match="nowhere"):
        read_arrays(tmp_path / "nowhere")


def test_a_file_that_cannot_be_opened_now_is_not_called_missing(tmp_path, monkeypatch):
    write_arrays(tmp_path / "a.safetensors", {"x": np.zeros(3)}, {})

    def fail(error):
        raise error

    missing = FileNotFoundError("No such file or directory")  # as safetensors says
    monkeypatch.setattr("safetensors.safe_open", lambda *_, **__: fail(missing))
    with pytest.raises(StorageError, match=r"a\.safetensors.*again"):
        read_arrays(tmp_path / "a.safetensors")
    no_handle = OSError(errno.EMFILE, "Too many open files")
    monkeypatch.setattr(Path, "open", lambda *_, **__: fail(no_handle))
    with pytest.raises(StorageError, match="ulimit"):
        read_arrays(tmp_path / "a.safetensors")


def test_the_same_arrays_are_the_same_bytes(tmp_path):
    for name in "ab":
        write_arrays(tmp_path / name, {"y": np.ones(3), "x": np.zeros(2)}, {"b": 1, "a": None})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
