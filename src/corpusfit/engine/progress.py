"""The interface by which a stage reports its progress."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from corpusfit.errors import by_path, spelled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from corpusfit.errors import Spelling


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


class SpelledProgress(Progress):
    """Shows by another's means, with the settings in messages as the caller writes them.

    Args:
        shown: shows the progress.
        spelling: how the caller writes a setting.
    """

    def __init__(self, shown: Progress, spelling: Spelling) -> None:
        self._spelling = spelling
        self.begin, self.advance, self.end = shown.begin, shown.advance, shown.end  # type: ignore[method-assign]
        self._shown = shown

    def warn(self, message: str) -> None:
        """Show a warning, its settings spelled."""
        self._shown.warn(spelled(message, self._spelling))

    def note(self, message: str) -> None:
        """Show a message, its settings spelled."""
        self._shown.note(spelled(message, self._spelling))


class WarningCollector(Progress):
    """Keeps each warning once, shows it on another display if there is one, and nothing else.

    Args:
        shown: shows the warnings.
        spelling: how settings are written in what is kept.
    """

    def __init__(self, shown: Progress | None = None, spelling: Spelling = by_path) -> None:
        self._shown, self._spelling = shown or Progress(), spelling
        self.warnings: list[str] = []

    def warn(self, message: str) -> None:
        """Keep and show a new warning."""
        kept = spelled(message, self._spelling)
        if kept not in self.warnings:
            self.warnings.append(kept)
            self._shown.warn(message)
