"""When two texts are the same: what copies, splits, contamination and the guard compare.

What: a text in the form of its words (`kernels/word_form.py`) and one case, of which letters with
their marks, digits and symbols count, white space and ordinary punctuation do not. Next to a digit
more counts, as it makes another number: what stands between two digits (`1.99`, `19.9`, `1 99`), a
dash before a digit, and a decimal point; and so do the parentheses of a formula, next to an
operator. A text of which nothing counts, such as `...`, is compared whole. HTML entities are what
they stand for.
Why: one text is written with other quotes, spaces ("isn 't"), capitals and Unicode forms; other
letters, numbers or operators make another text.
Trade-off: words are not kept apart ("a nice man" is "an ice man"), so that all tokenisations of a
text agree. I and ı are different letters, as in all languages but Turkish and its relatives.
Reference: The Unicode Standard, D145 (canonical caseless matching); Annex 15 (normal forms).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import pairwise, repeat
from unicodedata import category

import numpy as np
import xxhash
from numpy.typing import NDArray

from corpusfit.kernels.characters import is_punctuation
from corpusfit.kernels.letters import COMPLEX, LAST, hash_letters, hash_points
from corpusfit.kernels.normal_form import normalized
from corpusfit.kernels.word_form import beyond_ascii, word_form, word_forms
from corpusfit.text.normalize import unescaped

FORM = 4
"""Number of this definition, part of the identity of stored keys."""

# signs, as letters have their form: of Arabic and Hebrew, vertical, small, wide and narrow ones
_SIGNS = re.compile("[\ufb00-\ufdff\ufe10-\ufe19\ufe30-\ufefc\uff01-\uffef]")
_EMOJI_JOINER = "\u200d"
_APOSTROPHES = "\u02bb\u02bc"  # the letters of Ukrainian and Uzbek that are typed as quotes
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015"
# bounded, so that a line of dashes does not backtrack
_MINUS = re.compile(r"-[-\s]{0,16}(?=\d)")
_POINT = re.compile(r"\.(?<![^\W\d_]\.)(?=\d)")
_QUOTED = re.compile("<<([^<>]*)>>")  # also how some tasks mark entities
_OPERATORS = "+<=>|~^*/\u00b1\u00d7\u00f7\u2200-\u22ff"
_OPENING = re.compile(rf"\((?:(?<=[{_OPERATORS}]\()|(?<=[{_OPERATORS}]\s\())")
_CLOSING = re.compile(rf"\)(?=\s?[{_OPERATORS}])")
# replaces the space between two digits; occurs in no text
_BLANK = "\ufdd0"
_ALIKE = str.maketrans("‘’“”", "''\"\"")
_PLANE_1 = re.compile("[\U00010000-\U0001ffff]")


def _stand_in(sign: str) -> str:
    """The private-use character that replaces punctuation that counts."""
    return chr(0x100000 + ord(sign))


def _dropped(char: str) -> bool:
    return is_punctuation(char) or category(char) in ("Cc", "Cf", "Zs", "Zl", "Zp")


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """A character outside ASCII that is dropped, and a run of dropped ones between two digits."""
    # characters above would slow the pattern down
    chars = [c for c in map(chr, range(0x10000)) if _dropped(c) and c != _EMOJI_JOINER]
    one, other = (
        "".join(map(re.escape, some)) for some in (chars, (c for c in chars if c > "\x7f"))
    )
    return re.compile(f"[{other}]"), re.compile(rf"(\d)([{one}]+)(?=(\u2212?)\d)")


_LOWER = bytes(range(256)).lower()
_DROPPED_ASCII = bytes(c for c in range(128) if _dropped(chr(c)))


@lru_cache(1 << 12)
def _between_digits(run: str, minus: str) -> str:
    signs = "".join(map(_stand_in, filter(is_punctuation, run.translate(_ALIKE))))
    return signs or ("" if minus else _BLANK)


def folded(text: str) -> str:
    """A text in one Unicode form and in one case, but for the case of ASCII letters.

    Word n-grams (`kernels.characters.symbol_table`) and `form_of` are made of this.
    """
    if "&" in text:
        text = unescaped(text)
    if not text.isascii():
        text = word_form(text)
        others = beyond_ascii(text)
        if _SIGNS.search(others):
            text = _SIGNS.sub(lambda m: normalized(m[0], "NFKC"), text)
        if others.casefold() != others:
            text = normalized(text.casefold())
        for dash in _DASHES:
            text = text.replace(dash, "-")
        for letter in _APOSTROPHES:
            text = text.replace(letter, "'")
    return _QUOTED.sub(r" \1 ", text) if "<<" in text else text


def form_of(folded_text: str) -> bytes:
    """The significant characters of a `folded` text; a prefix gives a prefix."""
    # symbols, which are not dropped, stand for the punctuation that counts
    text = _MINUS.sub("\u2212", folded_text)
    text = _POINT.sub(_stand_in("."), text)
    text = _CLOSING.sub(_stand_in(")"), _OPENING.sub(_stand_in("("), text))
    text = _patterns()[1].sub(lambda m: m[1] + _between_digits(m[2], m[3]), text)
    data = text.encode("utf-8", "surrogatepass").translate(_LOWER, _DROPPED_ASCII)
    if data.isascii():
        return data
    text = _patterns()[0].sub("", data.decode("utf-8", "surrogatepass"))
    if b"\xf0" in data:  # the first byte of characters of plane 1
        text = _PLANE_1.sub(lambda m: "" if _dropped(m[0]) else m[0], text)
    return text.encode("utf-8", "surrogatepass")


def normal_form(folded_text: str) -> bytes:
    """Equal for two `folded` texts that are the same text."""
    whole = "".join(folded_text.split())
    return form_of(folded_text) or whole.encode("utf-8", "surrogatepass")


def key_of(form: bytes) -> int:
    """64-bit XXH3 hash of a form; two forms collide with probability 2^-64."""
    return xxhash.xxh3_64_intdigest(form)


def form_keys(folded_texts: Iterable[str]) -> NDArray[np.uint64]:
    """uint64 [n]: the keys of the normal forms of n `folded` texts."""
    return np.fromiter(map(key_of, map(normal_form, folded_texts)), np.uint64)


def text_keys(texts: Iterable[str]) -> NDArray[np.uint64]:
    """uint64 [n]: equal for texts that are the same text; see the module."""
    return form_keys(map(folded, texts))


def letters_keys(data: NDArray[np.uint8], bounds: NDArray[np.int64]) -> NDArray[np.uint64]:
    """uint64 [n]: keys of n UTF-8 texts' letters, digits and symbols, in one form and one case.

    Equal for texts with the same normal form, and, unlike that, for numbers that differ in their
    punctuation: `1.99` is `199`.

    Args:
        data: the bytes of the texts.
        bounds: int64 [n, 2], where each begins and ends.
    """
    keys: NDArray[np.uint64]
    keys, holds = hash_letters(data, bounds, _letters())
    forms = [_letters_of(data[slice(*bounds[i])].tobytes()) for i in np.flatnonzero(~holds)]
    points = np.frombuffer("".join(forms).encode("utf-32-le", "surrogatepass"), np.uint32)
    keys[~holds] = hash_points(points, np.cumsum([len(form) for form in forms], dtype=np.int64))
    return keys


def _letters_of(data: bytes) -> str:
    """What counts of a text; all of it if nothing does."""
    text = data.decode("utf-8", "surrogatepass")
    letters = _patterns()[0].sub("", folded(text)).encode("utf-8", "surrogatepass")
    counted = letters.translate(_LOWER, _DROPPED_ASCII).decode("utf-8", "surrogatepass")
    return counted or text


@cache
def _letters() -> NDArray[np.uint32]:
    """What `_letters_of` makes of single characters, as `hash_letters` takes it."""
    table = np.full(LAST, COMPLEX, np.uint32)
    for point in range(LAST):
        char = chr(point)
        # `&` begins an entity; marks and parts of Hangul syllables may compose with what is before
        if char == "&" or category(char)[0] == "M" or 0x1100 <= point < 0x1200:
            continue
        form = _patterns()[0].sub("", folded(char))
        letters = form.encode("utf-8", "surrogatepass").translate(_LOWER, _DROPPED_ASCII).decode()
        if len(letters) < 2 and char != _EMOJI_JOINER:
            table[point] = ord(letters) if letters else 0
    return table


def exact_keys(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], seeds: Iterable[int] = ()
) -> NDArray[np.uint64]:
    """uint64 [n]: equal for texts with the same form of words; hashes with seeds, if there are any.

    Args:
        data: the bytes of n UTF-8 texts.
        offsets: int64 [n + 1], where each begins.
        seeds: of each text.
    """
    # Two different texts share a key with probability 2^-64.
    data, offsets = word_forms(data, offsets)
    content = data.data
    spans = pairwise(offsets.tolist())
    hashes = (
        xxhash.xxh3_64_intdigest(content[begin:end], seed)
        for (begin, end), seed in zip(spans, seeds or repeat(0), strict=False)
    )
    return np.fromiter(hashes, np.uint64, len(offsets) - 1)
