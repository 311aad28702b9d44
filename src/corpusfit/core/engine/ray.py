"""Runs jobs on a Ray cluster: plain jobs as tasks, jobs that encode on actors."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import uuid
from collections.abc import Generator, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from corpusfit.core.artifacts import is_local, write_bytes
from corpusfit.core.engine.actors import AHEAD, RETRIES, RUNTIME, Crew, Order, lost, outcome
from corpusfit.core.engine.contract import Engine, Job, OnShare, Piece, Result
from corpusfit.core.engine.worker import packed
from corpusfit.core.errors import WorkerError, bad_setting, importing, raise_machine_fault

_Numbered = Generator[tuple[int, Any], None, None]
"""Results with the numbers of their pieces."""


class RayEngine(Engine):
    """Workers on a Ray cluster: that of this process, a running one, or one that it starts.

    Pieces of a lost worker or node run again on others. Every node must see the run's folder and
    the cache, so these are on shared storage. The number of pieces in flight depends on the size of
    the cluster at the start of the command.

    Reference: https://docs.ray.io/en/latest/ray-core/fault_tolerance/tasks.html

    Args:
        workers: number of pieces in parallel (default: one per CPU of the cluster, or one per core
            for a cluster that it starts).

    Raises:
        UsageError: workers is below 1.
    """

    def __init__(self, workers: int | None = None) -> None:
        super().__init__(workers)
        self._limit = workers
        self._ray: Any = None
        self._connected = False  # whether this engine connected, and must disconnect
        self._crew: Crew | None = None

    def __enter__(self) -> RayEngine:
        with importing("`engine=ray`", "ray"):
            import ray
        self._connected = not ray.is_initialized()
        if self._connected:
            _connect(ray, self.workers)
        self._ray = ray
        if self._limit is None:
            self.workers = max(1, self._count("CPU"))
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the workers, and leave the cluster if this engine connected to it."""
        if self._ray is None:
            return
        self._dismiss()
        if self._connected:
            self._ray.shutdown()
        self._ray = None

    def map(
        self,
        job: Job[Piece, Result],
        pieces: Iterable[Piece],
        on_share: OnShare | None = None,
    ) -> Iterator[Result]:
        """Run a job on every piece; see `Engine.map`."""
        if self._ray is None:
            raise WorkerError("The engine is not started. Use `with RayEngine() as engine:`.")
        name, data = packed(job)
        order = Order(name, str(Path.cwd()), self._ray.put(data))
        results = (self._on_actors if job.encodes else self._as_tasks)(order, enumerate(pieces))
        return _told(results, on_share)

    def require_shared(self, folder: Path, setting: str) -> None:
        """Write a file and look for it from every node; see `Engine.require_shared`."""
        ray = self._ray
        nodes = [n["NodeID"] for n in ray.nodes() if n["Alive"] and n["Resources"].get("CPU")]
        if not is_local(folder) or nodes == [ray.get_runtime_context().get_node_id()]:
            return
        probe = folder.absolute() / f"shared-{uuid.uuid4().hex}"
        write_bytes(probe, b"")
        try:
            check = partial(ray.remote(_sees).options, num_cpus=0, runtime_env=RUNTIME)
            # `soft`: another node answers for one that was lost meanwhile
            on_node = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
            answers = [
                check(scheduling_strategy=on_node(n, soft=True)).remote(probe) for n in nodes
            ]
            unseen = [a for a in answers if not outcome(ray, a)]
        finally:
            probe.unlink()
        if unseen:
            raise bad_setting(
                setting,
                "a folder that every node of the cluster sees, or a URL such as s3://bucket/run",
                str(folder),
                f"{len(unseen)} of {len(nodes)} nodes do not see {folder}. Use shared storage.",
            )

    def _as_tasks(self, order: Order, pieces: Iterator[Any]) -> _Numbered:
        """Run pieces as tasks; Ray repeats those whose worker or node is lost.

        If the caller stops early, tasks in flight end with the connection. They are not cancelled:
        Ray 2.60 aborts the process when a task ends while it is being cancelled.
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

    def _on_actors(self, order: Order, pieces: Iterator[Any]) -> _Numbered:
        """Run pieces on actors, which stay for the next job that encodes."""
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
        """The cluster's amount of a resource."""
        return int(self._ray.cluster_resources().get(resource, 0))


def _told(results: _Numbered, on_share: OnShare | None) -> Iterator[Any]:
    """The results, each after a call that its piece, which has this number, is done."""
    with contextlib.closing(results):
        for number, result in results:
            if on_share is not None:
                on_share(number, 1.0)
            yield result


def _do(order: Order, piece: tuple[int, Any]) -> tuple[int, Any]:
    """In a worker: run a numbered piece."""
    return piece[0], order.work()(piece[1])


def _sees(probe: Path) -> bool:
    """In a worker: whether it sees a file."""
    return probe.exists()


def _connect(ray: Any, cores: int) -> None:
    """Connect to the cluster of RAY_ADDRESS or to a running one, or start one, without logs."""
    quiet = {"log_to_driver": False, "logging_level": logging.CRITICAL}
    address = os.environ.get("RAY_ADDRESS") or "auto"
    if address != "local":
        try:
            ray.init(address=address, **quiet)
        except ConnectionError as e:
            if address != "auto":
                raise bad_setting(
                    "RAY_ADDRESS",
                    "the address of a running Ray cluster",
                    address,
                    "Start the cluster with `ray start --head`, or unset RAY_ADDRESS to start one "
                    "on this machine.",
                ) from e
        else:
            return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        ray.init(address="local", num_cpus=cores, include_dashboard=False, **quiet)
    except (OSError, RuntimeError) as e:
        raise_machine_fault(e, "Ray does not start")
        reason = str(e).partition("\n")[0]
        raise WorkerError(
            f"Ray does not start on this machine: {reason}. `ray start --head` shows more; "
            "`engine=local` works without it."
        ) from e
