"""Score edges at given shares of the corpus, and sampled segments between the edges."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from corpusfit.kernels.chance import place_keys
from corpusfit.selection.choosing import Parts, ScoredPart

SHARES: tuple[float, ...] = (
    *(0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08),
    *(0.1, 0.12, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9),
)
"""Shares of the corpus at which possible thresholds are shown."""

_SAMPLE = 100_000
"""Size of the sample of segments from whose scores the edges are computed."""

_EDGES, _DRAWN = 1, 2  # random streams


def edges(parts: Parts, *, seed: int, also: Iterable[float] = ()) -> NDArray[np.float32]:
    """The scores at which about `SHARES` of the segments would be selected.

    The scores are those of a uniform sample (all segments up to a bound), so the share above an
    edge is close to the requested share.
    """
    sample = np.sort(_sample(parts(), seed))[::-1]
    if not len(sample):
        return np.empty(0, np.float32)
    places = [min(len(sample), max(1, round(share * len(sample)))) - 1 for share in SHARES]
    found = np.concatenate([sample[places], np.array(list(also), np.float32)])
    return np.unique(found)[::-1]


def _sample(parts: Iterable[ScoredPart], seed: int) -> NDArray[np.float32]:
    keys, scores = np.empty(0, np.uint64), np.empty(0, np.float32)
    for part in parts:
        keys = np.append(keys, _keys(seed, _EDGES, part))
        scores = np.append(scores, part.scores)
        if len(keys) > 2 * _SAMPLE:
            keys, scores = _lowest(_SAMPLE, keys, scores)
    return _lowest(_SAMPLE, keys, scores)[1]


def _keys(seed: int, stream: int, part: ScoredPart) -> NDArray[np.uint64]:
    return place_keys(int(place_keys(seed, stream, 1)[0]), part.index, len(part.scores))


def _lowest(
    count: int, keys: NDArray[np.uint64], values: NDArray[np.float32]
) -> tuple[NDArray[np.uint64], NDArray[np.float32]]:
    kept = np.argsort(keys, kind="stable")[:count]
    return keys[kept], values[kept]


def drawn_between(
    parts: Parts, at: NDArray[np.float32], each: int, *, seed: int
) -> dict[int, NDArray[np.int64]]:
    """Draw a few segments between every two edges, above the first and below the last.

    A uniform sample would hold almost none of the best hundredth. Segments are drawn by bottom-k
    sampling of hashed positions (`kernels/chance.py`).
    """
    held = [(np.empty(0, np.uint64), np.empty((0, 2), np.int64)) for _ in range(len(at) + 1)]
    for part in parts():
        keys = _keys(seed, _DRAWN, part)
        stretch = np.searchsorted(-at, -part.scores, side="left")
        for number in np.unique(stretch):
            inside = np.flatnonzero(stretch == number)
            nearest = inside[np.argsort(keys[inside], kind="stable")[:each]]
            places = np.column_stack([np.full(len(nearest), part.index), nearest])
            known = np.append(held[number][0], keys[nearest])
            kept = np.argsort(known, kind="stable")[:each]
            held[number] = known[kept], np.concatenate([held[number][1], places])[kept]
    drawn = np.concatenate([places for _, places in held])
    return {int(index): np.sort(drawn[drawn[:, 0] == index, 1]) for index in np.unique(drawn[:, 0])}
