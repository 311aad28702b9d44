"""Output of the commands: tables for people, one JSON object for programs."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import typer

from corpusfit.core.credentials import public_text, redacted
from corpusfit.core.escaping import harmless

if TYPE_CHECKING:
    from rich.console import Console, JustifyMethod

_GAP = 2
_LONG = 24
"""Letters of a word that is folded where a table has no room."""

_NAME = re.compile(r"`([a-z_][a-z0-9_]*(?:\.[a-z0-9_]+)*)(?:=([^`]*))?`")

FLAGS: dict[str, str] = {}
"""The flags of the running command, by their arguments' names and by paths of settings."""


def with_flags(text: str, flags: Mapping[str, str] = FLAGS, *, alone: bool = False) -> str:
    """A text with the flag beside each setting: `choose.fraction=0.1` (--fraction 0.1).

    In a help the flag stands `alone`, in place of the setting.
    """
    added = {""}

    def beside(match: re.Match[str]) -> str:
        name = match[1]
        value = match[2]
        flag = flags.get(name, "")
        if value and (not flag or value == "false"):
            set_by = flags.get("settings") if "." in name else None
            flag = f"{set_by} {name}={shlex.quote(value)}" if set_by else ""
        elif value and value != "true":
            flag = f"{flag} {shlex.quote(value)}"
        if alone and flag:
            return flag
        if flag in added:
            return match[0]
        added.add(flag)
        return f"{match[0]} ({flag})"

    return _NAME.sub(beside, text)


@cache
def stderr() -> Console:
    """Standard error."""
    from rich.console import Console  # help does without it

    # without a terminal no bar moves, even if FORCE_COLOR is set, as in notebooks
    terminal = None if sys.stderr.isatty() else False
    return Console(stderr=True, highlight=False, soft_wrap=True, force_terminal=terminal)


@cache
def stdout() -> Console:
    """Standard output."""
    from rich.console import Console

    return Console(highlight=False)


def say(message: str) -> None:
    """Print a line for the user on standard error, with flags beside names of settings."""
    stderr().print(harmless(with_flags(public_text(message))), markup=False, emoji=False)


def say_result(sentence: str = "") -> None:
    """Print a sentence on standard output."""
    typer.echo(harmless(redacted(sentence)))


def as_json(value: Any) -> None:
    """Print one JSON object on standard output, in ASCII for any terminal and any file name."""
    sys.stdout.write(redacted(json.dumps(value, default=str)) + "\n")


def answer(json: bool, facts: Any, show: Callable[..., None], *shown: Any) -> None:
    """Print the facts as one JSON object, or call `show` with them (or with `shown`)."""
    if json:
        as_json(facts)
    else:
        show(*(shown or (facts,)))


def percent(part: float, whole: float) -> str:
    """A share with one decimal."""
    return f"{100 * part / whole:.1f} %" if whole else "–"


def one_line(text: str, max_characters: int) -> str:
    """The first characters of a text on one line, those that control a terminal by code point."""
    line = " ".join(text.split())
    return harmless(line[:max_characters]) + (" …" if len(line) > max_characters else "")


def table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, words: Sequence[str] = ()
) -> None:
    """Print a table on standard output, in the terminal's width if its figures have room there.

    Figures are never folded, so a line may be longer than the terminal is wide.

    Args:
        title: what the table shows.
        columns: their headings.
        rows: a cell per column.
        words: columns of text, which may be folded; the first column is one.
    """
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    for i, name in enumerate(columns):
        text = i == 0 or name in words
        cells = [harmless(row[i]) for row in rows]
        # texts and headings fold between words
        parts = [word for cell in cells for word in cell.split()] if text else cells
        least = max(map(cell_len, parts), default=0)
        if text:
            least = min(least, _LONG)
        least = max([least, *map(cell_len, harmless(name).split())])
        justify: JustifyMethod = "left" if text else "right"
        shown.add_column(Text(harmless(name)), justify=justify, overflow="fold", min_width=least)
    for row in rows:
        shown.add_row(*(Text(harmless(cell)) for cell in row))
    stdout().print(Text(harmless(title)), style="italic")
    stdout().print(shown, crop=False)
    stdout().print()
