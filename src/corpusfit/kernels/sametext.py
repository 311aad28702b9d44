"""When two texts count as the same text.

What: a text's letters and digits alone, case folded, and a 64-bit key of them.
Why: held-out texts, and examples of a task, come back with other blanks, quotes or marks, and are
the same to a model that is asked about them.
Trade-off: keys of different texts meet once in 2^64 pairs; texts without a letter or a digit are
all the same.
Reference: XXH3, https://xxhash.com
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import xxhash
from numpy.typing import NDArray

__all__ = ["bare", "text_keys"]

_NO_WORD = re.compile(r"[\W_]+")


def bare(text: str) -> str:
    """The text's letters and digits, case folded."""
    return _NO_WORD.sub("", text.casefold())


def text_keys(texts: Sequence[str]) -> NDArray[np.uint64]:
    """uint64 [n]: the same for texts that differ in case, blanks, punctuation or marks alone."""
    found = (xxhash.xxh3_64_intdigest(bare(t).encode("utf-8", "surrogatepass")) for t in texts)
    return np.fromiter(found, np.uint64, len(texts))
