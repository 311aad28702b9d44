"""Run jobs in processes of this machine.

What: a pool of worker processes, each with one compute thread, fed a few pieces ahead.
Why: one thread a worker makes the arithmetic the same for any number of workers, and two
processes of one thread each encode faster than one process of two.
Trade-off: every worker holds its own copy of the model; and workers start afresh (`spawn`),
which costs a second but is safe beside threads and CUDA.
Reference: datatrove's local executor, for resuming by asking what is missing.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import threading
import types
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from corpusfit.artifacts import write_bytes
from corpusfit.engine.contract import Engine, Job, Piece, Result
from corpusfit.engine.worker import ENVIRONMENT, opened, packed
from corpusfit.errors import WorkerError

_AHEAD = 2  # pieces in flight for each worker: one being done, one waiting


class LocalEngine(Engine):
    """Worker processes on this machine.

    Args:
        workers: how many processes; None takes one for each core this process may use.

    Raises:
        UsageError: workers is below 1.
    """

    def __init__(self, workers: int | None = None) -> None:
        super().__init__(workers)
        self._jobs = Path()  # a folder; a worker reads there, once, what it is to do
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> LocalEngine:
        """Start the workers."""
        self._jobs = Path(tempfile.mkdtemp(prefix="corpusfit-jobs-"))
        self._pool = ProcessPoolExecutor(
            self.workers,
            multiprocessing.get_context("spawn"),
            initializer=_prepare_worker,
            initargs=(self._jobs,),
        )
        return self

    def __exit__(self, kind: object = None, *_: object) -> None:
        """Stop the workers; kill them if an error is under way, their pieces are done again."""
        if self._pool is None:
            return
        if kind is not None:
            for process in list((self._pool._processes or {}).values()):
                process.kill()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._pool = None
        shutil.rmtree(self._jobs, ignore_errors=True)

    def map(self, job: Job[Piece, Result], pieces: Iterable[Piece]) -> Iterator[Result]:
        """Do a job on every piece; see `Engine.map`."""
        if self._pool is None:
            raise WorkerError(
                "The engine is not started: use it as `with LocalEngine() as engine`."
            )
        name, data = packed(job)
        order = self._jobs / name
        write_bytes(order, data)
        waiting = iter(pieces)
        running: set[Future[Result]] = set()
        try:
            while True:
                room = self.workers * _AHEAD - len(running)
                for piece in itertools.islice(waiting, room):
                    with _fresh_children():  # a worker is started when the first piece needs it
                        running.add(self._pool.submit(_do, order, piece))
                if not running:
                    return
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
        except BrokenProcessPool as e:
            raise WorkerError(
                "A worker process died, most likely for want of memory. Run the same command again "
                "with fewer --workers: finished shards are kept."
            ) from e


def _do(order: Path, piece: Any) -> Any:
    """In a worker: open the job unless it is open, then do the piece."""
    return opened(order.name, order.read_bytes)(piece)


def _prepare_worker(jobs: Path) -> None:
    """Leave Ctrl-C to the parent, and end when the parent is gone, even by SIGKILL."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def follow() -> None:
        if parent is not None:
            parent.join()
            shutil.rmtree(jobs, ignore_errors=True)
            os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


@contextlib.contextmanager
def _fresh_children() -> Iterator[None]:
    """Children get one compute thread each and do not run the caller's script again."""
    main = sys.modules["__main__"]
    before = {name: os.environ.get(name) for name in ENVIRONMENT}
    os.environ.update(ENVIRONMENT)
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        with _ctrl_c_waits():
            yield
    finally:
        sys.modules["__main__"] = main
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _ctrl_c_waits() -> Iterator[None]:
    """Children inherit that SIGINT is blocked; ours is held back until they have their orders.

    Blocking alone would not hold it back: another thread takes it, and this one raises.
    """
    held: list[int] = []
    ours = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, lambda *_: held.append(1)) if ours else None
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        if ours:
            signal.signal(signal.SIGINT, before or signal.SIG_DFL)
        if held:
            signal.raise_signal(signal.SIGINT)
