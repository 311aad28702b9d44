"""Keys that copies of a text share.

What: a hash of a text's letters and digits, and what they are.
Why: a copy is a copy if it is set in other type: in capitals, on other lines, with other commas.
Trade-off: two texts share a key by chance with probability 2^-64; texts without a letter or a digit
all share one.
Reference: XXH3; Unicode's full case folding.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import xxhash
from numpy.typing import NDArray

_NO_WORD = re.compile(r"[\W_]+")


def bare(text: str) -> str:
    """A text's letters and digits, case-folded; of its beginning, the beginning of these.

    Blanks, punctuation, symbols and combining marks are left out.
    """
    return _NO_WORD.sub("", text.casefold())


def key_of(letters: str) -> int:
    """The key of a string as it is: what differs in it, in one character, gets another."""
    return xxhash.xxh3_64_intdigest(letters.encode("utf-8", "surrogatepass"))


def text_keys(texts: Iterable[str]) -> NDArray[np.uint64]:
    """uint64 [n]: the same for texts that differ in case, blanks, punctuation or marks alone."""
    return np.fromiter((key_of(bare(text)) for text in texts), np.uint64)
