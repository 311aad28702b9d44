"""Text of others made safe to show: on a terminal, on a page, in a table, in a spreadsheet."""

from __future__ import annotations

from typing import Any

_BIDIRECTIONAL = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
_CONTROLS = (*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0))
_VISIBLE = {mark: f"⟨U+{mark:04X}⟩" for mark in (*_BIDIRECTIONAL, *_CONTROLS)}


def harmless(text: str) -> str:
    """The text with each control character and bidirectional control replaced by its code point.

    Tabs and ends of lines stay. `report/page.py` escapes HTML.
    Reference: Boucher and Anderson (2021), Trojan Source; Unicode Standard Annex 9; ECMA-48.
    """
    return text.replace("\r\n", "\n").translate(_VISIBLE)


def in_sheet(value: Any) -> Any:
    """A value for CSV: an apostrophe precedes text that a spreadsheet would take for a formula.

    Numbers as text, also several with spaces between, stay as they are.
    Reference: OWASP, CSV Injection.
    """
    acts = isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r"))
    return f"'{value}" if acts and not _are_numbers(value) else value


def _are_numbers(text: str) -> bool:
    try:
        return bool([float(word) for word in text.split()])
    except ValueError:
        return False
