r"""The kind of every character: the table behind the tokenizer.

What: for each code point its kind (word, sign, space, or a token of its own) and its lower case.
Why: Unicode's categories are looked up once, in Python, and a kernel then needs one array access.
Trade-off: planes above 1 are classified by their range (ideographs, signs), which keeps the table
at half a megabyte; lower-casing is by character, so that a word's identity never depends on its
neighbors ("İ" stays, final sigma is a sigma).
Reference: Unicode Technical Standard 18, annex C (\w); Unicode Standard Annexes 24 (scripts) and 14
(classes ID, SA, AK and AS: scripts whose lines break without a space).
"""

from __future__ import annotations

import unicodedata
from functools import cache

import numpy as np
from numpy.typing import NDArray

SPACE, WORD, SIGN, SOLO = range(4)
"""Between words; part of a word; part of a run of signs; a token of its own."""

KIND_SHIFT = 24
LAST = 0x20000
"""First code point that is not in the table; see `kind_of`."""

VERSION = 4
"""Raised when the words of a text change, so that stored scores and scorers are not mixed."""

IDEOGRAPHIC = (
    *("CJK UNIFIED", "CJK COMPAT", "HIRAGANA", "KATAKANA", "HALFWIDTH KATAKANA"),
    *("BOPOMOFO", "YI SYLLABLE"),
)
"""Beginnings of the names of characters in scripts without spaces, with full-width punctuation."""

UNSPACED = (
    *("THAI", "LAO", "KHMER", "MYANMAR"),
    *("TAI ", "NEW TAI", "AHOM", "JAVANESE", "BALINESE"),
)
"""The same for scripts that put a space between sentences or clauses, not between words.

Tibetan is none of them: its tsheg, a sign, stands between syllables.
"""

_WORD_CATEGORIES = ("L", "M", "N")
_SPOKEN = "#%&*/@\\§‰‱٪\u2032\u2033\u2034"


def kind_of(char: str) -> int:
    """The kind of one character.

    Words are made of letters, marks, numbers and connectors such as `_`; letters and marks of
    scripts without spaces are tokens of their own; all others are signs or spaces.
    """
    if ord(char) >= LAST:
        return SOLO if ord(char) < 0x40000 else SIGN
    category = unicodedata.category(char)
    if category[0] in _WORD_CATEGORIES or category == "Pc":
        name = unicodedata.name(char, "")
        alone = category[0] in "LM" and name.startswith(IDEOGRAPHIC + UNSPACED)
        return SOLO if alone else WORD
    return SPACE if category[0] in "ZC" else SIGN


def is_punctuation(char: str) -> bool:
    """Whether a character is ordinary punctuation, which makes no other text of a text.

    Not so the signs of punctuation that stand for a word or an operation, such as `%` and `/`.
    """
    if char in "`\u00b4":  # quotes, as people type them
        return True
    return unicodedata.category(char)[0] == "P" and char not in _SPOKEN


def _lower(char: str) -> int:
    lower = char.lower()
    return ord(lower) if len(lower) == 1 else ord(char)


@cache
def table() -> NDArray[np.uint32]:
    """uint32 [LAST]: kind << KIND_SHIFT | lower-case code point, for every code point below."""
    entries = [kind_of(c) << KIND_SHIFT | _lower(c) for c in map(chr, range(LAST))]
    return np.array(entries, np.uint32)


@cache
def symbol_table() -> NDArray[np.uint32]:
    """As `table`, but ordinary punctuation stands between words, so that only symbols are signs."""
    entries = table().copy()
    for code in np.flatnonzero(entries >> KIND_SHIFT == SIGN).tolist():
        if is_punctuation(chr(code)):
            entries[code] = SPACE << KIND_SHIFT | code
    return entries
