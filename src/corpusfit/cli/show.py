"""What commands print: tables and bars for people, one JSON object for programs.

Why: standard output carries the result and nothing else, so that it can be piped.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import (
    Progress as RichProgress,
)
from rich.table import Table
from rich.text import Text

from corpusfit.engine.progress import Progress

_err = Console(stderr=True, highlight=False, soft_wrap=True)
_out = Console(highlight=False, width=None if sys.stdout.isatty() else 120)


def say(message: str) -> None:
    """One line for the user, on standard error."""
    _err.print(message, markup=False)


def as_json(thing: Any) -> None:
    """One JSON object on standard output, in ASCII: any terminal and any file name will do."""
    sys.stdout.write(json.dumps(thing, default=str) + "\n")


def percent(part: float, whole: float) -> str:
    """A share with one decimal."""
    return f"{100 * part / whole:.1f} %" if whole else "–"


def one_line(text: str, most: int) -> str:
    """A text's first so many characters, without those that would steer the terminal."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= most else line[:most] + " …"


def short_names(names: Sequence[str], most: int = 100) -> dict[str, str]:
    """The last part of each path, for a table; the whole where two would be the same."""
    last = {name: PurePath(name).name or name for name in names}
    several = [short for short in last.values() if list(last.values()).count(short) > 1]
    return {n: one_line(n if s in several else s, most) for n, s in last.items()}


def table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, words: Sequence[str] = ()
) -> None:
    """A table on standard output; the first column and those in `words` are text, the rest figures.

    A last column of words may be folded, nothing else is.
    """
    shown = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for name in columns:
        left = name in (columns[0], *words)
        folded = left and name == columns[-1]
        shown.add_column(name, justify="left" if left else "right", no_wrap=not folded)
    for row in rows:
        shown.add_row(*(Text(cell) for cell in row))
    _out.print(shown)
    _out.print()


class _Rate(ProgressColumn):
    """Units, or tokens, a second since the stage began."""

    def render(self, task: Task) -> Text:
        units, seconds = task.fields["units"], task.elapsed or 0
        return Text(f"{units / seconds:,.0f} {task.fields['unit']}/s" if units and seconds else "")


class Bar(Progress):
    """Progress on standard error: a bar on a terminal, silent otherwise; warnings always."""

    def __init__(self) -> None:
        self._bar: RichProgress | None = None
        self._units = 0

    def begin(self, stage: str, total: float, unit: str = "units") -> None:
        """Show a stage."""
        if not _err.is_terminal:
            return
        columns = (
            TextColumn("{task.description:16}"),
            BarColumn(bar_width=30),
            TextColumn("{task.percentage:>3.0f} %"),
            _Rate(),
            TimeRemainingColumn(),
        )
        self._units = 0
        self._bar = RichProgress(*columns, console=_err)
        self._bar.add_task(stage, total=total or None, units=0, unit=unit)
        self._bar.start()

    def advance(self, done: float, units: int = 0) -> None:
        """Move the bar."""
        if self._bar is not None:
            self._units += units
            task = self._bar.task_ids[0]
            self._bar.update(task, advance=done, units=self._units)

    def end(self) -> None:
        """Leave the bar as it stands."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def warn(self, message: str) -> None:
        """A warning, above the bar."""
        say(f"Warning: {message}")

    def note(self, message: str) -> None:
        """A sentence, above the bar."""
        say(message)
