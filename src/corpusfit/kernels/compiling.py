"""Notices when numba compiles a kernel, which it does once per environment and type."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import event


class _Heard(event.Listener):  # type: ignore[misc]
    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call

    def on_start(self, _: Any) -> None:
        self._call()

    def on_end(self, _: Any) -> None:
        pass


@contextmanager
def noticed_by(call: Callable[[], None]) -> Iterator[None]:
    """Call a function whenever this process compiles one; loading a compiled one is none."""
    with event.install_listener("numba:compile", _Heard(call)):
        yield
