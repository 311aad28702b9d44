"""Find the copies among the texts of a corpus by their keys, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

_AT_ONCE = 1 << 21
"""Keys that are sorted at a time, about; each takes 40 bytes meanwhile."""

Keyed = Callable[[], Iterable[tuple[NDArray[np.uint64], NDArray[np.float32]]]]
"""The keys and scores of the documents, part by part; read anew at each call."""


def find_copies(parts: Keyed, n: int, *, at_once: int = _AT_ONCE) -> NDArray[np.bool_]:
    """Which of n documents have the key of another that stays; bool [n].

    Of the documents with one key the one with the highest score stays, of those the first. Keys are
    hashes, so every range of them holds about equally many; the ranges are sorted one by one, and
    only a byte per document is kept.

    Args:
        parts: keys uint64 and finite scores float32 of the documents, in reading order.
        n: number of documents.
        at_once: keys to sort at a time.
    """
    found = np.zeros(n, np.bool_)
    width = (1 << 64) * at_once // max(n, at_once)
    for low in range(0, 1 << 64, width):
        high = np.uint64(min(low + width, 1 << 64) - 1)
        keys, scores, places, first = [], [], [], 0
        for part, of_part in parts():
            inside = np.flatnonzero((part >= np.uint64(low)) & (part <= high))
            keys.append(part[inside])
            scores.append(of_part[inside])
            places.append(first + inside)
            first += len(part)
        if not first:
            break
        key, place = np.concatenate(keys), np.concatenate(places)
        order = np.lexsort((-np.concatenate(scores), key))
        same = key[order][1:] == key[order][:-1]
        found[place[order[1:][same]]] = True
    return found
