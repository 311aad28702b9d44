"""Escape untrusted text for terminals, pages, tables and spreadsheets."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from typing import Any

_BIDIRECTIONAL = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
_CONTROLS = (*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0))
_SURROGATES = range(0xD800, 0xE000)  # lone surrogates, which no terminal can display
_VISIBLE = {mark: f"⟨U+{mark:04X}⟩" for mark in (*_BIDIRECTIONAL, *_CONTROLS, *_SURROGATES)}


def harmless(text: str) -> str:
    """The text with control characters, bidirectional controls and surrogates by code point.

    Tabs and ends of lines stay. `reporting/page.py` escapes HTML.
    Reference: Boucher and Anderson (2021), Trojan Source; Unicode Standard Annex 9; ECMA-48.
    """
    return text.replace("\r\n", "\n").translate(_VISIBLE)


_MARKDOWN = re.compile(r"[\\`*|<>&\[\]#~]|(?<![^\W_])_|_(?![^\W_])")
"""Characters with a meaning in Markdown; a `_` within a word has none."""


def in_markdown(text: str) -> str:
    """Escape text as one line of Markdown."""
    return _MARKDOWN.sub(r"\\\g<0>", one_line(text))


def one_line(text: str) -> str:
    """Any text as one line, with `harmless` characters."""
    return harmless(" ".join(text.split()))


def as_csv(columns: Iterable[Any], rows: Iterable[Iterable[Any]]) -> str:
    """A table as CSV, each value as by `in_sheet`."""
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerows(map(in_sheet, row) for row in (columns, *rows))
    return text.getvalue()


def in_sheet(value: Any) -> Any:
    """A value for CSV: an apostrophe precedes text that a spreadsheet would take for a formula.

    Text is `harmless`, as some readers end a row at a carriage return. Numbers as text, also
    several with spaces between, stay as they are.
    Reference: OWASP, CSV Injection.
    """
    if not isinstance(value, str):
        return value
    text = harmless(value)
    acts = text.startswith(("=", "+", "-", "@", "\t")) and not _are_numbers(text)
    return f"'{text}" if acts else text


def _are_numbers(text: str) -> bool:
    try:
        return bool([float(word) for word in text.split()])
    except ValueError:
        return False
