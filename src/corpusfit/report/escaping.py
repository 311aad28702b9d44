"""Text of a corpus made safe to display: Unicode bidirectional controls become visible names."""

from __future__ import annotations

_BIDIRECTIONAL = {
    mark: f"⟨U+{mark:04X}⟩" for mark in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
}


def harmless(text: str) -> str:
    """The text with each bidirectional control replaced by its code point; `page.py` escapes HTML.

    Reference: Boucher and Anderson (2021), Trojan Source; Unicode Standard Annex 9.
    """
    return text.translate(_BIDIRECTIONAL)
