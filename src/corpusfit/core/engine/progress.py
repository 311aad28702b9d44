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
        """A stage starts; `total` is its amount of work (0: unknown), `unit` that of its rate."""

    def advance(self, done: float, units: int = 0) -> None:
        """Work was done: `done` of the total, and the number of units; 0 of both: it begins."""

    def skip(self, done: float) -> None:
        """A part of the total is not done now; most likely an earlier command did it."""

    def end(self) -> None:
        """The stage is over."""

    def stop(self) -> None:
        """The stage is over because of an error."""
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

    # weights: the part of the total of each piece that `weighed` draws next, the last of several if
    # earlier ones were skipped; 1 if there is none. It is emptied.
    def __init__(self, progress: Progress, weights: list[float] | None = None) -> None:
        self._progress, self._drawn = progress, [] if weights is None else weights
        self._weights: list[float] = []
        self._shares: list[float] = []

    def weighed(self, pieces: Iterable[Piece]) -> Iterator[Piece]:
        """The pieces, which are weighed as they are drawn."""
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
    """Keeps each warning once, shows it on another display if there is one, and nothing else."""

    def __init__(self, shown: Progress | None = None) -> None:
        self._shown = shown or Progress()
        self.warnings: list[str] = []

    def warn(self, message: str) -> None:
        """Keep and show a new warning."""
        if message not in self.warnings:
            self.warnings.append(message)
            self._shown.warn(message)
