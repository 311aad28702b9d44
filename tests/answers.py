"""Jobs for tests of engines, which import them in their workers."""

import contextlib
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numba

from corpusfit.core.engine import Job, report
from corpusfit.core.engine.worker import on_device
from corpusfit.core.errors import MissingDependencyError, StorageError


class NoAnswerError(ConnectionError):
    """As those of botocore it cannot be pickled."""

    def __init__(self, *, code):
        super().__init__(f"the store answers {code}")


@dataclass(frozen=True)
class Answer(Job):
    """Adds a number, or does what the piece asks of a worker."""

    base: int = 0
    encodes: bool = False
    ballast: bytes = b""

    def start(self):  # noqa: C901
        opened = time.monotonic_ns()

        def work(piece):  # noqa: C901
            match piece:
                case "where":
                    return os.getpid(), opened
                case "when":
                    began = time.monotonic_ns()
                    time.sleep(0.01)
                    return began, time.monotonic_ns()
                case "wait":
                    for quarter in range(4):
                        report(quarter / 4)
                        time.sleep(0.01)
                    return "waited"
                case "threads":
                    return os.environ["OMP_NUM_THREADS"], os.environ["NUMBA_NUM_THREADS"]
                case "main":
                    main = sys.modules["__main__"]
                    return main.__name__, hasattr(main, "__file__")
                case "compile":
                    return numba.njit(lambda: 1)()
                case "node":
                    import ray

                    time.sleep(0.02)
                    return ray.get_runtime_context().get_node_id()
                case "environment":
                    import users_module

                    return users_module.__name__, os.environ["USERS_OWN"]
                case "folder":
                    return str(Path.cwd())
                case "full":
                    raise StorageError("the disk is full")
                case "missing":
                    raise MissingDependencyError("A test", "models")
                case "no answer":
                    raise NoAnswerError(code=503)
                case "bug":
                    return {}["no such key"]
                case "die":
                    os.kill(os.getpid(), signal.SIGKILL)
                case "interrupt":
                    os.kill(os.getpid(), signal.SIGINT)
                    return "still here"
                case Path():  # die unless somebody did
                    if not piece.exists():
                        piece.write_bytes(b"")
                        os.kill(os.getpid(), signal.SIGKILL)
                    return piece.name
            return self.base + piece

        return work


@dataclass(frozen=True)
class Stuck(Job):
    """The first piece on a node other than `steady` never ends; the others wait until it is lost.

    The worker writes its node into the note `stuck`; the test writes `lost`.
    """

    notes: Path
    steady: str
    encodes: bool = False

    def start(self):
        import ray

        here = ray.get_runtime_context().get_node_id()
        stuck, lost = self.notes / "stuck", self.notes / "lost"

        def work(piece):
            if here != self.steady:
                mine = self.notes / here
                mine.write_text(here)
                with contextlib.suppress(FileExistsError):  # another node was first
                    stuck.hardlink_to(mine)
                    threading.Event().wait()
            while not lost.exists():
                time.sleep(0.02)
            return piece

        return work


@dataclass(frozen=True)
class Feeding(Job):
    """Feeds two pretended devices, which note when they open `Fed`; says who did what and when."""

    notes: Path
    encodes = True

    @property
    def devices(self):
        return lambda: ("cpu", "cpu")

    def start(self):
        def work(piece):
            if piece == "worker dies":
                os.kill(os.getpid(), signal.SIGKILL)
            sent = time.monotonic_ns()
            answer = on_device()(Fed(self.notes), piece)
            return os.getpid(), answer, (sent, time.monotonic_ns())

        return work


@dataclass(frozen=True)
class Fed(Job):
    """What `Feeding` leaves to a device."""

    notes: Path

    def start(self):
        with open(self.notes, "a") as f:
            f.write(f"{os.getpid()}\n")

        def work(piece):
            match piece:
                case "memory":
                    raise MemoryError
                case "no answer":
                    raise NoAnswerError(code=503)
                case "die":
                    os.kill(os.getpid(), signal.SIGKILL)
                case Path():  # die unless somebody did
                    if not piece.exists():
                        piece.write_bytes(b"")
                        os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(0.01)
            return os.getpid(), piece

        return work
