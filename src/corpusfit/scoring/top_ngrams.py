"""The most frequent n-grams of a sample of texts, for the coverage methods."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.errors import InputError, bad_setting
from corpusfit.core.types import Texts, buffers
from corpusfit.kernels.characters import table
from corpusfit.kernels.grams import grams_of, table_of


@dataclass(frozen=True)
class Listed:
    """v n-grams, most frequent first.

    Attributes:
        keys: uint64 [c], the table of n-grams, see `kernels/grams.py`.
        places: int32 [c], the same.
        counts: int64 [v], their counts in the texts.
        total: number of all n-grams in the texts.
    """

    keys: NDArray[np.uint64]
    places: NDArray[np.int32]
    counts: NDArray[np.int64]
    total: int


def check_listing(order: int, top: int) -> None:
    """Check the settings of a list."""
    if order < 1:
        raise bad_setting("`method.order`", "at least 1", order)
    if top < 1:
        raise bad_setting("`method.top`", "at least 1", top)


def most_frequent(texts: Texts, role: str, order: int, top: int) -> Listed:
    """List the `top` most frequent n-grams of `order` tokens; ties go by identity."""
    counted = grams_of(*buffers(texts), table(), order)[0]
    if not len(counted):
        cure = "Set a lower order, or use longer texts." if order > 1 else "Use texts with words."
        raise InputError(
            f"`method.order` must be at most the number of words in a text of `{role}`; "
            f"got {order}, but all {len(texts):,} texts are shorter. {cure}"
        )
    grams, counts = np.unique(counted, return_counts=True)
    listed = np.argsort(-counts, kind="stable")[:top]
    keys, places = table_of(grams[listed])
    return Listed(keys, places, counts[listed], len(counted))
