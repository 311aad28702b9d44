"""A cluster of several nodes gives the local engine's bytes, though a node is lost on the way."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from journeys import children, digests

import corpusfit
from answers import Stuck
from corpusfit import Machine
from corpusfit.core.engine import Progress, RayEngine
from corpusfit.core.errors import UsageError

pytestmark = pytest.mark.slow

QUICK = {"health_check_period_ms": 500, "health_check_failure_threshold": 2}
"""A node is known to be lost after a second instead of fifteen."""


@pytest.fixture(scope="module")
def cluster(own_ray):
    """A head and one more node, one CPU each, which this process uses."""
    import ray
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "include_dashboard": False, "_system_config": QUICK}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture
def victim(cluster):
    """A third node, to be lost."""
    node = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    return node


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
    """`select` over more than thirty shards, with a cache of its own."""

    def select(out, machine=Machine, **words):
        given = {"target": task, "corpus": pile, "settings": ["read.shard_mb=0.003"], **words}
        machine = machine(cache=tmp_path / f"cache {out}")
        return corpusfit.select(out=tmp_path / out, machine=machine, **given).path

    return select


def on_ray(progress):
    return lambda cache: Machine("ray", cache=cache, progress=progress)


def test_a_node_lost_while_scoring_changes_nothing(cluster, victim, select, inline):
    words = {"method": "random", "fraction": 0.3}
    whole = digests(select("local", type(inline), **words))
    accident = Accident("score", 10, lambda: cluster.remove_node(victim, allow_graceful=False))
    assert digests(select("ray", on_ray(accident), **words)) == whole
    assert accident.left < -10
    assert len(whole) > 60


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


def test_every_worker_killed_at_once_changes_nothing(cluster, select, inline):
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


def test_a_folder_that_other_nodes_do_not_see_is_named(cluster, tmp_path, monkeypatch):
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
def test_what_a_node_had_in_hand_is_done_by_the_others(cluster, victim, tmp_path, encodes):
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
        job = Stuck(tmp_path, cluster.head_node.node_id, encodes)
        assert sorted(engine.map(job, range(20))) == list(range(20))
    thread.join()
