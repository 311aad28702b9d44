"""How far a stage is and how long it will still take, from what was done when."""

from __future__ import annotations

from itertools import pairwise

_RECENT = 0.2
"""Part of the time so far that the speed is taken from: the last fifth, or more where needed."""
_LEAST = 10.0
"""Seconds that the speed is taken from at least."""
_GAPS = 3
"""Work that is reported in lumps is watched for this many of the longest gaps between them."""
_KEPT = 500
"""Reports closer together than this part of the time so far are kept as one."""

_BEGUN = 1e-4
"""Share of the work until which it is only being prepared."""

_ALMOST = 1 - 2**-20


def format_duration(seconds: float) -> str:
    """A duration in hours, minutes or seconds."""
    for unit, name in ((3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds / unit:,.1f} {name}"
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"


class Pace:
    """The share that is done, and the time left, of a stage that gets reports of its work.

    The speed is that between two crests of the recent reports, so that it does not matter whether
    a report has just come or is due: many workers that finish large pieces together report nothing
    for long, then much at once.

    Args:
        total: amount of work; 0 if unknown.
        now: seconds on any clock, as in every call.
    """

    def __init__(self, total: float, now: float) -> None:
        self.total, self.done = total, 0.0
        self._skipped, self._finished = 0.0, False
        self._seen = [(now, 0.0)]

    @property
    def share(self) -> float:
        """The part that is done, from 0 to below 1 until `finish`; 0 if the total is unknown."""
        share = (self._skipped + self.done) / self.total if self.total else 0.0
        return min(share, _ALMOST) if not self._finished else float(self.total > 0)

    @property
    def skipped_all(self) -> bool:
        """Whether all that was passed so far was done before."""
        return bool(self._skipped and not self.done)

    def skip(self, done: float) -> None:
        """Work was done before, and says nothing about the speed."""
        self._skipped += done

    def finish(self) -> None:
        """Nothing is left to do."""
        self._finished = True

    def add(self, done: float, now: float) -> None:
        """More work was done; until more than `_BEGUN` is, the clock starts anew."""
        self.done += done
        if self.done <= _BEGUN * self.total:
            self._seen = [(now, self.done)]
            return
        spacing = (now - self._seen[0][0]) / _KEPT
        if len(self._seen) > 2 and self._seen[-1][0] - self._seen[-2][0] < spacing:
            self._seen.pop()
        self._seen.append((now, self.done))

    def left(self, now: float) -> float | None:
        """Seconds until all is done, above 0; None if nothing is known about it."""
        seen = list(self._seen)
        if self._finished or not self.total or len(seen) < 2:
            return None
        begin, end = seen[0][0], seen[-1][0]
        later = sum(at >= begin + (now - begin) / 4 for at, _ in seen)
        gap = max(b - a for (a, _), (b, _) in pairwise(seen[-later - 1 :] if later else seen))
        stalled = max(0.0, now - end - gap)  # quiet for longer than ever
        since = end - max((now - begin) * _RECENT, _LEAST, _GAPS * gap)
        before = sum(at < since for at, _ in seen)
        seen = seen[max(0, before - 1) :]
        first, last = _crests(seen)
        speed = (last[1] - first[1]) / max(last[0] + stalled - first[0], 1e-9)
        if not speed:
            return None
        todo = max(0.0, self.total - self._skipped - last[1])
        return max(todo / speed - (now - stalled - last[0]), 1.0)


def _crests(seen: list[tuple[float, float]]) -> tuple[tuple[float, float], tuple[float, float]]:
    """The highest report of the first and of the last third, above the line between the ends."""
    (begin, low), (end, high) = seen[0], seen[-1]
    slope, third = (high - low) / max(end - begin, 1e-9), (end - begin) / 3
    early = [report for report in seen if report[0] <= begin + third]
    late = [report for report in seen if report[0] >= end - third]

    def height(report: tuple[float, float]) -> float:
        return report[1] - slope * report[0]

    return max(early, key=height), max(late, key=height)
