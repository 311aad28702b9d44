"""What long work says of itself while it runs.

What: the interface a stage reports to, and one that says nothing.
Why: the library never prints; a command line or a notebook decides what to show.
Trade-off: a few calls, enough for a bar with a rate and the time left, and for sentences.
"""

from __future__ import annotations


class Progress:
    """Says nothing; a front end overrides what it wants to show."""

    def begin(self, stage: str, total: float, unit: str = "units") -> None:
        """A stage starts; `total` is its amount of work, 0 when unknown; its rate is in `unit`."""

    def advance(self, done: float, units: int = 0) -> None:
        """Some work was done: `done` of the total, and how many units that was."""

    def end(self) -> None:
        """The stage is over."""

    def warn(self, message: str) -> None:
        """Something the user should know, one sentence."""

    def note(self, message: str) -> None:
        """How it goes, one sentence; nothing to act on."""
