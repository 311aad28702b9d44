"""The code inside a worker of any engine: its environment, and the job that it keeps open."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from corpusfit.core import credentials
from corpusfit.core.engine.contract import Job
from corpusfit.core.errors import tokenizing

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "PYTHONSAFEPATH": "1",
}
"""Set before a worker imports anything.

One compute thread, so that results do not depend on the engine; and no module from the current
folder, which may be one of data.
"""

# share of a prepared piece; `Pace` measures the time from then on
_PREPARED = 2**-20

_share: Callable[[float], None] = lambda _: None  # noqa: E731  what hears of this worker's piece
_before = 0.0  # the share of this worker's piece that `report` is a share of
_width = 1.0
_open: tuple[str, Callable[[Any], Any]] | None = None

OnDevice = Callable[[Job[Any, Any], Any], Any]
"""Runs a job on a piece in the process of a device."""

_device: OnDevice | None = None  # the one that this worker's piece feeds


def packed(job: Job[Any, Any]) -> tuple[str, bytes]:
    """A job's name, the same for equal jobs, and the bytes that travel to each worker once.

    They bring what opens the URLs in the job and its pieces.
    """
    data = pickle.dumps(job)
    # a job that a worker has open lacks what became known since
    of_name = data + str(credentials.changes()).encode()
    name = hashlib.blake2b(of_name, digest_size=16).hexdigest()
    return name, pickle.dumps((credentials.known(), data))


def opened(name: str, fetch: Callable[[], bytes]) -> Callable[[Any], Any]:
    """The function of the named job, which is fetched and started unless it is open.

    A worker keeps one job open; two jobs in alternation would be opened anew each time.
    """
    global _open  # noqa: PLW0603
    if _open is None or _open[0] != name:
        _open = None  # free the last job's model before the next one is loaded
        urls, data = pickle.loads(fetch())  # noqa: S301
        credentials.learn(urls)
        job = pickle.loads(data)  # noqa: S301
        _open = (name, guarded(job.start()))
    return _open[1]


def guarded(work: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A job's function that raises `ModelError` where the library of tokenizers panics."""

    def run(piece: Any) -> Any:
        with tokenizing(alone=False):
            return work(piece)

    return run


def on_device() -> OnDevice | None:
    """In a worker: the device that the current piece feeds; None to do the work here."""
    return _device


def feed(device: OnDevice | None) -> None:
    """In a worker: register the device that its next piece feeds."""
    global _device  # noqa: PLW0603
    _device = device


def report(share: float) -> None:
    """In a worker: report the share of the current piece that is done; cheap.

    A share of 0 means that the piece is prepared and its work begins now.
    """
    _share(max(_before + share * _width, _PREPARED))


def run_each(work: Callable[[Any], Any], parts: Sequence[Any]) -> list[Any]:
    """In a worker: do the equal parts of a piece; what they report are shares of a part."""
    global _before, _width  # noqa: PLW0603
    results = []
    try:
        _width = 1 / len(parts)
        for done, part in enumerate(parts):
            _before = done * _width
            results.append(work(part))
            if done:
                report(1.0)
    finally:
        _before = 0.0
        _width = 1.0
    return results


def report_received() -> None:
    """In a worker: report that a piece was received, and its preparation begins."""
    _share(0.0)


def on_report(share: Callable[[float], None]) -> None:
    """In a worker: register the engine's callback for `report`."""
    global _share  # noqa: PLW0603
    _share = share


def counting(total: float) -> Callable[[float], None]:
    """In a worker: a callback that adds up parts of a total and reports the share."""
    done = 0.0

    def add(more: float) -> None:
        nonlocal done
        done += more
        report(done / total)

    return add


def on_compile(call: Callable[[], None]) -> Callable[[], None]:
    """Call a function whenever numba compiles a kernel in this process, not when it loads one.

    Returns:
        What ends that. A worker calls it until it ends: a context that is still open then would be
        closed after numba is gone.
    """
    from numba.core import event  # not before it is used: it takes 100 MB of address space

    class Heard(event.Listener):  # type: ignore[misc]
        def on_start(self, _: Any) -> None:
            call()

        def on_end(self, _: Any) -> None:
            pass

    heard = Heard()
    event.register("numba:compile", heard)
    return partial(event.unregister, "numba:compile", heard)
