"""The commonest n-grams of a few texts: what the coverage methods list.

What: counts, and a table that finds the listed n-grams again.
Why: a method's list must be the same whether it goes over the corpus unit by unit or as a whole.
Trade-off: ties are cut by identity, which is arbitrary and always the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpusfit.errors import InputError, bad_setting
from corpusfit.kernels.characters import table
from corpusfit.kernels.grams import grams_of, table_of
from corpusfit.types import Texts, buffers


@dataclass(frozen=True)
class Listed:
    """v n-grams, commonest first.

    Attributes:
        keys: uint64 [c], the table of n-grams, see `kernels/grams.py`.
        places: int32 [c], the same.
        counts: int64 [v], how often each is in the texts.
        total: how many n-grams the texts have, listed or not.
    """

    keys: NDArray[np.uint64]
    places: NDArray[np.int32]
    counts: NDArray[np.int64]
    total: int


def check_listing(order: int, top: int) -> None:
    """Refuse what cannot be listed.

    Raises:
        UsageError: order or top is below 1.
    """
    if order < 1:
        raise bad_setting("method.order", "at least 1", order)
    if top < 1:
        raise bad_setting("method.top", "at least 1", top)


def commonest(texts: Texts, role: str, order: int, top: int) -> Listed:
    """List the `top` commonest n-grams of `order` tokens.

    Raises:
        InputError: no text has so many tokens; `role`, `target` or `corpus`, names the input.
    """
    counted = grams_of(*buffers(texts), table(), order)[0]
    if not len(counted):
        raise InputError(
            f"method.order must be at most the number of words in a text of --{role}; "
            f"got {order}, and none of {len(texts):,} texts has so many. Lower it, or give longer "
            "texts."
        )
    grams, counts = np.unique(counted, return_counts=True)
    listed = np.argsort(-counts, kind="stable")[:top]
    keys, places = table_of(grams[listed])
    return Listed(keys, places, counts[listed], len(counted))
