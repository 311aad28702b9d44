"""Text of a corpus as people may safely see it.

What: marks that turn the order of writing are shown and do nothing; `page.py` escapes markup.
Why: a name or a text may hide another one behind them.
Reference: Boucher and Anderson (2021), Trojan Source; Unicode Standard Annex 9.
"""

from __future__ import annotations

_TURNING = {mark: f"⟨U+{mark:04X}⟩" for mark in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}


def harmless(text: str) -> str:
    """The text with such marks as their names."""
    return text.translate(_TURNING)
