"""Worker processes: their results, environment and end."""

import errno
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from answers import Answer
from corpusfit.core import errors
from corpusfit.core.engine import LocalEngine
from corpusfit.core.errors import StorageError, WorkerError


@pytest.fixture(scope="module")
def engine():
    with LocalEngine(2) as engine:
        yield engine


def test_workers_have_one_thread_and_not_the_callers_script(engine):
    before = dict(os.environ), sys.modules["__main__"]
    assert set(engine.map(Answer(), ["threads"] * 8)) == {("1", "1")}
    assert set(engine.map(Answer(), ["main"] * 8)) == {("__main__", False)}
    assert (dict(os.environ), sys.modules["__main__"]) == before


INTERACTIVE = """
import os, sys
from answers import Answer
from corpusfit.core.engine import LocalEngine
from corpusfit.core.errors import StorageError
for name in {name.partition('.')[0] for name in sys.modules} - {'corpusfit', 'answers'}:
    with open(f'{name}.py', 'w') as file:
        file.write("open('ran', 'w').close()")
sys.path.insert(0, '')
try:
    with LocalEngine(1) as engine:
        print(list(engine.map(Answer(1), [1])), sys.path[0] == '', os.path.exists('ran'))
except StorageError as e:
    print(e)
"""


def interactive(folder, *before):
    """What a Python prints that looks for modules in the current folder, which has traps."""
    path = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [*before, sys.executable, "-P", "-c", INTERACTIVE],
        check=False,
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path), "TMPDIR": str(folder)},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


@pytest.mark.slow
def test_workers_import_nothing_from_the_current_folder(tmp_path):
    assert interactive(tmp_path) == "[2] True False"


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("unshare") or os.geteuid(), reason="only root may mount")
@pytest.mark.parametrize("mount", ["-o ro", "-o size=4k"])
def test_without_room_for_locks_a_sentence_says_what_works(tmp_path, mount):
    fill = "(head -c 4096 /dev/zero > /dev/shm/full) 2> /dev/null"
    line = f'mount -t tmpfs {mount} none /dev/shm; {fill}; exec "$@"'
    if subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip("needs a mount namespace")
    said = interactive(tmp_path, "unshare", "-m", "sh", "-c", line, "sh")
    assert "/dev/shm" in said
    assert "`engine=inline`" in said
    assert [path for path in tmp_path.iterdir() if path.suffix != ".py"] == []


def test_windows_has_at_most_61_workers(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    assert LocalEngine(96).workers == 61


def test_workers_ignore_ctrl_c(engine):
    assert list(engine.map(Answer(), ["interrupt"])) == ["still here"]


@pytest.mark.slow
def test_a_worker_that_dies_is_an_error_with_a_cure():
    with (
        pytest.raises(WorkerError, match=r"with fewer `workers`;"),
        LocalEngine(1) as engine,
    ):
        list(engine.map(Answer(), ["die"]))


def test_a_fault_of_a_store_comes_back_as_an_error_with_a_cure(engine):
    with pytest.raises(StorageError, match=r"answers 503.*network"):
        list(engine.map(Answer(), ["no answer"]))
    assert list(engine.map(Answer(), [1])) == [1]


@pytest.mark.slow
def test_a_worker_without_memory_for_linear_algebra_does_not_wait_for_it():
    limited = """
import resource
import scipy.linalg.blas
from corpusfit.core.engine.local import _take_buffers
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (20 << 20),) * 2)
try:
    _take_buffers()
except OSError as e:
    print(e.errno)
"""
    done = subprocess.run(
        [sys.executable, "-c", limited], capture_output=True, text=True, timeout=60, check=True
    )
    assert int(done.stdout) == errno.ENOMEM


def test_an_error_in_the_caller_ends_the_workers_at_once():
    def fail():
        with LocalEngine(1) as engine:
            for pid, _ in engine.map(Answer(), ["where"]):
                raise ValueError(pid)

    with pytest.raises(ValueError) as error:  # noqa: PT011  its text is the worker's number
        fail()
    with pytest.raises(ProcessLookupError):
        os.kill(int(str(error.value)), 0)


def test_a_worker_reads_a_job_once_and_its_file_is_deleted_with_the_engine(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with LocalEngine(1) as engine:
        results = engine.map(Answer(ballast=b"x" * 1_000_000), [1, 2, 3, 4])
        first = next(results)
        (job,) = tmp_path.glob("corpusfit-jobs-*/*")
        assert job.stat().st_size > 1_000_000
        job.unlink()  # a worker that read it again would fail
        assert sorted([first, *results]) == [1, 2, 3, 4]
    assert not list(tmp_path.glob("corpusfit-jobs-*"))


SCRIPT = """
from pathlib import Path
import warnings
import corpusfit
here = Path(__file__).parent
print("script runs")
warnings.simplefilter("ignore", corpusfit.CorpusfitWarning)  # of the tiny target
run = corpusfit.select(target=here / "task.txt", corpus=here / "corpus.txt", out=here / "out",
                       method="random", machine=corpusfit.Machine(workers=1))
print(run.manifest["counts"]["documents"])
"""


@pytest.mark.slow
def test_a_script_without_a_guard_runs_once(tmp_path):
    """The caller needs no `if __name__ == "__main__"`, although workers start with `spawn`."""
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "task.txt").write_text("a task\n\nanother")
    (tmp_path / "corpus.txt").write_text("one\n\ntwo\n\nthree")
    done = subprocess.run(
        [sys.executable, "-W", "error", tmp_path / "script.py"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "script runs\n3\n"


def test_the_engine_hears_that_a_worker_compiles():
    """Of pieces that do, not of one that does not."""
    heard = []
    with LocalEngine(1) as engine:
        engine.on_compile = lambda: heard.append(1)
        assert list(engine.map(Answer(), ["folder"]))
        assert not heard
        assert list(engine.map(Answer(), ["compile", "folder", "compile"])) != []
        list(engine.map(Answer(), ["folder"]))
    assert heard


ERRORS = [
    cls
    for cls in vars(errors).values()
    if isinstance(cls, type) and issubclass(cls, errors.CorpusfitError)
]


@pytest.mark.parametrize("cls", ERRORS)
def test_errors_travel_between_processes(cls):
    given = ("embedder=", "embed") if cls is errors.MissingDependencyError else ("what happened",)
    error = cls(*given)
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy)) == (cls, str(error))
