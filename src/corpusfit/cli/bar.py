"""Shows the progress of a command on standard error: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from rich.progress import BarColumn, ProgressColumn, Task, TextColumn
from rich.progress import Progress as RichProgress
from rich.text import Text

from corpusfit.cli import show
from corpusfit.core.engine.pace import Pace
from corpusfit.core.engine.progress import Progress, title

SOON = 2.0
"""Seconds after which a stage is worth a line."""
_EVERY = 30.0
"""Seconds between the lines of a stage."""


def clock_time(seconds: float) -> str:
    """Hours, minutes and seconds, rounded up."""
    whole = math.ceil(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def rate(units: float, seconds: float, unit: str) -> str:
    """Units per second, or seconds per unit if it takes longer than one; empty if unknown.

    Args:
        units: number of units done.
        seconds: what they took.
        unit: their name, in the plural.
    """
    if units <= 0 or seconds <= 0:
        return ""
    if units < seconds:
        return f"{seconds / units:,.3g} s per {unit.removesuffix('s')}"
    return f"{units / seconds:,.{0 if units >= 10 * seconds else 1}f} {unit}/s"


class _Column(ProgressColumn):
    """A column whose text a function computes."""

    def __init__(self, text: Callable[[], str]) -> None:
        super().__init__()
        self._text = text

    def render(self, task: Task) -> Text:
        return Text(self._text())


class Warnings(Progress):
    """Warnings alone, on standard error."""

    def warn(self, message: str) -> None:
        """Print a warning, above the bar if there is one."""
        show.say(f"Warning: {message}")


class Bar(Warnings):
    """Progress on standard error: a bar on a terminal, plain lines elsewhere; warnings always.

    Plain lines announce a stage that takes seconds, its progress every 30 seconds, and its end.

    Args:
        clock: gives seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._bar: RichProgress | None = None
        self._over: threading.Event | None = None  # set when a stage without a bar is over
        self._teller = threading.Thread()
        self._told = False
        self._name = ""
        self._unit = ""
        self._units = 0
        self._rate = ""
        self._began = clock()
        self._pace = Pace(0, self._began)

    def begin(self, stage: str, total: float, unit: str = "units") -> None:
        """Show the bar of a stage, or a line."""
        self._name = title(stage)
        self._unit = unit
        self._units = 0
        self._rate = ""
        self._began = self._clock()
        self._pace = Pace(total, self._began)
        if not show.stderr().is_terminal:
            self._over = threading.Event()
            self._told = False
            self._teller = threading.Thread(target=self._tell, args=(self._over,), daemon=True)
            self._teller.start()
            return
        self._bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            _Column(self._percent),
            _Column(lambda: self._rate),
            _Column(self._left),
            _Column(self._took),
            console=show.stderr(),
        )
        self._bar.add_task(self._name, total=1.0 if total else None)
        self._bar.start()

    def advance(self, done: float, units: int = 0) -> None:
        """Move the bar."""
        now = self._clock()
        if done or not units:
            self._pace.add(done, now)
        if units:
            self._units += units
            self._rate = rate(self._units, now - self._began, self._unit)
        self._draw()

    def skip(self, done: float) -> None:
        """Move the bar, but not its speed."""
        self._pace.skip(done)
        self._draw()

    def end(self) -> None:
        """Fill the bar and stop it, or print the last line."""
        self._pace.finish()
        self._draw()
        self._close("was there" if self._pace.skipped_all else "done")

    def stop(self) -> None:
        """Stop the bar as it is, or print the last line."""
        self._close("stopped")

    def _close(self, how: str) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        elif self._over is not None:
            self._over.set()
            self._teller.join()
            self._over, took = None, self._clock() - self._began
            if self._told or took >= SOON:
                show.say(f"{self._name}: {how} after {clock_time(took)}.")

    def note(self, message: str) -> None:
        """Print a sentence above the bar."""
        show.say(message)

    def line(self) -> str:
        """How far the stage is, in a sentence."""
        took = clock_time(self._clock() - self._began)
        left = self._left() and f"about {self._left()} left"
        parts = [self._percent().strip(), self._rate, f"{took} so far", left]
        return f"{self._name}: {', '.join(filter(None, parts))}."

    def _tell(self, over: threading.Event) -> None:
        if over.wait(SOON):
            return
        self._told = True
        show.say(f"{self._name}.")
        while not over.wait(_EVERY):
            show.say(self.line())

    def _draw(self) -> None:
        if self._bar is not None:
            name = f"{self._name} (already there)" if self._pace.skipped_all else self._name
            self._bar.update(self._bar.task_ids[0], completed=self._pace.share, description=name)

    def _percent(self) -> str:
        return f"{math.floor(100 * self._pace.share):3d} %" if self._pace.total else ""

    def _left(self) -> str:
        left = self._pace.left(self._clock())
        return "" if left is None else clock_time(left)

    def _took(self) -> str:
        """The time of a stage whose amount of work is not known."""
        took = self._clock() - self._began
        return f"{clock_time(took)} so far" if not self._pace.total else ""


class Stages(Bar):
    """Shows the progress and warnings, not what each command notes: the end has the result."""

    def note(self, message: str) -> None:
        """Show nothing."""
