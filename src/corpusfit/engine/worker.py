"""Inside a worker, whichever engine started it.

What: the environment of a worker, and the one job that it holds open.
Why: every engine must compute on one thread and open a job once, or the answers and the times
would differ between engines.
Trade-off: a worker holds one job; two jobs that take turns would open anew each time, but a
pipeline does not do that.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable
from typing import Any

from corpusfit.engine.contract import Job

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
"""One compute thread; to be set before the worker's libraries are loaded."""

_open: tuple[str, Callable[[Any], Any]] | None = None


def packed(job: Job[Any, Any]) -> tuple[str, bytes]:
    """A job's name, which equal jobs share, and the bytes that travel to each worker once."""
    data = pickle.dumps(job)
    return hashlib.blake2b(data, digest_size=16).hexdigest(), data


def opened(name: str, fetch: Callable[[], bytes]) -> Callable[[Any], Any]:
    """The work of the named job, which is fetched and started unless it is the open one.

    Args:
        name: as `packed` gave it.
        fetch: gives the bytes of `packed`; they come from our own parent process.
    """
    global _open  # noqa: PLW0603
    if _open is None or _open[0] != name:
        _open = None  # let go of the last job's model before the next one is loaded
        job = pickle.loads(fetch())  # noqa: S301
        _open = (name, job.start())
    return _open[1]
