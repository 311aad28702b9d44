"""Output of the commands: tables for people, one JSON object for programs."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import typer
from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from corpusfit.core.credentials import public_text, redacted
from corpusfit.core.escaping import harmless

# Without a terminal no bar moves, even if FORCE_COLOR is set, as in notebooks.
_TERMINAL = None if sys.stderr.isatty() else False
STDERR = Console(stderr=True, highlight=False, soft_wrap=True, force_terminal=_TERMINAL)
STDOUT = Console(highlight=False)
_PIPED_WIDTH = 80
_GAP = 2
_FOLDED = (20, 16, 12, 8)
"""Least widths of a column of text, the first that leaves room for the figures."""


_NAME = re.compile(r"`([a-z_][a-z0-9_]*(?:\.[a-z0-9_]+)*)(?:=([^`]*))?`")

_PATH = re.compile(r"\S*[/\\]\S*")
_ENDING = re.compile(r"(?<=[^.])(\.[A-Za-z]\w{1,6}){1,2}$")
"""The ending of a file's name, such as `.jsonl.zst`."""

FLAGS: dict[str, str] = {}
"""The flags of the running command, by their arguments' names and by paths of settings."""


def with_flags(text: str, flags: Mapping[str, str] = FLAGS, *, alone: bool = False) -> str:
    """A text with the flag beside each setting: `choose.fraction=0.1` (--fraction 0.1).

    In a help the flag stands `alone`, in place of the setting.
    """
    added = {""}

    def beside(match: re.Match[str]) -> str:
        name, value = match[1], match[2]
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


def say(message: str) -> None:
    """Print a line for the user on standard error, with flags beside names of settings."""
    STDERR.print(harmless(with_flags(public_text(message))), markup=False, emoji=False)


def say_result(sentence: str = "") -> None:
    """Print a sentence on standard output."""
    typer.echo(harmless(redacted(sentence)))


def as_json(thing: Any) -> None:
    """Print one JSON object on standard output, in ASCII for any terminal and any file name."""
    sys.stdout.write(redacted(json.dumps(thing, default=str)) + "\n")


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
    """The first characters of a text on one line, without control characters."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= max_characters else line[:max_characters] + " …"


def table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    words: Sequence[str] = (),
    keys: int = 1,
) -> None:
    """Print a table on standard output that is as wide as the terminal, $COLUMNS or 80 columns.

    Columns of figures are never folded. A table that is too wide continues in a second one; the
    heading of a column of files then has the ending that is common to them all.

    Args:
        title: what the table shows.
        columns: their headings.
        rows: a cell per column.
        words: columns of text, which may be folded; the first column is one.
        keys: leading columns that name a row and are repeated in a second table.
    """
    limit, title = _table_width(), harmless(title)
    columns = [harmless(name) for name in columns]
    words = [harmless(name) for name in words]
    rows = [[harmless(cell) for cell in row] for row in rows]
    text = [name in (columns[0], *words) for name in columns]
    widest, full = _widths(columns, rows)
    unfolded = map(max, widest, map(_heading, columns))
    if sum(unfolded) + _GAP * (len(full) - 1) > limit:
        for i in (i for i, folds in enumerate(text) if folds and rows):
            ending = match[0] if (match := _ENDING.search(rows[0][i])) else ""
            if ending and all(row[i].endswith(ending) and row[i] != ending for row in rows):
                rows = [[*row[:i], row[i].removesuffix(ending), *row[i + 1 :]] for row in rows]
                columns[i] += f" (*{ending})"
        widest, full = _widths(columns, rows)
    # fold columns of text more and more narrowly until the keys and any other column fit
    for folded in _FOLDED:
        least = [
            min(wide, folded) if folds else max(_heading(name), *map(cell_len, cells), 1)
            for wide, folds, (name, cells) in zip(full, text, _cells(columns, rows), strict=True)
        ]
        if sum(least[:keys]) + _GAP * keys + max(least[keys:], default=0) <= limit:
            break
    STDOUT.print(Text(title), width=limit, style="italic")
    # one table, or several with the same keys if the columns are too many
    for part in _parts(least, keys, limit):
        widths = _spread(
            [least[i] for i in part], [widest[i] for i in part], [full[i] for i in part], limit
        )
        total = sum(widths) + _GAP * (len(widths) - 1)
        shown = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), width=total)
        for i, width in zip(part, widths, strict=True):
            justify: JustifyMethod = "left" if text[i] else "right"
            heading = Text(columns[i], overflow="fold")
            shown.add_column(heading, justify=justify, width=width, overflow="fold")
        cells = [
            _shortened([row[i] for row in rows], width)
            for i, width in zip(part, widths, strict=True)
        ]
        for row in zip(*cells, strict=True):
            shown.add_row(*map(Text, row))
        STDOUT.print(shown, crop=False)
        STDOUT.print()


def _shortened(cells: list[str], width: int) -> list[str]:
    """A column's cells, with paths that are too long for it shown by their ends.

    A path that is folded cannot be copied. Other names that would fold over three lines lose their
    middle. Where two would be the same, all are whole.
    """

    def short(cell: str) -> str:
        if cell_len(cell) > width and _PATH.fullmatch(cell):
            return f"…{cell[1 - width :]}"
        if len(cell) > 2 * width and cell.isascii() and " " not in cell:
            return f"{cell[: width // 2]}…{cell[width // 2 + 1 - width :]}"
        return cell

    shown = list(map(short, cells))
    return shown if len(set(shown)) == len(set(cells)) else cells


def _widths(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[list[int], list[int]]:
    """The widest cell of each column, and the width of it with its heading."""
    widest = [max(map(cell_len, cells), default=0) for _, cells in _cells(columns, rows)]
    full = [max(cell_len(name), wide) for name, wide in zip(columns, widest, strict=True)]
    return widest, full


def _table_width() -> int:
    """The width of a table: $COLUMNS, or else the terminal's, or 80 where there is none."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    return STDOUT.width if STDOUT.is_terminal else _PIPED_WIDTH


def _cells(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[tuple[str, list[str]]]:
    """Each column's heading and its cells."""
    return [(name, [row[i] for row in rows]) for i, name in enumerate(columns)]


def _heading(name: str) -> int:
    """The least width of a heading, which is folded at spaces and within a long word."""
    return min(_FOLDED[0], max(map(cell_len, name.split()), default=1))


def _parts(least: Sequence[int], keys: int, limit: int) -> list[list[int]]:
    """The columns of each table, so that every table fits; each begins with the keys."""
    parts = [list(range(keys))]
    for i in range(keys, len(least)):
        width = sum(least[j] for j in parts[-1]) + least[i] + _GAP * len(parts[-1])
        if width > limit and len(parts[-1]) > keys:
            parts.append(list(range(keys)))
        parts[-1].append(i)
    return parts


def _spread(
    least: Sequence[int], widest: Sequence[int], full: Sequence[int], limit: int
) -> list[int]:
    """Widths of columns: at least `least`; first, cells get the room that leaves them unfolded."""
    widths = list(least)
    spare = limit - sum(widths) - _GAP * (len(widths) - 1)
    for i, wide in enumerate(widest):
        if widths[i] < wide <= widths[i] + spare:
            spare -= wide - widths[i]
            widths[i] = wide
    while spare > 0 and any(now < most for now, most in zip(widths, full, strict=True)):
        for i, most in enumerate(full):
            if spare > 0 and widths[i] < most:
                widths[i] += 1
                spare -= 1
    return widths
