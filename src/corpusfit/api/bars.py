"""Progress in notebooks: a bar for each stage, with the time that is left."""

from __future__ import annotations

import datetime as dt
import sys
import time
import warnings
from typing import Any

from corpusfit.api.logged import Logged
from corpusfit.core.engine.pace import Pace

_FORMAT = "{desc}: {percentage:3.0f} %|{bar}| {elapsed}{postfix}"
_UNKNOWN = "{desc}: {elapsed}"
"""Of a stage whose amount of work is not known."""


def in_notebook() -> bool:
    """Whether the caller is a notebook's kernel."""
    ipython = sys.modules.get("IPython")
    shell = ipython and ipython.get_ipython()
    return shell is not None and "IPKernelApp" in shell.config


class Bars(Logged):
    """As `Logged`, and bars by tqdm."""

    def begin(self, stage: str, total: float, unit: str = "units") -> None:
        """Show the bar of a stage."""
        super().begin(stage, total, unit)
        with warnings.catch_warnings(action="ignore"):  # without ipywidgets the bar is text
            from tqdm.auto import tqdm
        self._pace = Pace(total, time.monotonic())
        form, whole = (_FORMAT, 1.0) if total else (_UNKNOWN, None)
        self._bar: Any = tqdm(total=whole, desc=stage, bar_format=form)

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
        self._draw()
        self._bar.close()
        super().end()

    def stop(self) -> None:
        """Leave the bar as it is."""
        self._bar.close()
        super().stop()

    def _draw(self) -> None:
        left = self._pace.left(time.monotonic())
        clock = "" if left is None else f"{dt.timedelta(seconds=round(left))} left"
        self._bar.set_postfix_str(clock, refresh=False)
        self._bar.update(self._pace.share - self._bar.n)
