"""The interface by which a stage reports its progress."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Piece = TypeVar("Piece")


_TITLES = {
    "align": "Writing aligned files",
    "assign": "Assigning segments to clusters",
    "choose": "Choosing segments",
    "choose k": "Choosing the number of clusters",
    "count": "Counting rows and words",
    "draw": "Drawing a sample",
    "embed": "Embedding the corpus",
    "fine-tune": "Fine-tuning models",
    "fit": "Fitting on the sample",
    "label": "Reading the groups",
    "merge": "Joining the parts of the text",
    "place": "Placing all texts",
    "prepare encoder": "Preparing the encoder",
    "probe": "Probing models",
    "rank": "Ranking methods",
    "sample": "Drawing a sample of the corpus",
    "sample texts": "Reading the sampled texts",
    "score": "Scoring the corpus",
    "select, adapt and measure": "Selecting, adapting and measuring",
    "take": "Selecting in rounds",
    "write": "Writing the text",
}
_DOING = {
    "adapt": "Adapting models",
    "embed": "Embedding the",
    "find": "Finding",
    "look": "Looking",
    "measure": "Measuring",
    "read": "Reading",
    "score": "Scoring",
    "tokenise": "Tokenizing",
    "train": "Training",
    "translate": "Translating",
}


def title(stage: str) -> str:
    """A stage as it is shown; its name is that of its times in manifests."""
    first, _, rest = stage.partition(" ")
    return _TITLES.get(stage) or f"{_DOING.get(first, first.capitalize())} {rest}".rstrip()


class Progress:
    """Shows nothing; front ends override the methods that they display."""

    def begin(self, stage: str, total: float, unit: str = "units") -> None:
        """Start a stage with an amount of work (0: unknown) and the unit that its rate is in."""

    def advance(self, done: float, units: int = 0) -> None:
        """Add `done` to the finished work and `units` to its units; zeros signal that it begins."""

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
        """Show a warning, one sentence; a class of its own, a `str`, may tell its kind."""

    def note(self, message: str) -> None:
        """Show a message that needs no action, one sentence."""


class Meter:
    """Turns the shares that `Engine.map` reports by `on_share` into calls of `Progress.advance`."""

    # weights: filled by the source of the pieces. Its last entry is of the next piece, earlier ones
    # are of skipped pieces; if it is empty, the weight is 1.
    def __init__(self, progress: Progress, weights: list[float] | None = None) -> None:
        self._progress = progress
        self._incoming = [] if weights is None else weights
        self._weights: list[float] = []
        self._shares: list[float] = []

    def weighed(self, pieces: Iterable[Piece]) -> Iterator[Piece]:
        """Yield the pieces, and note their weights."""
        self._incoming.clear()
        for piece in pieces:
            self._weights.append(self._incoming.pop() if self._incoming else 1.0)
            self._shares.append(-1.0)
            self._skip()
            yield piece
        self._skip()

    def _skip(self) -> None:
        if self._incoming:
            self._progress.skip(sum(self._incoming))
            self._incoming.clear()

    def __call__(self, number: int, share: float) -> None:
        """Advance by what was done of a piece since the last call."""
        before = self._shares[number]
        self._shares[number] = share
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
