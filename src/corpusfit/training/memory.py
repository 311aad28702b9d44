"""Keep freed memory in the process between training steps."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4
_OWN = {_TRIM_THRESHOLD: 128 * 1024, _MMAP_MAX: 65_536}  # glibc's defaults
_KEEP = {_TRIM_THRESHOLD: 2**31 - 1, _MMAP_MAX: 0}


@contextmanager
def kept_memory() -> Iterator[None]:
    """Make glibc keep freed memory; release it on exit.

    Each step allocates the same large arrays, which glibc otherwise returns to the system at once;
    getting them back took a fifth of a step of a small model. Peak memory grows by a few percent.
    On exit glibc's default limits are set, but its dynamic threshold stays off for the rest of the
    process (mallopt(3)), so later work may call the system more often. Other allocators and systems
    are not changed. Batches of many shapes leave gaps, which `release_memory` returns.
    """
    glibc = ctypes.CDLL(None) if sys.platform == "linux" else None
    if not hasattr(glibc, "mallopt"):  # musl has none
        yield
        return
    assert glibc is not None  # noqa: S101
    for setting, value in _KEEP.items():
        glibc.mallopt(setting, value)
    try:
        yield
    finally:
        for setting, value in _OWN.items():
            glibc.mallopt(setting, value)
        glibc.malloc_trim(0)


def release_memory() -> None:
    """Return freed memory between allocations to the system; where that is glibc's, else nothing.

    Batches of pairs have many shapes, and the gaps that they left tripled a training's memory.
    """
    glibc = ctypes.CDLL(None) if sys.platform == "linux" else None
    if hasattr(glibc, "malloc_trim"):
        assert glibc is not None  # noqa: S101
        glibc.malloc_trim(0)
