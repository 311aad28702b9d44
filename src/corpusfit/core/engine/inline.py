"""Runs jobs in this process: no worker to start, for small inputs."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache

from threadpoolctl import ThreadpoolController

from corpusfit.core.engine.contract import Engine, Job, OnShare, Piece, Result
from corpusfit.core.engine.worker import guarded


class InlineEngine(Engine):
    """This process, one piece after the other, with one compute thread as in a worker.

    One thread gives the bits of the other engines; the process has all its threads back between
    two pieces.

    Args:
        workers: has no effect beyond its check; there is one.

    Raises:
        UsageError: workers is below 1.
    """

    def __init__(self, workers: int | None = None) -> None:
        super().__init__(workers)
        self.workers = 1

    def __enter__(self) -> InlineEngine:
        """Nothing to start."""
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to stop."""

    def map(
        self,
        job: Job[Piece, Result],
        pieces: Iterable[Piece],
        on_share: OnShare | None = None,
    ) -> Iterator[Result]:
        """Run a job on every piece, in order; see `Engine.map`."""
        if job.encodes:
            with contextlib.suppress(ImportError):
                import torch  # noqa: F401  only libraries that are loaded can be limited
        work, threads = None, None
        for number, piece in enumerate(pieces):
            if work is None or threads is None:
                work = guarded(job.start())
                threads = _libraries(len(sys.modules))
            with threads.limit(limits=1):
                result = work(piece)
            if on_share:
                on_share(number, 1.0)
            yield result


@lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:
    """The libraries to limit; they are looked for again when more modules are imported."""
    return ThreadpoolController()
