"""Memory that a training step needs again is kept between the steps.

What: for a while, glibc's allocator gives nothing back to the system, however large.
Why: each step asks for the same arrays, such as the gradient of the embeddings, and glibc returns
the large ones at once; getting them again, page by page and zeroed, was a fifth of a step of a
small model.
Trade-off: it holds for the whole process, which then keeps what it once needed until the end of the
training, a few percent more at its peak. By itself glibc learns from what is freed how large a
piece should be to go back at once; whoever sets a limit turns this off, and nothing turns it on
again in that process. Other allocators and systems are left as they are.
Reference: mallopt(3), M_MMAP_MAX and M_TRIM_THRESHOLD.
"""

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
    """Freed memory stays with the process; after this it is given back.

    The limits set here are then glibc's first ones again, but its moving threshold does not come
    back: it stays where it was, so later work in the same process may ask the system more often.
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
