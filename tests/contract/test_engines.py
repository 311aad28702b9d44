"""What every engine does, on tasks and on workers that keep an encoder open."""

import os
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from answers import Answer
from corpusfit.core.engine import LocalEngine, RayEngine
from corpusfit.core.errors import MissingDependencyError, StorageError, UsageError, WorkerError

ENGINES = [LocalEngine, pytest.param(RayEngine, marks=pytest.mark.slow)]


@pytest.fixture(scope="module", params=ENGINES)
def engine(request):
    if request.param is RayEngine:
        request.getfixturevalue("own_ray")
    with request.param(2) as engine:
        yield engine


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "encodes"])
def answer(request):
    """The job, for tasks or for workers that encode."""
    return partial(Answer, encodes=request.param)


def test_every_piece_is_done_once(engine, answer):
    assert sorted(engine.map(answer(100), range(50))) == list(range(100, 150))
    assert list(engine.map(answer(), [])) == []
    assert engine.workers == 2


def test_another_job_is_opened_and_the_same_one_is_not_again(engine, answer):
    first = dict(engine.map(answer(1), ["where"] * 20))
    again = [engine.map(answer(1), ["where"] * 20) for _ in range(2)]
    assert all(first.get(pid, opened) == opened for some in again for pid, opened in some)
    other = dict(engine.map(answer(2), ["where"] * 20))
    assert not set(first.values()) & set(other.values())
    assert os.getpid() not in first


def test_what_is_done_of_a_piece_is_told_before_its_result(engine, answer):
    told = {}

    def tell(number, share):
        assert 0 <= share <= 1
        assert share >= told.get(number, 0)
        told[number] = share

    pieces = [7, "wait", *range(20)]
    for done, _ in enumerate(engine.map(answer(), pieces, tell), 1):
        assert list(told.values()).count(1) >= done
    assert told == dict.fromkeys(range(len(pieces)), 1)


def test_a_stopped_maps_pieces_are_not_told_to_the_next(engine, answer):
    results = engine.map(answer(), ["wait"] * 20, lambda *_: None)
    next(results)
    results.close()
    told = []
    assert list(engine.map(answer(), [3], lambda *of: told.append(of))) == [3]
    assert {number for number, _ in told} == {0}


def test_pieces_are_drawn_only_as_workers_become_free(engine, answer):
    drawn = []

    def pieces():
        for i in range(100):
            drawn.append(i)
            yield i

    for done, _ in enumerate(engine.map(answer(), pieces()), 1):
        assert len(drawn) - done <= 2 * 2


def test_workers_have_one_thread_and_not_the_callers_script(engine, answer):
    before = dict(os.environ), sys.modules["__main__"]
    assert set(engine.map(answer(), ["threads"] * 8)) == {("1", "1")}
    assert ("pytest", True) not in set(engine.map(answer(), ["main"] * 8))
    assert (dict(os.environ), sys.modules["__main__"]) == before


def test_a_relative_path_means_the_same_in_a_worker(engine, answer, tmp_path, monkeypatch):
    if isinstance(engine, LocalEngine):
        assert list(engine.map(answer(), ["folder"])) == [str(Path.cwd())]
        return
    monkeypatch.chdir(tmp_path)
    assert set(engine.map(answer(7), ["folder"] * 4)) == {str(tmp_path)}


def test_it_may_be_used_from_another_thread(engine, answer):
    found = []
    thread = threading.Thread(target=lambda: found.extend(engine.map(answer(), [5])))
    thread.start()
    thread.join()
    assert found == [5]


def test_an_error_comes_back_as_itself_and_the_engine_goes_on(engine, answer):
    def error_of(*pieces):
        with pytest.raises(Exception) as error:  # noqa: PT011  its type is looked at below
            list(engine.map(answer(), pieces))
        return type(error.value), str(error.value)

    assert error_of(1, "full", 2) == (StorageError, "the disk is full")
    given = MissingDependencyError("A test", "models")
    assert error_of("missing") == (MissingDependencyError, str(given))
    assert error_of("bug") == (KeyError, "'no such key'")
    assert list(engine.map(answer(), [3])) == [3]


def test_a_caller_may_stop_in_the_middle(engine, answer):
    results = engine.map(answer(), range(1000))
    next(results)
    results.close()
    assert list(engine.map(answer(), [3])) == [3]


@pytest.mark.parametrize("kind", [LocalEngine, RayEngine])
def test_it_has_to_be_started_and_have_a_worker(kind):
    with pytest.raises(WorkerError, match=kind.__name__):
        next(iter(kind(1).map(Answer(), [1])))
    for none in (0, -1):
        with pytest.raises(UsageError, match=f"^`workers` must .*{none}"):
            kind(none)
    assert kind().workers >= 1
