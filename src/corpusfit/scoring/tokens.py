"""Tokens: n-grams of texts, and the tokens of one text as written, for explanations."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.types import Texts, buffers, text_array
from corpusfit.kernels.canonical import composed
from corpusfit.kernels.characters import table
from corpusfit.kernels.grams import grams_of
from corpusfit.kernels.tokens import tokenise


def word_buffers(texts: Any) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """`buffers` of texts in NFC, for kernels of words: a letter and its marks are one character."""
    return composed(*buffers(texts))


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


def word_cosines(units: Texts, texts: Texts) -> NDArray[np.float64]:
    """The cosine of each text's TF-IDF vector with the mean of those of units, float64 [n].

    Inverse document frequencies come from both, smoothed as if one more text held every word:
    ln((1 + N) / (1 + df)).
    """
    from scipy.sparse import csr_array

    read = [ngrams(each, 1) for each in (units, texts)]
    words, place = np.unique(np.concatenate([each for each, _ in read]), return_inverse=True)
    ends = np.concatenate([[0], *(np.diff(ends) for _, ends in read)]).cumsum()
    counts = csr_array((np.ones(len(place)), place, ends), (len(ends) - 1, len(words)))
    counts.sum_duplicates()
    df = np.bincount(counts.indices, minlength=len(words))
    counts.data *= np.log(len(ends) / (1 + df))[counts.indices]
    sizes = np.sqrt((counts * counts).sum(axis=1))
    # a text without a word that others lack has no direction, and is like none
    vectors = csr_array((1.0 / np.where(sizes > 0.0, sizes, np.inf))[:, None] * counts)
    mean = vectors[: len(units)].sum(axis=0)
    return np.asarray(vectors[len(units) :] @ (mean / (np.sqrt((mean**2).sum()) or 1.0)))
