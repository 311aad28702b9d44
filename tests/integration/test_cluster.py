"""A cluster gives the local engine's bytes while nodes join and are lost; its size is followed."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from journeys import children, digests

import corpusfit
from answers import Answer, Feeding, Stuck
from corpusfit import Machine
from corpusfit.core.engine import Progress, RayEngine
from corpusfit.core.errors import UsageError

pytestmark = pytest.mark.long

QUICK = {"health_check_period_ms": 500, "health_check_failure_threshold": 2}
"""A node is known to be lost after a second instead of fifteen."""


@pytest.fixture(scope="module")
def cluster(own_ray):
    """A head without CPUs, which this process uses; tests add nodes, each a raylet of its own."""
    import ray
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 0, "include_dashboard": False, "_system_config": QUICK}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    ray.init(address=cluster.address, log_to_driver=False)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture
def join(cluster):
    """Adds a node with a CPU; those that the test does not lose are removed after it."""
    joined = []

    def join(**more):
        joined.append(cluster.add_node(num_cpus=1, **more))
        return joined[-1]

    yield join
    for node in joined:
        if node in cluster.list_all_nodes():
            cluster.remove_node(node)


@pytest.fixture(scope="module")
def steady(cluster):
    """A node that stays from the first test that asks for it."""
    return cluster.add_node(num_cpus=1)


@pytest.fixture
def victim(cluster, steady, join):
    """A node beside the steady one, to be lost."""
    node = join()
    cluster.wait_for_nodes()
    return node


@pytest.fixture
def at_once(monkeypatch):
    """A wait for workers is told at once."""
    monkeypatch.setattr("corpusfit.core.engine.ray._PATIENCE_S", 0)


class Accident(Progress):
    """Something happens when so many pieces of a stage are done."""

    def __init__(self, stage, count, happen):
        self.stage, self.left, self.happen = stage, count, happen
        self.now = ""

    def begin(self, stage, total):
        self.now = stage

    def advance(self, done, units=0):
        if self.now == self.stage and units:
            self.left -= 1
            if self.left == 0:
                self.happen()


@pytest.fixture
def select(task, pile, tmp_path):
    """`select` over more than thirty shards, to several parts, with a cache of its own."""

    def select(out, machine=Machine, **words):
        settings = ["read.shard_mb=0.003", "choose.part_mb=0.003"]
        given = {"target": task, "corpus": pile, "settings": settings, **words}
        machine = machine(cache=tmp_path / f"cache {out}")
        return corpusfit.select(out=tmp_path / out, machine=machine, **given).path

    return select


def on_ray(progress):
    return lambda cache: Machine("ray", cache=cache, progress=progress)


# the first test, as there is no steady node yet
def test_nodes_that_join_and_are_lost_while_it_runs_change_nothing(
    cluster, join, select, inline, at_once, monkeypatch
):
    nodes = []

    class Cloud(Accident):
        def warn(self, message):
            assert "CPU" in message
            nodes.append(join())

    def swap():
        nodes.append(join())
        cluster.remove_node(nodes[0], allow_graceful=False)

    words = {"method": "random", "fraction": 0.3}
    whole = digests(select("local", type(inline), **words))
    cloud = Cloud("score", 10, swap)
    monkeypatch.setattr("corpusfit.core.engine.contract.new_progress", lambda: cloud)
    assert digests(select("ray", on_ray(cloud), **words)) == whole
    assert len(nodes) == 2
    assert cloud.left < -10
    assert len(whole) > 40
    assert len([name for name in whole if name.startswith("selected/")]) > 5


@pytest.mark.parametrize("encodes", [False, True])
def test_a_node_that_joins_in_the_middle_of_a_map_is_used(steady, join, encodes):
    seen, joined = set(), []

    def pieces():
        while not seen.issuperset(joined or ["none yet"]):
            yield "node"

    with RayEngine() as engine:
        assert engine.workers == 1
        for node in engine.map(Answer(encodes=encodes), pieces()):
            seen.add(node)
            joined = joined or [join().node_id]
        assert seen == {steady.node_id, *joined}
        assert engine.workers == 2


def test_encoders_wait_for_a_gpu_where_the_plan_wants_one(steady, join, at_once):
    told, nodes = [], []

    def wait(message):
        told.append(message)
        nodes.append(join(num_gpus=1).node_id)

    with RayEngine() as engine:
        engine.needs_gpu, engine.on_wait = True, wait
        assert set(engine.map(Answer(encodes=True), ["node"] * 5)) == set(nodes)
    assert ["GPU" in message for message in told] == [True]


def test_tasks_feed_an_actor_for_each_gpu_and_a_lost_one_is_replaced(join, at_once, tmp_path):
    for _ in range(2):
        join(num_gpus=1)
    pieces, opened = [*range(30), tmp_path / "died"], tmp_path / "opened"
    with RayEngine() as engine:
        answers = list(engine.map(Feeding(opened), pieces))
        assert engine.fed == 2
    assert sorted(str(piece) for _, (_, piece), _ in answers) == sorted(map(str, pieces))
    devices = {device for _, (device, _), _ in answers}
    started = list(map(int, opened.read_text().split()))
    assert devices <= set(started)
    assert 2 <= len(started) == len(set(started)) <= 3  # two, and perhaps one for the dead one
    assert (tmp_path / "died").exists()
    assert not {worker for worker, _, _ in answers} & set(started)


def test_a_node_lost_while_encoding_changes_nothing(
    cluster, victim, select, tiny_static, inline, monkeypatch
):
    """On actors, as a transformer; but its workers need not load torch."""
    words = {"method": "isolation_forest", "embedder": str(tiny_static)}
    whole = digests(select("local", type(inline), **words))
    accident = Accident("embed", 10, lambda: cluster.remove_node(victim, allow_graceful=False))
    monkeypatch.setattr("corpusfit.selection.embedding.wants_gpu", lambda _: True)
    assert digests(select("ray", on_ray(accident), **words)) == whole
    assert accident.left < -10
    assert len(whole) > 40


def test_every_worker_killed_at_once_changes_nothing(cluster, victim, select, inline):
    def kill():
        raylets = [node.all_processes["raylet"][0].process.pid for node in cluster.list_all_nodes()]
        workers = [pid for raylet in raylets for pid in children(raylet) if works(pid)]
        assert workers
        for pid in workers:
            os.kill(pid, signal.SIGKILL)

    words = {"method": "random", "fraction": 0.3}
    whole = digests(select("local", type(inline), **words))
    accident = Accident("score", 10, kill)
    assert digests(select("ray", on_ray(accident), **words)) == whole
    assert accident.left < -10


def test_a_folder_that_other_nodes_do_not_see_is_named(victim, tmp_path, monkeypatch):
    with RayEngine() as engine:
        engine.require_shared(tmp_path, "--out")
        assert list(tmp_path.iterdir()) == []
        monkeypatch.chdir(tmp_path)  # a worker's own folder is another one
        with pytest.raises(UsageError, match=r"out.*\b2 of 2\b"):
            engine.require_shared(Path("/proc/self/cwd"), "--out")
        assert list(tmp_path.iterdir()) == []


def works(pid):
    """Whether a process is one of Ray's workers, busy or idle."""
    return Path(f"/proc/{pid}/cmdline").read_bytes().startswith((b"ray::_do", b"ray::IDLE"))


@pytest.mark.parametrize("encodes", [False, True])
def test_what_a_node_had_in_hand_is_done_by_the_others(cluster, steady, victim, tmp_path, encodes):
    stuck = tmp_path / "stuck"

    def lose():
        while not stuck.exists():
            time.sleep(0.02)
        (node,) = [n for n in cluster.list_all_nodes() if n.node_id == stuck.read_text()]
        cluster.remove_node(node, allow_graceful=False)
        (tmp_path / "lost").touch()

    thread = threading.Thread(target=lose, daemon=True)
    thread.start()
    with RayEngine() as engine:
        job = Stuck(tmp_path, steady.node_id, encodes)
        assert sorted(engine.map(job, range(20))) == list(range(20))
    thread.join()
