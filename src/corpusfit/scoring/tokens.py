"""Tokens: n-grams of texts, and the tokens of one text as written, for explanations."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.types import buffers, text_array
from corpusfit.kernels.characters import table
from corpusfit.kernels.grams import grams_of
from corpusfit.kernels.tokens import tokenise
from corpusfit.kernels.word_form import word_forms


def word_buffers(texts: Any) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """`buffers` of texts in the form in which words are compared, for kernels of words."""
    return word_forms(*buffers(texts))


def ngrams(texts: Any, order: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The n-grams of `order` words in n texts, in reading order; none crosses a text.

    Args:
        texts: in any form that `as_texts` takes.
        order: words in an n-gram, at least 1.

    Returns:
        uint64 [m] identities, and int64 [n + 1]: text i has those in `[ends[i] : ends[i + 1]]`.
    """
    grams, ends = grams_of(*word_buffers(texts), table(), order)
    return grams, ends


def written_tokens(text: str, *, signs: bool = False) -> tuple[NDArray[np.uint64], list[str]]:
    """The t tokens of one text: identities uint64 [t], and their spellings, in lower case."""
    data = word_buffers(text_array([text]))[0]
    ids = np.empty(len(data), np.uint64)
    starts, ends = np.empty((2, len(data)), np.int64)
    count = tokenise(data, 0, len(data), table(), signs, ids, starts, ends)
    written = [
        bytes(data[a:b]).decode().lower() for a, b in zip(starts[:count], ends[:count], strict=True)
    ]
    return ids[:count], written
