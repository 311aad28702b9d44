"""Progress in Python: a logger's lines, Python's own warnings, and bars in notebooks."""

from __future__ import annotations

import datetime as dt
import html
import logging
import sys
import time
import warnings
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from corpusfit.core.credentials import public_text
from corpusfit.core.engine.pace import Pace
from corpusfit.core.engine.progress import Progress, title
from corpusfit.core.errors import CorpusfitWarning

LOG = logging.getLogger("corpusfit")
LOG.addHandler(logging.NullHandler())

_PACKAGE = str(Path(__file__).parents[2])
_EVERY = 0.2  # seconds between two drawings of a bar


class Logged(Progress):
    """Stages and notes as records of the logger `corpusfit` at INFO; warnings by `warnings`.

    Python shows a warning once, with the caller's line. To see the records:
    `logging.basicConfig(level="INFO")`.
    """

    def __init__(self) -> None:
        self._stage = ""
        self._began = 0.0

    def begin(self, stage: str, total: float, unit: str = "units") -> None:
        """Log that a stage starts."""
        self._stage = title(stage)
        self._began = time.monotonic()
        LOG.info("%s.", self._stage)

    def end(self) -> None:
        """Log that the stage is over, with its seconds."""
        LOG.info("%s: done after %.1f s.", self._stage, time.monotonic() - self._began)

    def stop(self) -> None:
        """Log that an error ended the stage."""
        LOG.info("%s: stopped after %.1f s.", self._stage, time.monotonic() - self._began)

    def warn(self, message: str) -> None:
        """Warn, at the line that called the package."""
        frame = sys._getframe(1)
        level = 2
        while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
            frame = frame.f_back
            level = level + 1
        warnings.warn(public_text(message), CorpusfitWarning, stacklevel=level)

    def note(self, message: str) -> None:
        """Log a message."""
        LOG.info("%s", public_text(message))


class Bars(Logged):
    """As `Logged`, and in a notebook bars with the time that is left, and notes."""

    def begin(self, stage: str, total: float, unit: str = "units") -> None:
        """Show the bar of a stage."""
        super().begin(stage, total, unit)
        from IPython.display import display

        self._pace = Pace(total, self._began)
        self._drawn = self._began
        self._bar: Any = display(self._shown(self._began), raw=True, display_id=True)

    def advance(self, done: float, units: int = 0) -> None:
        """Move the bar."""
        if done or not units:
            self._pace.add(done, time.monotonic())
        self._draw()

    def skip(self, done: float) -> None:
        """Move the bar, but not its speed."""
        self._pace.skip(done)
        self._draw()

    def end(self) -> None:
        """Fill the bar."""
        self._pace.finish()
        self._bar.update(self._shown(time.monotonic()), raw=True)
        super().end()

    def note(self, message: str) -> None:
        """Show a message."""
        super().note(message)
        from IPython.display import display

        text = public_text(message)
        page = f"<pre>{html.escape(text)}</pre>"
        display({"text/plain": text, "text/html": page}, raw=True, display_id=True)

    def _draw(self) -> None:
        now = time.monotonic()
        if now - self._drawn >= _EVERY:
            self._drawn = now
            self._bar.update(self._shown(now), raw=True)

    def _shown(self, now: float) -> dict[str, str]:
        """The bar as HTML and as text; without a share if the amount of work is not known."""
        left = self._pace.left(now)
        share = f"{self._pace.share:.0%}" if self._pace.total else ""
        took = f"{dt.timedelta(seconds=round(now - self._began))}"
        clock = "" if left is None else f"{dt.timedelta(seconds=round(left))} left"
        line = ", ".join(filter(None, (share, took, clock)))
        value = f' value="{self._pace.share}"' if share else ""
        page = f"<div>{html.escape(self._stage)} <progress{value}></progress> {line}</div>"
        return {"text/plain": f"{self._stage}: {line}", "text/html": page}


SHOWN_BY: ContextVar[Callable[[], Progress] | None] = ContextVar("SHOWN_BY", default=None)
"""What shows the progress of calls without one of their own; the command line sets it."""


def new_progress() -> Progress:
    """What a call shows without a progress of its own: in Python bars in a notebook, else a log."""
    if (shown_by := SHOWN_BY.get()) is not None:
        return shown_by()
    ipython = sys.modules.get("IPython")
    shell = ipython and ipython.get_ipython()
    return Bars() if shell is not None and "IPKernelApp" in shell.config else Logged()
