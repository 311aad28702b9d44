"""Worker processes: what they give back, what they leave alone, how they end."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass

import pytest

from corpusfit import errors
from corpusfit.engine import Job, LocalEngine
from corpusfit.errors import StorageError, UsageError, WorkerError


@dataclass(frozen=True)
class Answer(Job):
    """What the pieces ask of a worker."""

    base: int = 0

    def start(self):
        opened = time.monotonic_ns()

        def work(piece):
            match piece:
                case "where":
                    return os.getpid(), opened
                case "threads":
                    return os.environ["OMP_NUM_THREADS"], os.environ["NUMBA_NUM_THREADS"]
                case "main":
                    return sys.modules["__main__"].__name__, hasattr(
                        sys.modules["__main__"], "__file__"
                    )
                case "full":
                    raise StorageError("the disk is full")
                case "die":
                    os.kill(os.getpid(), signal.SIGKILL)
                case "interrupt":
                    os.kill(os.getpid(), signal.SIGINT)
                    return "still here"
            return self.base + piece

        return work


@pytest.fixture(scope="module")
def engine():
    with LocalEngine(2) as engine:
        yield engine


def test_every_piece_is_done_once(engine):
    assert sorted(engine.map(Answer(100), range(50))) == list(range(100, 150))
    assert list(engine.map(Answer(), [])) == []


def test_another_job_is_opened_and_the_same_one_is_not_again(engine):
    first = dict(engine.map(Answer(1), ["where"] * 20))
    again = [engine.map(Answer(1), ["where"] * 20) for _ in range(2)]
    assert all(first.get(pid, opened) == opened for some in again for pid, opened in some)
    other = dict(engine.map(Answer(2), ["where"] * 20))
    assert not set(first.values()) & set(other.values())
    assert os.getpid() not in first


def test_pieces_are_drawn_only_as_workers_become_free(engine):
    drawn = []

    def pieces():
        for i in range(100):
            drawn.append(i)
            yield i

    for done, _ in enumerate(engine.map(Answer(), pieces()), 1):
        assert len(drawn) - done <= 2 * 2


def test_workers_have_one_thread_and_not_the_callers_script(engine):
    before = dict(os.environ), sys.modules["__main__"]
    assert set(engine.map(Answer(), ["threads"] * 8)) == {("1", "1")}
    assert set(engine.map(Answer(), ["main"] * 8)) == {("__main__", False)}
    assert (dict(os.environ), sys.modules["__main__"]) == before


def test_ctrl_c_is_left_to_the_parent(engine):
    assert list(engine.map(Answer(), ["interrupt"])) == ["still here"]


def test_an_error_comes_back_as_itself_and_the_engine_goes_on(engine):
    with pytest.raises(StorageError, match="the disk is full"):
        list(engine.map(Answer(), [1, "full", 2]))
    assert list(engine.map(Answer(), [3])) == [3]


def test_a_worker_that_dies_is_an_error_with_a_cure():
    with (
        pytest.raises(WorkerError, match=r"fewer --workers.*finished shards are kept"),
        LocalEngine(1) as engine,
    ):
        list(engine.map(Answer(), ["die"]))


def test_an_error_in_the_caller_ends_the_workers_at_once():
    def fail():
        with LocalEngine(1) as engine:
            for pid, _ in engine.map(Answer(), ["where"]):
                raise ValueError(pid)

    with pytest.raises(ValueError) as error:  # noqa: PT011  its text is the worker's number
        fail()
    with pytest.raises(ProcessLookupError):
        os.kill(int(str(error.value)), 0)


def test_it_has_to_be_started_and_have_a_worker():
    with pytest.raises(WorkerError, match="with LocalEngine"):
        next(iter(LocalEngine(1).map(Answer(), [1])))
    for none in (0, -1):
        with pytest.raises(UsageError, match=f"--workers must be 1 or more; got {none}"):
            LocalEngine(none)
    assert LocalEngine().workers >= 1


def test_it_may_be_used_from_another_thread(engine):
    found = []
    thread = threading.Thread(target=lambda: found.extend(engine.map(Answer(), [5])))
    thread.start()
    thread.join()
    assert found == [5]


SCRIPT = """
from pathlib import Path
import corpusfit
here = Path(__file__).parent
print("script runs")
run = corpusfit.select(target=here / "task.txt", corpus=here / "corpus.txt", out=here / "out",
                       method="random", machine=corpusfit.Machine(workers=1))
print(run.manifest["counts"]["documents"])
"""


@pytest.mark.slow
def test_a_script_without_a_guard_runs_once(tmp_path):
    """`if __name__ == "__main__"` is not asked of the caller, though workers start afresh."""
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


ERRORS = [getattr(errors, name) for name in errors.__all__ if name != "bad_setting"]


@pytest.mark.parametrize("cls", ERRORS)
def test_errors_travel_between_processes(cls):
    given = ("--embedder", "embed") if cls is errors.MissingDependencyError else ("what happened",)
    error = cls(*given)
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy)) == (cls, str(error))
