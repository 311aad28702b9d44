"""Notices when numba compiles a kernel, which it does once per environment and type."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def noticed_by(call: Callable[[], None]) -> Iterator[None]:
    """Call a function whenever this process compiles one; loading a compiled one is none."""
    from numba.core import event  # not before it is used: it takes 100 MB of address space

    class Heard(event.Listener):  # type: ignore[misc]
        def on_start(self, _: Any) -> None:
            call()

        def on_end(self, _: Any) -> None:
            pass

    with event.install_listener("numba:compile", Heard()):
        yield
