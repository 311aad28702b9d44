"""The interface by which a stage reports its progress."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


class Progress:
    """Shows nothing; a front end overrides what it shows. The library itself never prints."""

    def begin(self, stage: str, total: float, unit: str = "units") -> None:
        """A stage starts; `total` is its amount of work (0: unknown), `unit` that of its rate."""

    def advance(self, done: float, units: int = 0) -> None:
        """Work was done: `done` of the total, and the number of units."""

    def end(self) -> None:
        """The stage is over."""

    @contextlib.contextmanager
    def showing(self, name: str, total: float, *unit: str) -> Iterator[None]:
        """Show a stage from `begin` to `end`, which comes after an error too."""
        self.begin(name, total, *unit)
        try:
            yield
        finally:
            self.end()

    def warn(self, message: str) -> None:
        """Show a warning, one sentence."""

    def note(self, message: str) -> None:
        """Show a message that needs no action, one sentence."""


class WarningCollector(Progress):
    """Keeps each warning once, shows it on another display if there is one, and nothing else."""

    def __init__(self, shown: Progress | None = None) -> None:
        self._shown = shown or Progress()
        self.warnings: list[str] = []

    def warn(self, message: str) -> None:
        """Keep and show a new warning."""
        if message not in self.warnings:
            self.warnings.append(message)
            self._shown.warn(message)
