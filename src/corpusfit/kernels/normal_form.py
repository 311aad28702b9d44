"""Unicode's normal forms in linear time.

What: `normalized` equals `unicodedata.normalize`, and everything that normalizes text calls it.
Why: Python puts marks in canonical order by insertion sort, so a row of 32 MB that has nothing but
marks would take a day. Here a long run of marks is taken apart and sorted first.
Trade-off: texts are looked at once more; of every seventh character, to see whether there is such a
run at all.
Reference: Unicode Standard Annex 15, sections 3 (canonical order) and 13 (stream-safe text).
"""

from __future__ import annotations

import re
from functools import cache
from itertools import groupby
from typing import Literal
from unicodedata import combining, decomposition, normalize  # noqa: TID251 (the one use)

Form = Literal["NFC", "NFD", "NFKC", "NFKD"]
"""The names of the normal forms."""

# marks in a row that no word has: text with at most 30 is "stream-safe"
_LONG = 31
# distance of the characters that are looked at first
_STEP = 7


def normalized(text: str, form: Form = "NFC") -> str:
    """A text in a normal form; equals `unicodedata.normalize`."""
    if text.isascii():
        return text
    sampled, run = _patterns()
    if sampled.search(text[::_STEP]):
        text = run.sub(lambda found: _ordered(found[0], form), text)
    return normalize(form, text)


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """What every seventh character of a long run of marks matches, and the run itself."""
    chars = [chr(code) for code in range(0xC0, 0x10000)]
    marks = {char for char in chars if combining(char)}
    # characters that are marks in a normal form only, such as U+0F73 and U+FF9E
    marks |= {c for c in chars if decomposition(c) and all(map(combining, normalize("NFKD", c)))}
    # all of plane 1, as a pattern is slow with the ranges of its marks; other characters are kept
    mark = f"[{''.join(sorted(marks))}\U00010000-\U0001ffff]"
    return re.compile(f"{mark}{{{_LONG // _STEP}}}"), re.compile(f"{mark}{{{_LONG},}}")


def _ordered(run: str, form: Form) -> str:
    """The characters of a run taken apart, with marks in canonical order."""
    without_composition: Form = "NFKD" if "K" in form else "NFD"
    apart = "".join(normalize(without_composition, char) for char in run)
    return "".join(
        "".join(sorted(chars, key=combining) if are_marks else chars)
        for are_marks, chars in groupby(apart, key=lambda char: combining(char) > 0)
    )
