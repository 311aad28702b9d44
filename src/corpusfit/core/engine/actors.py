"""Ray actors that keep an encoder open, one per GPU, or one per CPU without GPUs."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from corpusfit.core.engine.worker import ENVIRONMENT, opened
from corpusfit.core.errors import WorkerError

AHEAD = 2  # pieces in flight per worker: one in progress, one waiting
RETRIES = 3  # repetitions of a piece whose worker was lost
RUNTIME = {"env_vars": ENVIRONMENT}


@dataclass(frozen=True)
class Order:
    """A reference to a job, which travels with each piece; a worker fetches the job once.

    Attributes:
        name: name of the job, from `packed`.
        home: folder that relative paths start from.
        job: Ray's reference to the bytes of `packed`.
    """

    name: str
    home: str
    job: Any

    def work(self) -> Callable[[Any], Any]:
        """In a worker: the function to call with a piece."""
        return opened(self.name, self._fetch)

    def _fetch(self) -> bytes:
        import ray

        with contextlib.suppress(OSError):  # a node without that folder can still use URLs
            os.chdir(self.home)
        data: bytes = ray.get(self.job)
        return data


class EncoderActor:
    """An actor that runs pieces and keeps its job open."""

    def ready(self) -> None:
        """Return as soon as the actor has started."""

    def do(self, order: Order, piece: tuple[int, Any]) -> tuple[int, Any]:
        """Run a numbered piece."""
        return piece[0], order.work()(piece[1])


class Crew:
    """Actors that share the pieces of a job, one job after another.

    A piece whose actor is lost goes to another one. Lost actors are replaced by new ones; Ray's own
    restart would hold pieces back until the lost node is replaced.

    Reference: https://docs.ray.io/en/latest/ray-core/fault_tolerance/actors.html

    Args:
        ray: the module, connected to a cluster.
        size: maximum number of actors.
        gpus: GPUs of each actor.
    """

    def __init__(self, ray: Any, size: int, gpus: int) -> None:
        self._ray = ray
        self._size = size
        settings = {"num_cpus": 1, "num_gpus": gpus, "max_restarts": 0, "runtime_env": RUNTIME}
        self._actor_class = ray.remote(EncoderActor).options(**settings)
        self._starting: dict[Any, Any] = {}  # answer to wait for -> actor that is starting
        self._actors: set[Any] = set()  # actors that have started
        self._free: deque[Any] = deque()  # an actor once for each piece it can take
        self._running: dict[Any, tuple[Any, Any, int]] = {}  # answer -> actor, piece, lost attempts
        self._failures = 0

    @property
    def busy(self) -> bool:
        """Whether pieces are in progress."""
        return bool(self._running)

    def map(self, order: Order, pieces: Iterator[Any]) -> Iterator[Any]:
        """Run every piece; yields results in the order of completion."""
        todo: deque[tuple[Any, int]] = deque()
        while True:
            room = self._size * AHEAD - len(self._running) - len(todo)
            todo.extend((piece, 0) for piece in islice(pieces, max(0, room)))
            if not todo and not self._running:
                return
            self._assign(order, todo)
            for answer in self._ray.wait([*self._running, *self._starting])[0]:
                if answer in self._starting:
                    self._on_started(answer)
                else:
                    yield from self._on_finished(answer, todo)

    def dismiss(self) -> None:
        """Stop all actors at once."""
        for actor in (*self._actors, *self._starting.values()):
            self._ray.kill(actor)

    def _assign(self, order: Order, todo: deque[tuple[Any, int]]) -> None:
        """Give pieces to free actors; start more actors if pieces remain."""
        while todo and self._free:
            actor, (piece, times) = self._free.popleft(), todo.popleft()
            self._running[actor.do.remote(order, piece)] = actor, piece, times
        while len(self._starting) < min(len(todo), self._size - len(self._actors)):
            actor = self._actor_class.remote()
            self._starting[actor.ready.remote()] = actor

    def _on_started(self, answer: Any) -> None:
        """Handle an actor that has started, or was lost before."""
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

    def _on_finished(self, answer: Any, todo: deque[tuple[Any, int]]) -> Iterator[Any]:
        """Yield a result, or requeue the piece of a lost actor."""
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
    """A result; raises the job's own error, or a `RayError` for a lost worker."""
    try:
        return ray.get(answer)
    except ray.exceptions.RayTaskError as e:
        raise e.cause from e


def lost(error: Exception) -> WorkerError:
    """The error for a piece that failed in every attempt."""
    return WorkerError(
        f"A piece of work failed in {RETRIES + 1} attempts ({type(error).__name__}): its workers "
        "died, most likely because they ran out of memory. Run the same command again with fewer "
        "`workers`, or on nodes with more memory; finished shards are kept."
    )
