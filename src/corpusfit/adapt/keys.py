"""Keys that copies of a text share: hashes of its letters and digits."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import xxhash
from numpy.typing import NDArray

_NO_WORD = re.compile(r"[\W_]+")


def alphanumeric(text: str) -> str:
    """A text's letters and digits, case-folded; a prefix of the text gives a prefix of these.

    White space, punctuation, symbols and combining marks are dropped.
    """
    return _NO_WORD.sub("", text.casefold())


def key_of(letters: str) -> int:
    """64-bit XXH3 hash of a string; two strings collide with probability 2^-64."""
    return xxhash.xxh3_64_intdigest(letters.encode("utf-8", "surrogatepass"))


def text_keys(texts: Iterable[str]) -> NDArray[np.uint64]:
    """uint64 [n]: equal for texts that differ only in case, white space, punctuation or marks.

    Texts without a letter or digit all share one key.
    """
    return np.fromiter((key_of(alphanumeric(text)) for text in texts), np.uint64)
