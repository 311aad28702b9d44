"""Runs jobs on a Ray cluster: plain jobs as tasks, jobs that encode on actors."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import tempfile
import time
import uuid
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from corpusfit.core.artifacts import is_local, write_bytes
from corpusfit.core.engine.contract import Engine, Job, OnShare, Piece, Result
from corpusfit.core.engine.worker import ENVIRONMENT, feed, opened, packed
from corpusfit.core.errors import WorkerError, bad_setting, importing, raise_machine_fault

_AHEAD = 2  # pieces in flight per worker: one in progress, one waiting
_FEEDING = 8  # most tasks that tokenise for each GPU
_RETRIES = 3  # repetitions of a piece whose worker was lost
_LOOK_S = 1.0  # seconds after which the size of the cluster is looked up again
_PATIENCE_S = 20.0  # seconds without any worker after which the user is told
_RUNTIME = {"env_vars": ENVIRONMENT}


@dataclass(frozen=True)
class _Order:
    """A reference to a job, which travels with each piece; a worker fetches the job once."""

    name: str
    home: str  # folder that relative paths start from
    shared: dict[Path, str]  # folders that every node must see, and the settings that name them
    job: Any  # Ray's reference to the bytes of `packed`

    def work(self) -> Callable[[Any], Any]:
        """In a worker: the function to call with a piece."""
        import ray

        return self.opened(self.name, partial(ray.get, self.job))

    def opened(self, name: str, data: Callable[[], bytes]) -> Callable[[Any], Any]:
        """In a worker: the function of this job, or of one that it leaves to a GPU."""

        def fetch() -> bytes:
            # without that folder, absolute paths and URLs still work
            with contextlib.suppress(OSError):
                os.chdir(self.home)
            # the node may have joined after `require_shared` asked all of them
            for folder, setting in self.shared.items():
                if not folder.exists():
                    raise _unshared(folder, setting, "A node that joined later does")
            return data()

        return opened(name, fetch)


class _EncoderActor:
    """An actor that runs pieces and keeps its job open."""

    def ready(self) -> None:
        """Return as soon as the actor has started."""

    def do(self, order: _Order, piece: tuple[int, Any]) -> tuple[int, Any]:
        """Run a numbered piece."""
        return _do(order, piece)

    def run(self, order: _Order, name: str, data: bytes, piece: Any) -> Any:
        """Run a job that a task leaves to this actor, see `worker.on_device`."""
        # named within the engine, as the order
        return order.opened(f"{order.name.partition(' ')[0]} {name}", lambda: data)(piece)


class _Crew:
    """Actors that keep an encoder open and share the pieces of a job, one job after another.

    A piece whose actor is lost goes to another one. Lost actors are replaced by new ones; Ray's own
    restart would hold pieces back until the lost node is replaced.

    While pieces are left, twice as many actors are started as the cluster has room for. Those that
    wait ask an autoscaler for nodes, and begin on any node that joins.

    Reference: https://docs.ray.io/en/latest/ray-core/fault_tolerance/actors.html
    """

    # `room` is the number of actors for which the cluster has room now, at most `limit`; `wait` is
    # `RayEngine._wait`
    def __init__(
        self,
        ray: Any,
        gpus: int,
        room: Callable[[], int],
        limit: int | None,
        wait: Callable[..., list[Any]],
    ) -> None:
        self._ray = ray
        self._room = room
        self._limit = limit
        self._wait = wait
        # one with a GPU leaves the CPUs to the tasks that feed it
        self._actor_class = ray.remote(_EncoderActor).options(
            num_cpus=1 - gpus, num_gpus=gpus, max_restarts=0, runtime_env=_RUNTIME
        )
        self._task = ray.remote(_do).options(num_cpus=1, max_retries=0, runtime_env=_RUNTIME)
        self._feeding = 0
        self._ahead = _AHEAD
        self._starting: dict[Any, Any] = {}  # answer to wait for -> actor that is starting
        self._actors: set[Any] = set()  # actors that have started
        self._free: deque[Any] = deque()  # free actors, once per piece that they can take
        # by answer: the actor, the piece and how many attempts were lost
        self._running: dict[Any, tuple[Any, Any, int]] = {}
        self._failures = 0

    @property
    def busy(self) -> bool:
        """Whether pieces are in progress."""
        return bool(self._running)

    def map(self, order: _Order, pieces: Iterator[Any], feeding: int = 0) -> Iterator[Any]:
        """Run every piece; yields results in the order of completion.

        With `feeding`, tasks run the pieces, so many for each actor, and leave to it what is for
        its GPU. A task that is lost counts as its actor.
        """
        self._feeding = feeding
        self._ahead = feeding or _AHEAD
        self._free = deque(list(self._actors) * self._ahead)
        todo: deque[tuple[Any, int]] = deque()
        while True:
            room = self._room()
            size = min(2 * room, self._limit or 2 * room)
            # beside those of the actors at work, a piece for each actor that waits for its node
            free = room * self._ahead + (size - room) - len(self._running) - len(todo)
            todo.extend((piece, 0) for piece in itertools.islice(pieces, max(0, free)))
            if not todo and not self._running:
                return
            self._assign(order, todo, size)
            answers = [*self._running, *self._starting]
            for answer in self._wait(answers, working=bool(self._actors)):
                if answer in self._starting:
                    self._on_started(answer)
                else:
                    yield from self._on_finished(answer, todo)

    def dismiss(self) -> None:
        """Stop all actors at once."""
        for actor in (*self._actors, *self._starting.values()):
            self._ray.kill(actor)

    def _assign(self, order: _Order, todo: deque[tuple[Any, int]], size: int) -> None:
        """Give pieces to free actors; start more actors if pieces remain."""
        while todo and self._free:
            actor = self._free.popleft()
            (piece, times) = todo.popleft()
            if self._feeding:
                answer = self._task.remote(order, piece, actor)
            else:
                answer = actor.do.remote(order, piece)
            self._running[answer] = actor, piece, times
        while len(self._starting) < min(len(todo), size - len(self._actors)):
            actor = self._actor_class.remote()
            self._starting[actor.ready.remote()] = actor

    def _on_started(self, answer: Any) -> None:
        """Handle an actor that has started, or was lost before."""
        actor = self._starting.pop(answer)
        try:
            _outcome(self._ray, answer)
        except self._ray.exceptions.RayError as e:
            self._failures += 1
            # a lost node takes all actors with it that were starting there
            if self._failures > _RETRIES * self._room():
                raise _lost(e) from e
        else:
            self._failures = 0
            self._actors.add(actor)
            self._free.extend([actor] * self._ahead)

    def _on_finished(self, answer: Any, todo: deque[tuple[Any, int]]) -> Iterator[Any]:
        """Yield a result, or requeue the piece of a lost actor."""
        actor, piece, times = self._running.pop(answer)
        try:
            result = _outcome(self._ray, answer)
        except self._ray.exceptions.RayError as e:
            if times == _RETRIES:
                raise _lost(e) from e
            todo.appendleft((piece, times + 1))
            self._actors.discard(actor)
            self._free = deque(other for other in self._free if other != actor)
            self._ray.kill(actor)
        else:
            self._free.append(actor)
            yield result


def _outcome(ray: Any, answer: Any) -> Any:
    """A result; raises the job's own error, or a `RayError` for a lost worker."""
    try:
        return ray.get(answer)
    except ray.exceptions.RayTaskError as e:
        raise e.cause from e


def _lost(error: Exception) -> WorkerError:
    """The error for a piece that failed in every attempt."""
    reason = str(error)
    if type(error).__name__ == "RuntimeEnvSetupError" or "No module named 'corpusfit'" in reason:
        reason = reason.strip().rpartition("\n")[2]
        return WorkerError(
            f"A node of the Ray cluster cannot run corpusfit: {reason}. Every node needs corpusfit "
            "with the same extras and versions as this one, installed or by Ray's `runtime_env`."
        )
    return WorkerError(
        f"A piece of work failed in {_RETRIES + 1} attempts ({type(error).__name__}): its workers "
        "died, most likely because they ran out of memory. Run the same command again with fewer "
        "`workers`, or on nodes with more memory; finished shards are kept."
    )


_Numbered = Generator[tuple[int, Any], None, None]  # results with the numbers of their pieces


class RayEngine(Engine):
    """Workers on a Ray cluster: that of this process, a running one, or one that it starts.

    Pieces of a lost worker or node run again on others. Every node must see the run's folder and
    the cache, so these are on shared storage.

    Without `workers` there is one per CPU of the cluster, or one per core for a cluster that it
    starts. The cluster is looked at again while pieces are drawn, so nodes that join are used. Each
    worker has a piece that waits, and a cluster without CPUs gets two: an autoscaler takes them as
    demand, so that it doubles the cluster as long as pieces are left. (Its `request_resources` is
    not used: a request outlives the command that makes it, and replaces that of another.)

    One command encodes on one kind of device, on which the bits of embeddings depend: on GPUs if
    the cluster has any when the first encoder starts, or if the plan asks for them.

    Attributes:
        workers: without a limit, the CPUs of the cluster when it was last looked at.

    References: https://docs.ray.io/en/latest/ray-core/fault_tolerance/tasks.html,
    https://docs.ray.io/en/latest/ray-core/patterns/limit-pending-tasks.html
    """

    def __init__(self, workers: int | None = None) -> None:
        super().__init__(workers)
        self._limit = workers
        self._ray: Any = None
        self._connected = False  # whether this engine opened the connection, and must close it
        self._crew: _Crew | None = None
        self._gpus: int | None = None  # of each actor; None until the first one starts
        self._shared: dict[Path, str] = {}
        self._resources: dict[str, float] = {}  # of the cluster, when it was last looked at
        self._look_at = 0.0  # when to look again
        self._worked_at = 0.0  # when there was a worker, or a map began
        self._told = False  # whether the user was told of a wait for workers
        # workers outlive this engine, and the files of the job they keep open may change after it
        self._id = uuid.uuid4().hex

    def __enter__(self) -> RayEngine:
        with importing("`engine=ray`", "ray"):
            import ray
        self._connected = not ray.is_initialized()
        if self._connected:
            _connect(ray, self.workers)
        self._ray = ray
        self._room()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the workers, and leave the cluster if this engine connected to it."""
        if self._ray is None:
            return
        self._dismiss()
        if self._connected:
            self._ray.shutdown()
        self._ray = None

    def _map(
        self, job: Job[Piece, Result], pieces: Iterable[Piece], on_share: OnShare | None
    ) -> Generator[Result, None, None]:
        """Run a job on every piece; see `Engine.map`."""
        if self._ray is None:
            raise WorkerError("The engine is not started. Use `with RayEngine() as engine:`.")
        self._worked_at = time.monotonic()
        name, data = packed(job)
        shared = {folder: setting for folder, setting in self._shared.items() if folder.exists()}
        order = _Order(f"{self._id} {name}", str(Path.cwd()), shared, self._ray.put(data))
        if job.encodes:
            results = self._on_actors(order, enumerate(pieces), feeds=job.devices is not None)
        else:
            results = self._as_tasks(order, enumerate(pieces))
        with contextlib.closing(results):
            for number, result in results:
                if on_share is not None:
                    on_share(number, 1.0)
                yield result

    def require_shared(self, folder: Path, setting: str) -> None:
        """Write a file and look for it from every node; see `Engine.require_shared`."""
        ray = self._ray
        if is_local(folder):
            self._shared[folder.absolute()] = setting
        nodes = [n["NodeID"] for n in ray.nodes() if n["Alive"] and n["Resources"].get("CPU")]
        if not is_local(folder) or nodes == [ray.get_runtime_context().get_node_id()]:
            return
        probe = folder.absolute() / f"shared-{uuid.uuid4().hex}"
        write_bytes(probe, b"")
        try:
            check = partial(ray.remote(_sees).options, num_cpus=0, runtime_env=_RUNTIME)
            # `soft`: another node answers for one that was lost meanwhile
            on_node = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
            answers = [
                check(scheduling_strategy=on_node(n, soft=True)).remote(probe) for n in nodes
            ]
            unseen = [a for a in answers if not _outcome(ray, a)]
        finally:
            probe.unlink()
        if unseen:
            raise _unshared(folder, setting, f"{len(unseen)} of {len(nodes)} nodes do")

    def _as_tasks(self, order: _Order, pieces: Iterator[Any]) -> _Numbered:
        """Run pieces as tasks; Ray repeats those whose worker or node is lost."""
        # if the caller stops early, tasks in flight end with the connection: they are not
        # cancelled, as Ray 2.60 aborts the process when a task ends while it is being cancelled
        self._dismiss()  # the actors hold CPUs that tasks need
        ray = self._ray
        do = ray.remote(_do).options(num_cpus=1, max_retries=_RETRIES, runtime_env=_RUNTIME)
        running: list[Any] = []
        while True:
            free = (self._limit or self._room() * _AHEAD) - len(running)
            for piece in itertools.islice(pieces, max(0, free)):
                running.append(do.remote(order, piece))
            if not running:
                return
            for answer in self._wait(running, working=self._count("CPU") > 0):
                running.remove(answer)
                try:
                    result = _outcome(ray, answer)
                except ray.exceptions.RayError as e:
                    raise _lost(e) from e
                yield result

    def _on_actors(self, order: _Order, pieces: Iterator[Any], *, feeds: bool) -> _Numbered:
        """Run pieces on actors, which stay for the next job that encodes."""
        if self._gpus is None:
            self._gpus = int(self.needs_gpu or self._count("GPU") > 0)
        self.fed = self._room_to_encode() if self._gpus and feeds else 0
        feeding = min(_FEEDING, max(_AHEAD, self._room() // self.fed)) if self.fed else 0
        if self._crew is None:
            self._crew = _Crew(self._ray, self._gpus, self._room_to_encode, self._limit, self._wait)
        try:
            yield from self._crew.map(order, pieces, feeding)
        finally:
            if self._crew.busy:
                self._dismiss()

    def _dismiss(self) -> None:
        if self._crew is not None:
            self._crew.dismiss()
            self._crew = None

    def _count(self, resource: str) -> int:
        """The cluster's amount of a resource, a second ago at most."""
        if (now := time.monotonic()) >= self._look_at:
            self._resources = self._ray.cluster_resources()
            self._look_at = now + _LOOK_S
        return int(self._resources.get(resource, 0))

    def _room(self) -> int:
        """How many workers the cluster has room for, at most `workers`; at least one, who waits."""
        if self._limit is None:
            self.workers = max(1, self._count("CPU"))
        return self.workers

    def _room_to_encode(self) -> int:
        """How many actors the cluster has room for; as `_room`."""
        return max(1, min(self._room(), self._count("GPU"))) if self._gpus else self._room()

    def _wait(self, answers: list[Any], *, working: bool) -> list[Any]:
        """Wait for an answer, but not longer than until the cluster is looked at again.

        Tells the user once if there was no worker for long.
        """
        done: list[Any] = self._ray.wait(answers, timeout=_LOOK_S)[0]
        now = time.monotonic()
        if done or working:
            self._worked_at = now
        elif now - self._worked_at >= _PATIENCE_S and not self._told:
            self._told = True
            lacking = "GPU" if self._gpus and self._crew is not None else "CPU"
            self.on_wait(
                f"Still waiting for the Ray cluster to start a worker, which needs a free "
                f"{lacking}. The command goes on by itself when there is one; `ray status` shows "
                "what is free and what is asked for."
            )
        return done


def _do(order: _Order, piece: tuple[int, Any], actor: Any = None) -> tuple[int, Any]:
    """In a worker: run a numbered piece, which may leave what is for a GPU to an actor."""

    def on_actor(job: Job[Any, Any], part: Any) -> Any:
        import ray

        return _outcome(ray, actor.run.remote(order, *packed(job), part))

    feed(None if actor is None else on_actor)
    return piece[0], order.work()(piece[1])


def _unshared(folder: Path, setting: str, who: str) -> Exception:
    """The error for a folder that some nodes do not see."""
    return bad_setting(
        setting,
        "a folder that every node of the cluster sees, or a URL such as s3://bucket/run",
        str(folder),
        f"{who} not see {folder}. Use shared storage.",
    )


def _sees(probe: Path) -> bool:
    """In a worker: whether it sees a file."""
    return probe.exists()


def _connect(ray: Any, cores: int) -> None:
    """Connect to the cluster of RAY_ADDRESS or to a running one, or start one, without logs."""
    # Ray's workers import from the folder that its driver is in, which may be one of data, unless
    # they have a working folder: an empty one, that Ray copies to every node
    with tempfile.TemporaryDirectory(prefix="corpusfit-") as empty:
        _init(ray, cores, {"working_dir": empty})


def _init(ray: Any, cores: int, runtime_env: dict[str, str]) -> None:
    settings = {
        "log_to_driver": False,
        "logging_level": logging.CRITICAL,
        "runtime_env": runtime_env,
    }
    address = os.environ.get("RAY_ADDRESS") or "auto"
    if address != "local":
        try:
            ray.init(address=address, **settings)
        except ConnectionError as e:
            # without RAY_ADDRESS, the lack of a running cluster is not an error: start one
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
        ray.init(address="local", num_cpus=cores, include_dashboard=False, **settings)
    except (OSError, RuntimeError) as e:
        raise_machine_fault(e, "Ray does not start")
        reason = str(e).partition("\n")[0]
        raise WorkerError(
            f"Ray does not start on this machine: {reason}. `ray start --head` shows more; "
            "`engine=local` works without it."
        ) from e
