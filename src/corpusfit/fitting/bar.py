"""One bar for all parts of a fit."""

from __future__ import annotations

import time

from corpusfit.core.engine import Progress
from corpusfit.training.phases import RiseWarning


class FitProgress:
    """The progress of a whole fit: the share of the time that has passed."""

    def __init__(self, shown: Progress) -> None:
        self.shown = shown
        self.left = 1.0  # planned seconds of all parts that are not done, the current one included
        self._began = time.monotonic()
        self._done = 0.0  # shares that are shown
        self._skipped = 0.0

    def plan(self, seconds: float) -> None:
        """Set the seconds of what is still to do."""
        self.left = max(seconds, 1.0)

    def move(self, left: float) -> None:
        """Show that so many seconds are left; a bar never moves back."""
        took = time.monotonic() - self._began
        share = (1 - self._skipped) * took / (took + max(left, 1.0))
        self.shown.advance(share - self._done)
        self._done = share

    def end(self, seconds: float, *, skipped: bool) -> None:
        """Count a part as done, by now or by an earlier command."""
        if skipped:
            share = (1 - self._skipped - self._done) * min(1.0, seconds / self.left)
            self._skipped += share
            self.shown.skip(share)
        self.plan(self.left - seconds)


class PartProgress(Progress):
    """The progress of one part, as a share of the fit's.

    Only the longest stages of each command count, each for its share of the part.
    """

    _STAGES = ("adapt", "probe", "fine-tune", "score", "measure")
    _ENOUGH = 0.2
    """Share of a part after which its own speed alone predicts the time that it still takes."""

    def __init__(
        self,
        fit_progress: FitProgress,
        expected: float,
        said: set[str],
        shares: tuple[float, ...] = (1.0,),
    ) -> None:
        self._fit_progress = fit_progress
        self._expected = expected
        self._said = said
        self._shares = shares
        self.begin_again()

    def begin_again(self) -> None:
        """Start the part again from nothing."""
        self._began = time.monotonic()
        self._coming = list(self._shares)
        self._total = 0.0
        self._share = 0.0
        self._done = 0.0

    def begin(self, stage: str, total: float, unit: str = "units") -> None:
        """Take the next share of the part, for a stage that counts."""
        self._total = total if stage in self._STAGES and self._coming else 0.0
        if self._total:
            self._share = self._coming.pop(0)

    def advance(self, done: float, units: int = 0) -> None:
        """Move the fit's bar by the time that is left."""
        if self._total:
            self._done = min(1.0, self._done + self._share * done / self._total)
        took = time.monotonic() - self._began
        part = max(self._done, 1e-9)
        planned = max(self._expected - took, took / 10)
        trust = min(1.0, part / self._ENOUGH) ** 2
        left = (1 - trust) * planned + trust * took * (1 - part) / part
        self._fit_progress.move(self._fit_progress.left - self._expected + left)

    def complete(self, *, was_there: bool) -> None:
        """Count the part as done, by now or by an earlier command."""
        self._fit_progress.end(self._expected, skipped=was_there and not self._done)

    def warn(self, message: str) -> None:
        """Show a warning once."""
        if isinstance(message, RiseWarning):
            return  # the table has every loss, and the rate is ours to lower
        if message not in self._said:  # every replicate would say the same
            self._said.add(message)
            self._fit_progress.shown.warn(message)
