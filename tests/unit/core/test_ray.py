"""A Ray cluster: which one is used, and what happens when a worker dies."""

import builtins
import os
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from answers import Answer
from corpusfit.core.engine import RayEngine
from corpusfit.core.errors import MissingDependencyError, UsageError, WorkerError

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def ray(own_ray, tmp_path_factory):
    """A cluster that this process uses: two CPUs, with modules and variables of the user's."""
    import ray

    module = tmp_path_factory.mktemp("code") / "users_module"
    module.mkdir()
    (module / "__init__.py").touch()
    environment = {
        "py_modules": [str(module)],
        "env_vars": {"USERS_OWN": "kept", "OMP_NUM_THREADS": "8"},
    }
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env=environment)
    yield ray
    ray.shutdown()


@pytest.fixture(params=[False, True], ids=["plain", "encodes"])
def answer(request):
    return partial(Answer, encodes=request.param)


def test_the_cluster_of_this_process_is_used_and_left_as_it_is(ray):
    with RayEngine() as engine:
        assert engine.workers == 2
        assert list(engine.map(Answer(), [1])) == [1]
    with RayEngine(1) as engine:
        assert engine.workers == 1
    assert ray.is_initialized()


@pytest.mark.long
def test_a_later_engine_opens_its_jobs_anew(ray, answer):
    """As the files that a job has read may have changed."""

    def opened():
        with RayEngine() as engine:
            return {when for _, when in engine.map(answer(), ["where"] * 20)}

    assert opened().isdisjoint(opened())


def test_a_worker_that_dies_costs_only_its_pieces(ray, answer, tmp_path):
    with RayEngine() as engine:
        done = list(engine.map(answer(), [1, tmp_path / "death", *range(2, 21)]))
        tasks = list(engine.map(Answer(1), [1, 2, 3]))  # for which actors have to make room
    assert sorted(d for d in done if isinstance(d, int)) == list(range(1, 21))
    assert sorted(d for d in done if isinstance(d, str)) == ["death"]
    assert sorted(tasks) == [2, 3, 4]


@pytest.mark.long
def test_a_piece_that_always_kills_its_worker_is_an_error_with_a_cure(ray, answer, monkeypatch):
    monkeypatch.setattr("corpusfit.core.engine.ray._RETRIES", 1)
    with (
        pytest.raises(WorkerError, match=r"\b2 attempts.*workers"),
        RayEngine(1) as engine,
    ):
        list(engine.map(answer(), ["die"]))


@pytest.mark.long
def test_the_users_own_runtime_environment_stays(ray, answer):
    with RayEngine(1) as engine:
        done = list(engine.map(answer(), ["environment", "threads"]))
    assert sorted(done) == [("1", "1"), ("users_module", "kept")]


@pytest.mark.long
def test_an_environment_that_cannot_be_set_up_is_not_taken_for_lack_of_memory(
    ray, answer, monkeypatch
):
    monkeypatch.setattr("corpusfit.core.engine.ray._RUNTIME", {"conda": "no-such-environment"})
    with pytest.raises(WorkerError, match=r"runtime_env"), RayEngine(1) as engine:
        list(engine.map(answer(), [1]))


@pytest.mark.long
def test_a_node_that_joins_without_the_shared_folder_is_named(ray, answer):
    folder = Path(f"/proc/self/task/{os.getpid()}")  # only this process has it
    with RayEngine(1) as engine:
        engine.require_shared(folder, "out")
        with pytest.raises(UsageError, match=rf"^out .*{folder}"):
            list(engine.map(answer(9), [1]))


@pytest.mark.long
def test_no_more_pieces_run_at_once_than_asked_for(ray, answer):
    with RayEngine(1) as engine:
        times = sorted(engine.map(answer(), ["when"] * 10))
    assert all(end <= begin for (_, end), (begin, _) in pairwise(times))


@pytest.mark.parametrize(
    ("address", "raised", "error", "said"),
    [
        (
            "10.0.0.1:6379",
            ConnectionError("no"),
            UsageError,
            r"RAY_ADDRESS.*'10\.0\.0\.1:6379'.*ray start",
        ),
        (
            "local",
            RuntimeError("Timed out waiting for file gcs_server_port\nmore"),
            WorkerError,
            r"gcs_server_port\. .*engine=local",
        ),
    ],
)
def test_a_cluster_that_cannot_be_reached_or_started(address, raised, error, said, monkeypatch):
    ray = pytest.importorskip("ray")

    def fail(**_):
        raise raised

    monkeypatch.setattr(ray, "init", fail)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(error, match=said), RayEngine():
        pass


@pytest.mark.parametrize("address", [None, "auto", "local"])
def test_a_cluster_is_started_where_none_runs(monkeypatch, address):
    ray = pytest.importorskip("ray")
    given = []

    def init(address, **settings):
        given.append((address, settings.get("num_cpus")))
        if address != "local":
            raise ConnectionError("none runs")

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "shutdown", lambda: given.append("shutdown"))
    if address:
        monkeypatch.setenv("RAY_ADDRESS", address)
    else:
        monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with RayEngine(5) as engine:
        assert engine.workers == 5
    tried = [] if address == "local" else [("auto", None)]
    assert given == [*tried, ("local", 5), "shutdown"]


def test_without_ray_it_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **more):
        if name == "ray":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with (
        pytest.raises(MissingDependencyError, match=r"engine=ray.*corpusfit\[ray\]"),
        RayEngine(),
    ):
        pass
