"""Progress and ETA of a stage."""

from __future__ import annotations

import re

from corpusfit.core.errors import bad_setting

_BEGUN = 1e-4
"""Share of the work until which it is only being prepared."""

_ALMOST = 1 - 2**-20


def format_duration(seconds: float) -> str:
    """A duration in hours, minutes or seconds."""
    for unit, name in ((3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds / unit:,.1f} {name}"
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"


_DURATION = re.compile(r"(\d+(?:\.\d+)?) ?(s|min|m|h)")
SECONDS = {"s": 1, "min": 60, "m": 60, "h": 3600}
"""Seconds of each unit of a duration."""

SAFE_SHARE = 0.85
"""Share of a user's time that is planned with, as measured speeds vary."""


def parse_duration(setting: str, value: str | float) -> float:
    """Seconds of a duration such as 90s, 30min or 2h, or a number of seconds.

    Args:
        setting: name of the setting, for the error.
        value: what the user wrote.

    Raises:
        UsageError: it is no duration above 0.
    """
    if isinstance(value, str) and (match := _DURATION.fullmatch(value.strip())):
        value = float(match[1]) * SECONDS[match[2]]
    if isinstance(value, str) or not value > 0:
        cure = "For example 30min."
        raise bad_setting(setting, "a time such as 90s, 30min or 2h", value, cure)
    return float(value)


class Pace:
    """The share that is done, and the time left by the mean speed so far, of a stage.

    Args:
        total: amount of work; 0 if unknown.
        now: seconds on any clock, as in every call.
    """

    def __init__(self, total: float, now: float) -> None:
        self.total = total
        self.done = 0.0
        self._skipped = 0.0
        self._finished = False
        self._most = 0.0  # work that was shown as done
        self._began = now

    @property
    def share(self) -> float:
        """The largest fraction done so far, below 1 until `finish`; 0 if the total is unknown."""
        # more work may come than was planned, and a bar that goes back looks broken
        self._most = max(self._most, self._skipped + self.done)
        share = self._most / self.total if self.total else 0.0
        return min(share, _ALMOST) if not self._finished else float(self.total > 0)

    @property
    def skipped_all(self) -> bool:
        """Whether all progress so far was skipped, finished work."""
        return bool(self._skipped and not self.done)

    def skip(self, done: float) -> None:
        """Count work of an earlier command, which must not affect the speed."""
        self._skipped += done

    def finish(self) -> None:
        """Mark the stage as complete."""
        self._finished = True

    def add(self, done: float, now: float) -> None:
        """Count finished work."""
        self.done += done
        # so far, workers start and prepare their first pieces, which says nothing of the pace
        if self.done <= _BEGUN * self.total:
            self._began = now

    def left(self, now: float) -> float | None:
        """ETA in seconds, at least 1; None if unknown."""
        if self._finished or not self.total or self.done <= _BEGUN * self.total:
            return None
        todo = max(0.0, self.total - self._skipped - self.done)
        return max(todo * (now - self._began) / self.done, 1.0)
