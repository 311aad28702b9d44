"""Calls code of a stranger in this process, under a limit of processor time and of memory.

What: a call that takes longer, or needs more, ends with `LimitError`.
Why: a chat template may loop or allocate without end. A process of its own would hold any
code, but each worker would import transformers twice (0.6 s), and send each conversation to it.
Trade-off: Python raises between two of its instructions, so a single one, such as the product of
two numbers of a million digits, is finished first. Only Linux limits the memory.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

with contextlib.suppress(ImportError):  # Windows
    from resource import RLIM_INFINITY, RLIMIT_DATA, getrlimit, setrlimit

T = TypeVar("T")

_PAUSE = 0.2  # seconds between two looks at the calls
_AGAIN = 1.0  # seconds until the error is raised again, if the code has caught it
_lock = threading.Lock()
# by thread, when its call has to end, in the processor time of this process: a machine that is
# busy or asleep takes nothing away
_ends: dict[int, float] = {}
_raised: set[int] = set()  # threads in which the error was raised
_watched = False  # whether a thread watches the calls
_outside: tuple[int, int] | None = None  # limits of the memory before the calls


class LimitError(Exception):
    """A call took too much time or memory."""


class Bounds:
    """Limits for calls.

    Args:
        seconds: most processor time of a call.
        size: most bytes by which the memory may grow from now on.
    """

    def __init__(self, seconds: float, size: int) -> None:
        self._seconds = seconds
        held = _held()
        self._limits: tuple[tuple[int, int], tuple[int, int]] | None = None  # inside and outside
        if held is not None:
            with _lock:
                outside = _outside or getrlimit(RLIMIT_DATA)
            most = [held + size, *(limit for limit in outside if limit != RLIM_INFINITY)]
            self._limits = (min(most), outside[1]), outside

    def call(self, function: Callable[[], T]) -> T:
        """Call a function.

        Raises:
            LimitError: it takes more than it may.
        """
        thread = threading.get_ident()
        try:
            self._begin(thread)
            try:
                return function()
            finally:
                self._end(thread)
        except LimitError:
            self._end(thread)  # the error may have come before the end was noted
            raise
        except MemoryError as e:
            raise LimitError from e

    def _begin(self, thread: int) -> None:
        global _outside, _watched  # noqa: PLW0603
        with _lock:
            # the limit of the memory is that of the process, for all threads together
            if self._limits is not None and not _ends:
                inside, _outside = self._limits
                setrlimit(RLIMIT_DATA, inside)
            _ends[thread] = time.process_time() + self._seconds
            if not _watched:
                _watched = True
                threading.Thread(target=_watch, name="corpusfit-bounds", daemon=True).start()

    def _end(self, thread: int) -> None:
        global _outside  # noqa: PLW0603
        with _lock:
            _ends.pop(thread, None)
            if thread in _raised:  # it may not have seen the error yet
                _raised.remove(thread)
                _raise_in(thread, None)
            if _outside and not _ends:
                setrlimit(RLIMIT_DATA, _outside)
                _outside = None


def _watch() -> None:
    """End calls that take too long, until there are no calls."""
    global _watched  # noqa: PLW0603
    while True:
        time.sleep(_PAUSE)
        now = time.process_time()
        with _lock:
            if not _ends:
                _watched = False
                return
            for thread, end in _ends.items():
                if now > end:
                    _ends[thread] = now + _AGAIN
                    _raised.add(thread)
                    _raise_in(thread, LimitError)


def _raise_in(thread: int, error: type[Exception] | None) -> None:
    """Raise an error in a thread, or take back one that it has not seen yet."""
    what = None if error is None else ctypes.py_object(error)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), what)


def _held() -> int | None:
    """The bytes that `RLIMIT_DATA` counts; None on systems other than Linux."""
    try:
        pages = Path("/proc/self/statm").read_text("ascii").split()[5]
    except OSError:
        return None
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
