"""Find the copies among the texts of a corpus by their keys, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

_AT_ONCE = 1 << 21
"""Keys that are sorted at a time, about; each takes 40 bytes meanwhile."""
_KINDS = {"exact": "exact copies", "near": "near-duplicates"}


def find_copies(
    parts: Callable[[], Iterable[NDArray[np.uint64]]],
    scores: NDArray[np.float32],
    *,
    at_once: int = _AT_ONCE,
) -> NDArray[np.bool_]:
    """Which of n documents have the key of a better one; bool [n].

    Better is a higher score, or the same one and an earlier place. Keys are hashes, so every range
    of them holds about equally many; the ranges are sorted one by one.
    """
    n = len(scores)
    found = np.zeros(n, np.bool_)
    width = (1 << 64) * at_once // max(n, at_once)
    for low in range(0, 1 << 64, width) if n else ():
        high = np.uint64(min(low + width, 1 << 64) - 1)
        keys, places, first = [], [], 0
        for part in parts():
            inside = np.flatnonzero((part >= np.uint64(low)) & (part <= high))
            keys.append(part[inside])
            places.append(first + inside)
            first += len(part)
        key, place = np.concatenate(keys), np.concatenate(places)
        order = np.lexsort((-scores[place], key))
        same = key[order][1:] == key[order][:-1]
        found[place[order[1:][same]]] = True
    return found


def copies_in_words(counts: Mapping[str, int] | None) -> str:
    """What a selection left out, from its counts by kind in the manifest; empty for nothing."""
    found = [f"{n:,} {_KINDS[kind]}" for kind, n in (counts or {}).items() if n and kind in _KINDS]
    return f"{' and '.join(found)} of other rows left out" if found else ""
