"""Runs jobs on this machine: in worker processes, or in this process for small inputs."""

from __future__ import annotations

import contextlib
import functools
import itertools
import mmap
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import threading
import types
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from threadpoolctl import ThreadpoolController

from corpusfit.core.artifacts import write_bytes
from corpusfit.core.engine.contract import Engine, Job, OnShare, Piece, Result
from corpusfit.core.engine.devices import Device, Devices
from corpusfit.core.engine.worker import (
    ENVIRONMENT,
    feed,
    guarded,
    on_compile,
    on_report,
    opened,
    packed,
    report_received,
)
from corpusfit.core.errors import StorageError, WorkerError, raise_machine_fault

_MOST_ON_WINDOWS = 61  # processes that Python can wait for there
_PIECES_PER_WORKER = 2  # in flight: one in progress, one waiting
_POLL = 0.5  # seconds between two polls of the workers' progress
_ALMOST = 1 - 2**-20  # maximum share of an unfinished piece
_BUFFERS = 64 << 20  # bytes, twice the buffer of OpenBLAS
_LOCKS = "/dev/shm"  # noqa: S108 (a name for a message)
_COMPILES = -1.0  # value for a worker that compiles kernels; no piece has this number


class LocalEngine(Engine):
    """Worker processes on this machine, each with one compute thread.

    One thread per worker makes results independent of the number of workers. On a CPU every worker
    holds its own copy of the model; each GPU has one process with a copy, and workers feed it.
    Processes start with `spawn`, which takes a second but is safe with threads and CUDA.
    """

    def __init__(self, workers: int | None = None) -> None:
        super().__init__(workers)
        if sys.platform == "win32":
            self.workers = min(self.workers, _MOST_ON_WINDOWS)
        self._jobs = Path()  # folder of job files, each read once by a worker
        self._pool: ProcessPoolExecutor | None = None
        self._devices: Devices | None = None
        # by worker: its piece's number plus the share done; the last entry flags compilation
        self._shares: Any = ()
        self._numbers = itertools.count(1)

    def __enter__(self) -> LocalEngine:
        """Start the workers."""
        self._jobs = Path(tempfile.mkdtemp(prefix="corpusfit-jobs-"))
        context = multiprocessing.get_context("spawn")
        slot_counter = None
        try:
            with starting_processes():  # the first lock starts a process that tracks them
                # on a full disk, report whole pieces only
                with contextlib.suppress(OSError):
                    shares = context.RawArray("d", self.workers + 1)
                    slot_counter = context.Value("i", 0)
                    self._shares = shares
                self._pool = ProcessPoolExecutor(
                    self.workers,
                    context,
                    initializer=_prepare_worker,
                    initargs=(self._jobs, self._shares, slot_counter),
                )
        except (ImportError, NotImplementedError, OSError) as e:
            shutil.rmtree(self._jobs, ignore_errors=True)
            raise StorageError(
                "Worker processes cannot be started: their locks cannot be made "
                f"({getattr(e, 'strerror', None) or e}). On Linux these are files in {_LOCKS}: "
                "mount it with room and write access, or use `engine=inline`, which needs no other "
                "process."
            ) from e
        return self

    def __exit__(self, kind: object = None, *_: object) -> None:
        """Stop the workers; after an error kill them, as a rerun repeats their pieces."""
        if self._pool is None:
            return
        if kind is not None:
            for process in list((self._pool._processes or {}).values()):
                process.kill()
        self._stop_devices()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._pool = None
        shutil.rmtree(self._jobs, ignore_errors=True)

    def _map(
        self, job: Job[Piece, Result], pieces: Iterable[Piece], on_share: OnShare | None
    ) -> Generator[Result, None, None]:
        """Run a job on every piece; see `Engine.map`."""
        if self._pool is None:
            raise WorkerError("The engine is not started. Use `with LocalEngine() as engine:`.")
        devices = self._started(job)
        job_file = self._write_job(job)
        waiting = enumerate(pieces)
        # for each piece, its number in the engine and in this call, and the device that it feeds
        running: dict[Future[Result], tuple[int, int, Device | None]] = {}
        try:
            while True:
                free = self.workers * _PIECES_PER_WORKER - len(running)
                for in_map, piece in itertools.islice(waiting, free):
                    number = next(self._numbers)
                    load = Counter(device for _, _, device in running.values())
                    device = min(devices, key=load.__getitem__, default=None)
                    # the pool starts workers on demand
                    starts = len(self._pool._processes or ()) < self.workers
                    with starting_processes() if starts else contextlib.nullcontext():
                        future = self._pool.submit(_do, job_file, device, number, piece)
                    running[future] = number, in_map, device
                if not running:
                    return
                pause = _POLL if on_share else None
                done, _ = wait(running, timeout=pause, return_when=FIRST_COMPLETED)
                if self._shares and self._shares[-1]:
                    self._shares[-1] = 0.0
                    self.on_compile()
                if on_share:
                    numbers = {number: in_map for number, in_map, _ in running.values()}
                    for value in self._shares:
                        if int(value) in numbers:
                            on_share(numbers[int(value)], value % 1)
                for future in done:
                    _, in_map, _ = running.pop(future)
                    result = future.result()
                    if on_share:
                        on_share(in_map, 1.0)
                    yield result
        except BrokenProcessPool as e:
            raise WorkerError(
                "A worker process died, most likely because it ran out of memory. Run the same "
                "command again with fewer `workers`; finished shards are kept."
            ) from e

    def _started(self, job: Job[Any, Any]) -> list[Device]:
        """The devices that a job feeds, at most one for each worker, with processes started."""
        names = job.devices()[: self.workers] if job.devices is not None else ()
        self.fed = len(names)
        # their models would take memory from a job that uses a GPU in a worker
        if self._devices is not None and job.encodes and self._devices.names != names:
            self._stop_devices()
        if not names:
            return []
        if self._devices is None:
            self._devices = Devices(names)
            with starting_processes():
                self._devices.start(_prepare_worker, self._jobs, None, None)
        return self._devices.places

    def _stop_devices(self) -> None:
        if self._devices is not None:
            self._devices.stop()
        self._devices = None

    def _write_job(self, job: Job[Any, Any]) -> Path:
        """Write a job's file, which each worker reads once, and return its path."""
        name, data = packed(job)
        write_bytes(self._jobs / name, data)
        return self._jobs / name


_number = 0  # in a worker: number of its piece
_shares: Any = None  # in a worker: progress array shared by all; None without one


def _do(job_file: Path, device: Device | None, number: int, piece: Any) -> Any:
    """In a worker: open the job unless it is open, then run the piece."""
    global _number  # noqa: PLW0603
    try:
        _take_buffers()
        _notice_compiling()
        feed(device)
        work = opened(job_file.name, job_file.read_bytes)
        _number = number
        report_received()
        return work(piece)
    except Exception as e:  # some libraries' errors cannot be pickled
        raise_machine_fault(e)
        raise


@functools.cache
def _notice_compiling() -> None:
    """In a worker: flag when a kernel is compiled."""
    if _shares is not None:
        on_compile(functools.partial(_shares.__setitem__, -1, _COMPILES))


@functools.cache
def _take_buffers() -> None:
    """In a worker with limited memory (`ulimit -v`): reserve OpenBLAS's buffer early."""
    # SciPy's OpenBLAS retries forever if it cannot allocate its buffer
    with contextlib.suppress(ImportError):  # Windows, or no SciPy
        import resource

        if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
            import numpy as np
            from scipy.linalg.blas import dgemm

            mmap.mmap(-1, _BUFFERS).close()
            dgemm(1.0, np.ones((200, 200)), np.ones((200, 200)))


def _share(shares: Any, slot: int, done: float) -> None:
    """In a worker: publish the number of its piece and the share done."""
    shares[slot] = _number + min(max(done, 0.0), _ALMOST)


def _prepare_worker(jobs: Path, shares: Any, slot_counter: Any) -> None:
    """Ignore Ctrl-C, which the parent handles, and exit when the parent ends, even by SIGKILL."""
    global _shares  # noqa: PLW0603
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if slot_counter is not None:
        _shares = shares
        with slot_counter.get_lock():
            slot = slot_counter.value
            slot_counter.value += 1
        on_report(functools.partial(_share, shares, slot))
    parent = multiprocessing.parent_process()

    def follow() -> None:
        if parent is not None:
            parent.join()
            shutil.rmtree(jobs, ignore_errors=True)
            os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


@contextlib.contextmanager
def starting_processes() -> Iterator[None]:
    """Start processes of Python only in this context.

    They have one compute thread, run no script of the caller, and import nothing from the current
    folder, which may be one of data: Python searches it before its own library in a process that
    it starts, and in one that is interactive, whose `sys.path` its children get.
    """
    main = sys.modules["__main__"]
    path = sys.path
    before = {name: os.environ.get(name) for name in ENVIRONMENT}
    os.environ.update(ENVIRONMENT)
    sys.modules["__main__"] = types.ModuleType("__main__")
    sys.path = [folder for folder in path if folder]
    try:
        with _defer_ctrl_c():
            yield
    finally:
        sys.path = path
        sys.modules["__main__"] = main
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _defer_ctrl_c() -> Iterator[None]:
    """Start children with SIGINT blocked; one of this process waits until they have started."""
    # Blocking is not enough: another thread would receive the signal, and Python would raise
    # KeyboardInterrupt in the main thread.
    held: list[int] = []
    ours = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, lambda *_: held.append(1)) if ours else None
    # Windows cannot block a signal: there a child may say that it was interrupted
    can_block = hasattr(signal, "pthread_sigmask")
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if can_block else None
    try:
        yield
    finally:
        if blocked is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        if ours:
            signal.signal(signal.SIGINT, before or signal.SIG_DFL)
        if held:
            signal.raise_signal(signal.SIGINT)


class InlineEngine(Engine):
    """This process, one piece after the other, with one compute thread as in a worker.

    With one thread, results are bit-identical to those of the other engines; the limit is lifted
    between pieces.
    """

    def __init__(self, workers: int | None = None) -> None:
        super().__init__(workers)
        self.workers = 1

    def __enter__(self) -> InlineEngine:
        """Nothing to start."""
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to stop."""

    def _map(
        self, job: Job[Piece, Result], pieces: Iterable[Piece], on_share: OnShare | None
    ) -> Generator[Result, None, None]:
        """Run a job on every piece, in order; see `Engine.map`."""
        if job.encodes:
            with contextlib.suppress(ImportError):
                import torch  # noqa: F401  only libraries that are loaded can be limited
        work = None
        threads = None
        for number, piece in enumerate(pieces):
            if work is None or threads is None:
                work = guarded(job.start())
                threads = _libraries(len(sys.modules))
            with threads.limit(limits=1):
                result = work(piece)
            if on_share:
                on_share(number, 1.0)
            yield result


@functools.lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:
    """The libraries to limit; detected again when more modules are imported."""
    return ThreadpoolController()
