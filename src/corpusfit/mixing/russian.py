"""Transliterates Russian from Latin to Cyrillic letters, whichever romanisation it is in.

One table for the romanisations of catalogues and journals. They agree on most letters; where they
differ, the longest match and the letter before decide. What a romanisation does not tell apart
comes out wrong: `ts` is ц also in "detskikh", `ia` я also in "diagnostika", BGN's `e` never э.

Reference: ALA-LC romanization table for Russian (2012); BGN/PCGN (1947); ISO/R 9 (1968).
"""

from __future__ import annotations

import re
import unicodedata

_CYRILLIC = re.compile(r"[\u0400-\u052f]")
_ROWS = (
    "а a, б b, в v, г g, д d, е e, з z, и i, к k, л l, м m, н n, о o, п p, р r, с s, т t, у u, ф f",
    "ж zh ž, й ĭ j, х kh h x, ц ts c, ч ch č, ш sh š, щ shch šč sch, ы y, э ė è",
    "ё ë yë yo, ю iu yu ju, я ia ya ja",
)
_LETTERS = {
    latin: letter
    for row in _ROWS
    for letter, *written in map(str.split, row.split(","))
    for latin in written
}
_SIGNS = {**dict.fromkeys("'’ʹ", "ь"), **dict.fromkeys('"”ʺ', "ъ")}
_SIGN = r"""(?<=[bcdfghklmnprstvxzčšž])(?:['’ʹ]|["”ʺ](?=\w))"""
"""A quotation mark after a consonant; elsewhere it is a quotation mark."""
_LATIN = re.compile("|".join([*sorted(_LETTERS, key=len, reverse=True), _SIGN]), re.I)
_TIES = re.compile("[\u0361\ufe20\ufe21]")
"""Marks of ALA-LC over the letters of ia, iu and ts."""
_SHORT_I = re.compile(r"(?<=[aeiouy])y(?![aeuë])", re.I)
"""BGN's й: a y after a vowel."""
_YE = re.compile(r"(?:(?<=[aeiouy'’ʹ\"”ʺ])|\b)ye", re.I)
"""BGN's е; after a consonant, y and e are two letters."""


def cyrillic(text: str) -> str:
    """Transliterate Russian from Latin to Cyrillic letters; a text with Cyrillic is unchanged."""
    if _CYRILLIC.search(text):
        return text
    latin = _TIES.sub("", unicodedata.normalize("NFC", text))
    latin = _SHORT_I.sub(lambda m: _cased("j", m[0]), latin)
    latin = _YE.sub(lambda m: _cased("e", m[0]), latin)
    letters = _LETTERS | _SIGNS
    found = _LATIN.sub(lambda m: _cased(letters[m[0].lower()], m[0]), latin)
    return found.upper() if text.isupper() else found


def _cased(letters: str, like: str) -> str:
    """The letters, with a capital where the others have one."""
    return letters.capitalize() if like[0].isupper() else letters
