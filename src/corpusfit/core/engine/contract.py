"""The engine contract: `Job`, what to do with a piece, and `Engine`, where to do it."""

from __future__ import annotations

import contextlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from corpusfit.core.engine.logged import new_progress
from corpusfit.core.errors import bad_setting

Piece = TypeVar("Piece")
Result = TypeVar("Result")
OnShare = Callable[[int, float], None]
"""Callback that gets the number of a piece, in the order drawn, and the share of it that is done.

The share is 0 when the piece begins and 1 when it is done. In between it grows if the job reports
it, see `worker.report`.
"""


class Job(ABC, Generic[Piece, Result]):
    """What a worker does to a piece.

    A job is a frozen dataclass of settings and paths, never data or models. It opens what it needs
    in the worker, once, so the same job runs in local processes and on a cluster.
    """

    @property
    def encodes(self) -> bool:
        """Whether it opens a network that is slow to load, and uses a GPU if there is one."""
        return False

    @property
    def devices(self) -> Callable[[], tuple[str, ...]] | None:
        """What lists the GPUs of this machine that it feeds; None if it feeds none.

        Such a job leaves its network to `worker.on_device`, which has one process for each GPU.
        Without a GPU the network is in each worker.
        """
        return None

    @abstractmethod
    def start(self) -> Callable[[Piece], Result]:
        """Open models and files, once in each worker; returns the function to call with a piece."""


@dataclass(frozen=True)
class Call(Job[Piece, Result]):
    """A function as a job that opens nothing: one of a module, a `partial`, a dataclass to call."""

    function: Callable[[Piece], Result]
    encodes: bool = False

    def start(self) -> Callable[[Piece], Result]:
        """The function."""
        return self.function


@dataclass(frozen=True)
class Wrapping(Job[Piece, Result]):
    """A job that does more with the pieces of another, on the same devices."""

    job: Job[Any, Any]

    @property
    def encodes(self) -> bool:
        """As the job."""
        return self.job.encodes

    @property
    def devices(self) -> Callable[[], tuple[str, ...]] | None:
        """As the job."""
        return self.job.devices


Work = Job[Piece, Result] | Callable[[Piece], Result]
"""What an engine runs; a function stands for `Call` of it."""


def as_job(work: Work[Piece, Result]) -> Job[Piece, Result]:
    """The job that stands for some work."""
    return work if isinstance(work, Job) else Call(work)


class Engine(ABC):
    """Runs jobs over pieces; a context manager that owns its workers.

    Args:
        workers: number of pieces in parallel (default: one per core that this process may use).

    Attributes:
        fed: how many GPUs the last job fed.
        on_compile: called when a worker compiles kernels, as far as the engine knows.
        on_wait: called with a sentence, once, when there was no worker for long.
        needs_gpu: whether jobs that encode wait for a GPU; else they take one if there is one.

    Raises:
        UsageError: workers is below 1.
    """

    def __init__(self, workers: int | None = None) -> None:
        if workers is not None and workers < 1:
            raise bad_setting("`workers`", "1 or more", workers)
        self.workers = workers or _cores()
        self.fed = 0
        self.on_compile: Callable[[], None] = lambda: None
        self.on_wait: Callable[[str], None] = lambda message: new_progress().warn(message)
        self.needs_gpu = False

    def map(
        self,
        work: Work[Piece, Result],
        pieces: Iterable[Piece],
        on_share: OnShare | None = None,
    ) -> Iterator[Result]:
        """Run a job on every piece.

        Pieces are drawn when workers become free, so that few are in memory at a time.

        Args:
            work: what to do, a job or a function.
            pieces: the pieces.
            on_share: called in this process with the share of a piece that is done; at least once,
                with 1, before its result is yielded.

        Yields:
            Results in the order of completion, which may differ between runs.

        Raises:
            WorkerError: a worker died.
        """
        with contextlib.closing(self._map(as_job(work), pieces, on_share)) as results:
            yield from results

    @abstractmethod
    def _map(
        self, job: Job[Piece, Result], pieces: Iterable[Piece], on_share: OnShare | None
    ) -> Generator[Result, None, None]:
        """As `map`."""

    def require_shared(self, folder: Path, setting: str) -> None:  # noqa: B027  only clusters need it
        """Raise `UsageError` unless every worker sees a folder; workers of this machine do."""

    @abstractmethod
    def __enter__(self) -> Engine:
        """Start the workers."""

    @abstractmethod
    def __exit__(self, *_: object) -> None:
        """Stop the workers; at once after an error."""


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
