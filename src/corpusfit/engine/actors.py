"""Workers on a Ray cluster that keep an encoder open: Ray actors.

What: a crew of actors, one a GPU, or one a CPU where the cluster has no GPU; a piece goes to
whichever is ready, and to another when its actor is lost.
Why: a task on a GPU gets a new process each time, and an encoder takes longer to load than a shard
takes to encode.
Trade-off: an actor that is lost is replaced by a new one rather than restarted by Ray, which would
hold the pieces back until the lost node's place is filled.
Reference: https://docs.ray.io/en/latest/ray-core/fault_tolerance/actors.html
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from corpusfit.engine.worker import ENVIRONMENT, opened
from corpusfit.errors import WorkerError

AHEAD = 2  # pieces in flight for each worker: one being done, one waiting
RETRIES = 3  # how often a piece is done again whose worker was lost
RUNTIME = {"env_vars": ENVIRONMENT}


@dataclass(frozen=True)
class Order:
    """A job as it travels with a piece: where a worker gets it that has not opened it yet.

    Attributes:
        name: as `packed` gave it.
        home: the folder that relative paths start from.
        job: Ray's reference to the bytes of `packed`.
    """

    name: str
    home: str
    job: Any

    def work(self) -> Callable[[Any], Any]:
        """In a worker: what to do with a piece."""
        return opened(self.name, self._fetch)

    def _fetch(self) -> bytes:
        import ray

        with contextlib.suppress(OSError):  # a node without that folder can still use URLs
            os.chdir(self.home)
        data: bytes = ray.get(self.job)
        return data


class EncoderActor:
    """One actor."""

    def ready(self) -> None:
        """Answered as soon as the actor has its place."""

    def do(self, order: Order, piece: Any) -> Any:
        """Do a piece."""
        return order.work()(piece)


class Crew:
    """Actors that share the pieces of one job after another.

    Args:
        ray: the module, connected to a cluster.
        size: actors at most.
        gpus: GPUs that each of them holds.
    """

    def __init__(self, ray: Any, size: int, gpus: int) -> None:
        self._ray = ray
        self._size = size
        settings = {"num_cpus": 1, "num_gpus": gpus, "max_restarts": 0, "runtime_env": RUNTIME}
        self._hand = ray.remote(EncoderActor).options(**settings)
        self._starting: dict[Any, Any] = {}  # answer to wait for -> actor that may have no place
        self._actors: set[Any] = set()  # those that have one
        self._free: deque[Any] = deque()  # an actor stands here once for each piece it may take
        self._running: dict[Any, tuple[Any, Any, int]] = {}  # answer -> actor, piece, times lost
        self._failures = 0

    @property
    def busy(self) -> bool:
        """Whether pieces are being done."""
        return bool(self._running)

    def map(self, order: Order, pieces: Iterator[Any]) -> Iterator[Any]:
        """Do every piece; results in the order they are finished.

        Raises:
            WorkerError: a piece's worker was lost again and again.
        """
        todo: deque[tuple[Any, int]] = deque()
        while True:
            room = self._size * AHEAD - len(self._running) - len(todo)
            todo.extend((piece, 0) for piece in islice(pieces, max(0, room)))
            if not todo and not self._running:
                return
            self._hand_out(order, todo)
            for answer in self._ray.wait([*self._running, *self._starting])[0]:
                if answer in self._starting:
                    self._welcome(answer)
                else:
                    yield from self._collect(answer, todo)

    def dismiss(self) -> None:
        """Stop all of them, whatever they do."""
        for actor in (*self._actors, *self._starting.values()):
            self._ray.kill(actor)

    def _hand_out(self, order: Order, todo: deque[tuple[Any, int]]) -> None:
        """Give pieces to the actors that are free; start more if pieces are left over."""
        while todo and self._free:
            actor, (piece, times) = self._free.popleft(), todo.popleft()
            self._running[actor.do.remote(order, piece)] = actor, piece, times
        while len(self._starting) < min(len(todo), self._size - len(self._actors)):
            actor = self._hand.remote()
            self._starting[actor.ready.remote()] = actor

    def _welcome(self, answer: Any) -> None:
        """An actor has its place, or was lost before it could begin."""
        actor = self._starting.pop(answer)
        try:
            outcome(self._ray, answer)
        except self._ray.exceptions.RayError as e:
            self._failures += 1
            if self._failures > RETRIES:
                raise lost(e) from e
        else:
            self._failures = 0
            self._actors.add(actor)
            self._free.extend([actor] * AHEAD)

    def _collect(self, answer: Any, todo: deque[tuple[Any, int]]) -> Iterator[Any]:
        """A result, or a piece that has to be done again because its actor was lost."""
        actor, piece, times = self._running.pop(answer)
        try:
            result = outcome(self._ray, answer)
        except self._ray.exceptions.RayError as e:
            if times == RETRIES:
                raise lost(e) from e
            todo.appendleft((piece, times + 1))
            self._actors.discard(actor)
            self._free = deque(other for other in self._free if other != actor)
            self._ray.kill(actor)
        else:
            self._free.append(actor)
            yield result


def outcome(ray: Any, answer: Any) -> Any:
    """A result; an error of the work comes as itself, one of Ray's is a `RayError`."""
    try:
        return ray.get(answer)
    except ray.exceptions.RayTaskError as e:
        raise e.cause from e


def lost(error: Exception) -> WorkerError:
    """The sentence for a piece that was tried often enough."""
    return WorkerError(
        f"A piece of work was given up after {RETRIES + 1} attempts ({type(error).__name__}): the "
        "workers that had it died, most likely for want of memory. Run the same command again "
        "with fewer --workers, or on nodes with more memory: finished shards are kept."
    )
