"""The contract of every engine.

What: `Job` (what to do with one piece of work) and `Engine` (where it is done).
Why: the same jobs run in local processes and on a cluster, and give the same bytes.
Trade-off: a job is plain settings and paths, never data or models; it opens what it needs in the
worker, once.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Generic, TypeVar

from corpusfit.errors import bad_setting

Piece = TypeVar("Piece")
Result = TypeVar("Result")


class Job(ABC, Generic[Piece, Result]):
    """What a worker does to a piece; a frozen dataclass of settings and paths."""

    @property
    def encodes(self) -> bool:
        """Whether it opens a network that is dear to load and wants a GPU where there is one."""
        return False

    @abstractmethod
    def start(self) -> Callable[[Piece], Result]:
        """Open models and files; called once in each worker. Returns the work itself."""


class Engine(ABC):
    """Runs jobs over pieces; a context manager that owns its workers.

    Args:
        workers: how many pieces are worked on at once; None takes one for each core this process
            may use.

    Raises:
        UsageError: workers is below 1.
    """

    def __init__(self, workers: int | None = None) -> None:
        if workers is not None and workers < 1:
            raise bad_setting("--workers", "1 or more", workers)
        self.workers = workers or _cores()

    @abstractmethod
    def map(self, job: Job[Piece, Result], pieces: Iterable[Piece]) -> Iterator[Result]:
        """Do a job on every piece.

        Pieces are drawn as workers become free, so that they never pile up in memory.

        Yields:
            Results in the order they are finished; a caller may not depend on that order.

        Raises:
            WorkerError: a worker died.
        """

    def require_shared(self, folder: Path, setting: str) -> None:  # noqa: B027  most need nothing
        """Make sure that workers write where this process reads; workers of this machine do.

        Args:
            folder: where they will write.
            setting: what named it, for the error.

        Raises:
            UsageError: a worker's machine does not see that folder.
        """

    @abstractmethod
    def __enter__(self) -> Engine:
        """Start the workers."""

    @abstractmethod
    def __exit__(self, *_: object) -> None:
        """Stop the workers; at once if an error is under way."""


def _cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
