"""Calls of a stranger's code, such as a chat template, under limits of time and memory.

What: a call that takes longer, or needs more, ends with `LimitError`.
Why: a chat template may loop or allocate without end. A process of its own would hold any
code, but each worker would import transformers twice (0.6 s), and send each conversation to it.
Trade-off: Python raises between two of its instructions, so a single one, such as the product of
two numbers of a million digits, is finished first. Only Linux limits the memory.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

_PAUSE = 0.2  # seconds between two looks at a call, and until the error is raised again
# one call at a time, as the limit of the memory is that of the process
_calling = threading.Lock()
_lock = threading.Lock()  # of the next one
_ends: dict[int, float] = {}  # by thread, the processor time at which its call has to end


class LimitError(Exception):
    """A call took too much time or memory."""


def bounded(function: Callable[[], T], seconds: float, size: int) -> T:
    """Call a function.

    Args:
        function: what to call.
        seconds: most processor time of this process meanwhile: a machine that is busy or asleep
            takes nothing away.
        size: most bytes by which the memory may grow meanwhile.

    Raises:
        LimitError: it takes more than it may.
    """
    thread = threading.get_ident()
    with _calling, _limited_memory(size):
        _start_watching()
        try:
            try:
                with _lock:
                    _ends[thread] = time.process_time() + seconds
                return function()
            finally:
                _forget(thread)
        except MemoryError as e:
            raise LimitError from e
        finally:
            _forget(thread)  # the error may have come before the end was noted


@cache
def _start_watching() -> None:
    threading.Thread(target=_watch, name="corpusfit-bounds", daemon=True).start()


def _watch() -> None:
    """End calls that take too long; again those that have caught the error."""
    while True:
        time.sleep(_PAUSE)
        with _lock:
            for thread, end in _ends.items():
                if time.process_time() > end:
                    _raise_in(thread, LimitError)


def _forget(thread: int) -> None:
    """Let a call end, and take back an error that it has not seen yet."""
    with _lock:
        _ends.pop(thread, None)
        _raise_in(thread, None)


def _raise_in(thread: int, error: type[Exception] | None) -> None:
    exception = None if error is None else ctypes.py_object(error)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), exception)


@contextmanager
def _limited_memory(size: int) -> Iterator[None]:
    """Let the memory grow by so many bytes at most, on Linux."""
    if sys.platform != "linux":
        yield
        return
    import resource

    resident = int(Path("/proc/self/statm").read_text("ascii").split()[5]) * resource.getpagesize()
    outside = resource.getrlimit(resource.RLIMIT_DATA)
    limits = [limit for limit in outside if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min([resident + size, *limits]), outside[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, outside)
