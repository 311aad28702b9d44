"""Processes of this machine's devices: workers send them what they have prepared."""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import pickle
import socket
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from threading import Thread
from typing import Any

from corpusfit.core.engine.contract import Job
from corpusfit.core.engine.usage import Usage, add_usage
from corpusfit.core.engine.worker import on_report, opened, packed
from corpusfit.core.errors import CorpusfitError, WorkerError, machine_fault

_WAITING = 128  # workers that may ask for a connection at once
_LONGEST = 100  # bytes of a socket's path; systems allow 104 to 108


@dataclass(frozen=True)
class Device:
    """A device of this machine, and where its process listens."""

    name: str
    address: Any
    key: bytes

    def __call__(self, job: Job[Any, Any], piece: Any, on_share: Callable[[float], None]) -> Any:
        """In a worker: run a job on a piece there; see `worker.on_device`."""
        # a worker waits for its answer, so a device never has more pieces than there are workers
        try:
            connection = _connected(self)
            connection.send((*packed(job), piece))
            while isinstance(answer := connection.recv(), float):
                on_share(answer)
        except (EOFError, OSError) as e:
            raise WorkerError(
                f"The process that computes on the device {self.name} died, most likely because it "
                "ran out of memory. Run the same command again with fewer `workers`, as each sends "
                "it texts; finished shards are kept."
            ) from e
        done, result, used = answer
        add_usage(used)
        if not done:
            raise result
        return result


@functools.cache
def _connected(device: Device) -> Connection:
    return Client(device.address, authkey=device.key)


class Devices:
    """The processes of some devices, one for each.

    Args:
        names: the devices; a device named twice has two processes.
        jobs: the folder of the engine, for sockets.
        run: what a process runs: `serve`, after what prepares the process.
    """

    def __init__(self, names: tuple[str, ...], jobs: Path, run: Callable[..., None]) -> None:
        self.names, self._jobs, self._run = names, jobs, run
        self.processes: list[Any] = []
        self.places: list[Device] = []

    def start(self) -> None:
        """Start the processes, and wait until they listen."""
        context = multiprocessing.get_context("spawn")
        key = os.urandom(32)
        answers = []
        for name in self.names:
            path = str(self._jobs / f"device-{os.urandom(4).hex()}")
            # a local port where there are no sockets with a path, or the path is too long
            with_path = hasattr(socket, "AF_UNIX") and len(os.fsencode(path)) <= _LONGEST
            address = path if with_path else ("localhost", 0)
            answer, listening = context.Pipe(duplex=False)
            arguments = (self._jobs, name, address, key, listening)
            process = context.Process(target=self._run, args=arguments, daemon=True)
            process.start()
            self.processes.append(process)
            listening.close()
            answers.append(answer)
        try:
            listening_at = [answer.recv() for answer in answers]
        except EOFError as e:
            raise WorkerError(
                f"A process for the devices {', '.join(self.names)} ended when it started, most "
                "likely because memory is short. Run the same command again with fewer `workers`."
            ) from e
        self.places = [
            Device(name, at, key) for name, at in zip(self.names, listening_at, strict=True)
        ]

    def stop(self) -> None:
        """Stop the processes at once; what they hold is with the workers too."""
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.join()


_name = ""  # in the process of a device: its name


def device_name() -> str:
    """In the process of a device: its name; empty in any other."""
    return _name


def serve(name: str, address: Any, key: bytes, listening: Connection) -> None:
    """In the process of a device: run what workers send, one piece after the other."""
    global _name  # noqa: PLW0603
    _name = name
    listener = Listener(address, backlog=_WAITING, authkey=key)
    listening.send(listener.address)
    listening.close()
    # All work is in one thread, as the current GPU is a thread's own. Those of the connections
    # receive the next pieces meanwhile, and send the last ones.
    with ThreadPoolExecutor(1) as thread:
        while True:
            # a worker may die while it connects
            with contextlib.suppress(
                EOFError, ConnectionError, multiprocessing.AuthenticationError
            ):
                connection = listener.accept()
                Thread(target=_answer, args=(connection, thread), daemon=True).start()


def _answer(connection: Connection, thread: ThreadPoolExecutor) -> None:
    """Answer a worker until it ends."""
    with connection, contextlib.suppress(EOFError, OSError):
        while True:
            name, data, piece = connection.recv()
            connection.send(thread.submit(_run, name, data, piece, connection.send).result())


def _run(
    name: str, data: bytes, piece: Any, on_share: Callable[[float], None]
) -> tuple[bool, Any, Usage]:
    """Run a piece: whether it is done, its result or error, and what it used."""
    before = Usage.so_far()
    on_report(on_share)
    try:
        result = opened(name, lambda: data)(piece)
        done = True
    except Exception as e:
        result = _portable(machine_fault(e) or e)
        done = False
    return done, result, Usage.so_far() - before


def _portable(error: Exception) -> Exception:
    """The error, or one with its words if it cannot be pickled, as those of some libraries."""
    if not isinstance(error, CorpusfitError):
        error.add_note(traceback.format_exc())
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 (what was pickled just now)
    except Exception:
        return WorkerError(f"{type(error).__name__}: {error}")
    return error
