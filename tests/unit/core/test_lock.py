"""One command at a time in a folder."""

import contextlib
import subprocess
import sys

import pytest

import corpusfit
from corpusfit.core.errors import OutputFolderError
from corpusfit.core.manifest import locked

pytest.importorskip("fcntl", reason="the system has no such locks")

HOLDING = """
import sys
from pathlib import Path
from corpusfit.core.manifest import locked
with locked(Path(sys.argv[1]), sys.argv[2], shared=sys.argv[2] == "explain"):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextlib.contextmanager
def holding(work, command):
    """Another process that runs a command; killed at the end."""
    call = [sys.executable, "-c", HOLDING, str(work), command]
    with subprocess.Popen(call, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"held\n"
        yield
        other.kill()


@pytest.fixture
def work(tmp_path):
    folder = tmp_path / "out/.corpusfit"
    folder.mkdir(parents=True)
    return folder


@pytest.mark.parametrize("first", ["select", "choose", "explain"])
@pytest.mark.parametrize("second", ["choose", "explain"])
def test_a_second_command_is_told_which_is_under_way(work, first, second):
    with holding(work, first):
        reads = second == "explain"
        if first == second == "explain":
            with locked(work, second, shared=reads):
                return
        with (
            pytest.raises(OutputFolderError, match=rf"`corpusfit {first}`.*lock"),
            locked(work, second, shared=reads),
        ):
            pass


def test_a_dead_command_holds_no_lock(work):
    with holding(work, "select"):
        pass
    for _ in range(2):
        with locked(work, "choose"):
            pass


def test_a_choose_under_way_is_called_that_by_a_real_explain(work):
    with holding(work, "choose"):
        done = subprocess.run(
            [sys.executable, "-m", "corpusfit", "explain", str(work.parent), "--text", "a"],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode != 0
    assert "`corpusfit choose`" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_that_is_missing_or_read_only_is_not_locked(tmp_path, work):
    with locked(tmp_path / "none", "choose"):
        assert not (tmp_path / "none").exists()
    work.chmod(0o500)
    with locked(work, "explain", shared=True):
        pass
    work.chmod(0o700)


@pytest.mark.parametrize(
    "name",
    [pytest.param("adapt", marks=pytest.mark.slow), "clusters", "evaluate", "split"],
)
def test_a_second_command_on_one_out_writes_nothing(name, tmp_path, jsonl, inline):
    texts = jsonl("corpus.jsonl", [f"text {n} about something" for n in range(50)])
    rows = [{"text": f"text {n}", "label": str(n % 2)} for n in range(20)]
    for split in ("train", "dev", "test"):
        jsonl(f"task/{split}.jsonl", rows)
    (tmp_path / "model").mkdir()
    (tmp_path / "model/config.json").write_text('{"model_type": "bert"}')
    (tmp_path / "model/model.safetensors").write_bytes(b"\2\0\0\0\0\0\0\0{}")
    out = tmp_path / "out"
    words = {
        "adapt": {"data": texts, "model": "none"},
        "clusters": {"corpus": texts, "k": 2, "embedder": "static"},
        "evaluate": {"task": tmp_path / "task", "model": tmp_path / "model"},
        "split": {"data": texts, "dev": 5, "test": 5},
    }
    with locked(out / ".corpusfit", "first", make=True):
        with pytest.raises(OutputFolderError, match="`corpusfit first`"):
            getattr(corpusfit, name)(out=out, machine=inline, **words[name])
        assert [path.name for path in out.rglob("*")] == [".corpusfit", "lock"]


@pytest.mark.parametrize("entry", ["selected", ".corpusfit/lock", ".corpusfit/scored"])
def test_a_link_leads_to_no_file_of_others(work, tmp_path, entry):
    mine = tmp_path / "mine"
    mine.write_text("mine")
    (work.parent / entry).symlink_to(mine)
    with pytest.raises(OutputFolderError, match=entry), locked(work, "choose"):
        pass
    assert mine.read_text() == "mine"
