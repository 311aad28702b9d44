"""Run jobs on a Ray cluster.

What: pieces of plain jobs as Ray tasks, those of jobs that encode on actors (`actors.py`); on
the cluster that is there, or on one that is started for the command.
Why: a corpus of terabytes is for many machines; whatever one of them had in hand when it was lost
is done again by the others.
Trade-off: every node has to see the run's folder and the cache, so these are on shared storage;
and how many pieces are in flight is settled by the cluster's size when the command begins.
Reference: https://docs.ray.io/en/latest/ray-core/fault_tolerance/tasks.html
"""

from __future__ import annotations

import itertools
import logging
import os
import uuid
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from corpusfit.artifacts import is_local, write_bytes
from corpusfit.engine.actors import AHEAD, RETRIES, RUNTIME, Crew, Order, lost, outcome
from corpusfit.engine.contract import Engine, Job, Piece, Result
from corpusfit.engine.worker import packed
from corpusfit.errors import MissingDependencyError, WorkerError, bad_setting


class RayEngine(Engine):
    """Workers on a Ray cluster: the one this process uses, the one that runs, or one of its own.

    Args:
        workers: how many pieces are worked on at once; None takes one for each of the cluster's
            CPUs, or for each core where a cluster has to be started.

    Raises:
        UsageError: workers is below 1.
    """

    def __init__(self, workers: int | None = None) -> None:
        super().__init__(workers)
        self._limit = workers
        self._ray: Any = None
        self._connected = False  # by us, so ours to leave
        self._crew: Crew | None = None

    def __enter__(self) -> RayEngine:
        """Connect to the cluster, or start one.

        Raises:
            MissingDependencyError: Ray is not installed.
            UsageError: RAY_ADDRESS names a cluster that cannot be reached.
        """
        try:
            import ray
        except ImportError as e:
            raise MissingDependencyError("--engine ray", "ray") from e
        self._connected = not ray.is_initialized()
        if self._connected:
            _connect(ray, self.workers)
        self._ray = ray
        if self._limit is None:
            self.workers = max(1, self._count("CPU"))
        return self

    def __exit__(self, *_: object) -> None:
        """Let the workers go, and the cluster if it was connected or started here."""
        if self._ray is None:
            return
        self._dismiss()
        if self._connected:
            self._ray.shutdown()
        self._ray = None

    def map(self, job: Job[Piece, Result], pieces: Iterable[Piece]) -> Iterator[Result]:
        """Do a job on every piece; see `Engine.map`."""
        if self._ray is None:
            raise WorkerError("The engine is not started: use it as `with RayEngine() as engine`.")
        name, data = packed(job)
        order = Order(name, str(Path.cwd()), self._ray.put(data))
        return (self._on_actors if job.encodes else self._as_tasks)(order, iter(pieces))

    def require_shared(self, folder: Path, setting: str) -> None:
        """Look for a file of ours from every node; see `Engine.require_shared`."""
        ray = self._ray
        nodes = [n["NodeID"] for n in ray.nodes() if n["Alive"] and n["Resources"].get("CPU")]
        if not is_local(folder) or nodes == [ray.get_runtime_context().get_node_id()]:
            return
        note = folder.absolute() / f"shared-{uuid.uuid4().hex}"
        write_bytes(note, b"")
        try:
            look = partial(ray.remote(_sees).options, num_cpus=0, runtime_env=RUNTIME)
            # a node that was lost meanwhile is answered for by another
            there = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
            answers = [look(scheduling_strategy=there(n, soft=True)).remote(note) for n in nodes]
            blind = [a for a in answers if not outcome(ray, a)]
        finally:
            note.unlink()
        if blind:
            raise bad_setting(
                setting,
                "a folder that every node of the cluster sees, or a URL such as s3://bucket/run",
                str(folder),
                f"{len(blind)} of {len(nodes)} nodes do not see it.",
            )

    def _as_tasks(self, order: Order, pieces: Iterator[Any]) -> Iterator[Any]:
        """Pieces as tasks; Ray itself does those again whose worker or node is lost.

        A caller that stops early leaves those in flight to end with the connection. To cancel them
        is not safe: Ray 2.60 aborts the process when a task ends while it is being cancelled.
        """
        self._dismiss()  # the actors hold CPUs that tasks need
        ray, room = self._ray, self._limit or self.workers * AHEAD
        do = ray.remote(_do).options(num_cpus=1, max_retries=RETRIES, runtime_env=RUNTIME)
        running: list[Any] = []
        while True:
            for piece in itertools.islice(pieces, room - len(running)):
                running.append(do.remote(order, piece))
            if not running:
                return
            done, running = ray.wait(running)
            try:
                result = outcome(ray, done[0])
            except ray.exceptions.RayError as e:
                raise lost(e) from e
            yield result

    def _on_actors(self, order: Order, pieces: Iterator[Any]) -> Iterator[Any]:
        """Pieces to actors, which stay for the next job that encodes."""
        if self._crew is None:
            gpus = self._count("GPU")
            size = min(self.workers, gpus) if gpus else self.workers
            self._crew = Crew(self._ray, size, min(gpus, 1))
        try:
            yield from self._crew.map(order, pieces)
        finally:
            if self._crew.busy:
                self._dismiss()

    def _dismiss(self) -> None:
        if self._crew is not None:
            self._crew.dismiss()
            self._crew = None

    def _count(self, resource: str) -> int:
        """How many of a resource the cluster has."""
        return int(self._ray.cluster_resources().get(resource, 0))


def _do(order: Order, piece: Any) -> Any:
    """In a worker: do a piece."""
    return order.work()(piece)


def _sees(note: Path) -> bool:
    """In a worker: whether a file is there."""
    return note.exists()


def _connect(ray: Any, cores: int) -> None:
    """Connect to the cluster that RAY_ADDRESS names or that runs here, or start one, quietly."""
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    address = os.environ.get("RAY_ADDRESS") or "auto"
    if address != "local":
        try:
            ray.init(address=address, **quiet)
        except ConnectionError as e:
            if address != "auto":
                raise bad_setting(
                    "RAY_ADDRESS",
                    "the address of a Ray cluster that runs",
                    address,
                    "Start it with `ray start`, or unset RAY_ADDRESS to have one started here.",
                ) from e
        else:
            return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(address="local", num_cpus=cores, include_dashboard=False, **quiet)
