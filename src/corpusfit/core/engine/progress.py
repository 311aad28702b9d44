"""The interface by which a stage reports its progress."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Piece = TypeVar("Piece")


class Progress:
    """Shows nothing; a front end overrides what it shows. The library itself never prints."""

    def begin(self, stage: str, total: float, unit: str = "units") -> None:
        """Start a stage; `total` is its amount of work (0: unknown), `unit` that of its rate."""

    def advance(self, done: float, units: int = 0) -> None:
        """Count finished work: `done` of the total, and units; zeros signal that work begins."""

    def skip(self, done: float) -> None:
        """Skip a part of the total, most likely finished by an earlier command."""

    def end(self) -> None:
        """End the stage."""

    def stop(self) -> None:
        """End the stage after an error."""
        self.end()

    @contextlib.contextmanager
    def showing(self, name: str, total: float, *unit: str) -> Iterator[None]:
        """Show a stage from `begin` to `end`, or to `stop` after an error."""
        self.begin(name, total, *unit)
        try:
            yield
        except BaseException:
            self.stop()
            raise
        self.end()

    def warn(self, message: str) -> None:
        """Show a warning, one sentence."""

    def note(self, message: str) -> None:
        """Show a message that needs no action, one sentence."""


class Meter:
    """Advances a progress by what is done of pieces; the `on_share` of an engine's `map`."""

    # weights: queue of the weights of pieces to come; only the last one counts if pieces were
    # skipped, and the default is 1. `weighed` empties it.
    def __init__(self, progress: Progress, weights: list[float] | None = None) -> None:
        self._progress, self._drawn = progress, [] if weights is None else weights
        self._weights: list[float] = []
        self._shares: list[float] = []

    def weighed(self, pieces: Iterable[Piece]) -> Iterator[Piece]:
        """Yield the pieces, and note their weights."""
        self._drawn.clear()
        for piece in pieces:
            self._weights.append(self._drawn.pop() if self._drawn else 1.0)
            self._shares.append(-1.0)
            self._skip()
            yield piece
        self._skip()

    def _skip(self) -> None:
        if self._drawn:
            self._progress.skip(sum(self._drawn))
            self._drawn.clear()

    def __call__(self, number: int, share: float) -> None:
        """Advance by what was done of a piece since the last call."""
        before, self._shares[number] = self._shares[number], share
        if share > before:
            self._progress.advance(self._weights[number] * (share - max(before, 0.0)))


class WarningCollector(Progress):
    """Collects distinct warnings, and passes them on to another display, if any."""

    def __init__(self, shown: Progress | None = None) -> None:
        self._shown = shown or Progress()
        self.warnings: list[str] = []

    def warn(self, message: str) -> None:
        """Keep and show a new warning."""
        if message not in self.warnings:
            self.warnings.append(message)
            self._shown.warn(message)
