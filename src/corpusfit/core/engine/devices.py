"""Processes of this machine's devices: workers send them what they have prepared."""

from __future__ import annotations

import functools
import multiprocessing
import os
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.managers import BaseManager
from typing import Any

from corpusfit.core.engine.contract import Job
from corpusfit.core.engine.worker import opened, packed
from corpusfit.core.errors import WorkerError, raise_machine_fault


@dataclass(frozen=True)
class Device:
    """A device of this machine, and where its process listens."""

    name: str
    address: Any
    key: bytes

    def __call__(self, job: Job[Any, Any], piece: Any) -> Any:
        """In a worker: run a job on a piece there; see `worker.on_device`."""
        # a worker waits for its answer, so a device never has more pieces than there are workers
        try:
            return _connected(self).run(*packed(job), piece)
        except (EOFError, ConnectionError) as e:
            raise WorkerError(
                f"The process that computes on the device {self.name} died, most likely because it "
                "ran out of memory. Run the same command again with fewer `workers`, as each sends "
                "it texts; finished shards are kept."
            ) from e


class Devices:
    """The processes of some devices, one for each.

    Args:
        names: the devices; a device named twice has two processes.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.places: list[Device] = []
        self._managers: list[_Manager] = []

    def start(self, prepare: Callable[..., None], *arguments: Any) -> None:
        """Start the processes, and wait until they listen.

        Args:
            prepare: called in each process first.
            arguments: what it is called with.
        """
        context = multiprocessing.get_context("spawn")

        def started(name: str) -> Device:
            key = os.urandom(32)
            manager = _Manager(("localhost", 0), key, ctx=context)
            manager.start(_begin, (name, prepare, *arguments))
            self._managers.append(manager)
            return Device(name, manager.address, key)

        try:
            with ThreadPoolExecutor(len(self.names)) as threads:
                self.places = list(threads.map(started, self.names))
        except EOFError as e:
            raise WorkerError(
                f"A process for the devices {', '.join(self.names)} ended when it started, most "
                "likely because memory is short. Run the same command again with fewer `workers`."
            ) from e

    def stop(self) -> None:
        """Stop the processes; what they hold is with the workers too."""
        for manager in self._managers:
            manager.shutdown()


class _Runner:
    """In the process of a device: runs what workers send, one piece after the other."""

    def __init__(self) -> None:
        # one thread, as the current GPU is a thread's own; those of the workers' connections
        # receive the next pieces meanwhile, and send the last results
        self._thread = ThreadPoolExecutor(1)

    def run(self, name: str, data: bytes, piece: Any) -> Any:
        """The result of a job on a piece."""
        return self._thread.submit(self._run, name, data, piece).result()

    def _run(self, name: str, data: bytes, piece: Any) -> Any:
        try:
            return opened(name, lambda: data)(piece)
        except Exception as e:  # some libraries' errors cannot be pickled
            raise_machine_fault(e)
            e.add_note(traceback.format_exc())
            raise


@functools.cache
def _runner() -> _Runner:
    return _Runner()


class _Manager(BaseManager):
    """The process of a device, with its `_Runner`."""


_Manager.register("runner", _runner, exposed=("run",))


@functools.cache
def _connected(device: Device) -> Any:
    """In a worker: what stands for the runner in the process of a device."""
    manager = _Manager(device.address, device.key)
    manager.connect()
    return manager.runner()  # type: ignore[attr-defined]


_name = ""  # in the process of a device: its name


def _begin(name: str, prepare: Callable[..., None], *arguments: Any) -> None:
    global _name  # noqa: PLW0603
    _name = name
    prepare(*arguments)


def device_name() -> str:
    """In the process of a device: its name; empty in any other."""
    return _name
