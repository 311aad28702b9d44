"""Distribution of a run's scores: counts at or above each threshold, and histograms, by source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpusfit.scoring import table
from corpusfit.scoring.table import grouped, source_groups
from corpusfit.selection.choosing import ScoredPart
from corpusfit.selection.examples import edges

_BINS = 60
"""Bins of equal width."""

_LONG_TAIL = 20.0
"""Most distance of the last bin above the median, as a multiple of that of the first below it.

Scores beyond are counted in the outermost bins.
"""

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Spread:
    """The scores of m segments of s sources, or folders of them (`scoring/table.py`); no copies.

    Attributes:
        sources: s names, in the corpus's order.
        thresholds: float32 [k], descending.
        segments: int64 [s, k], of each source at or above each threshold.
        tokens: int64 [s, k], their word pieces.
        of_source: int64 [s], all segments of each source.
        tokens_of_source: int64 [s], all their word pieces.
        bins: float32 [b + 1], edges, ascending.
        heights: int64 [s, b], segments of each source in each bin.
    """

    sources: tuple[str, ...]
    thresholds: NDArray[np.float32]
    segments: Counts
    tokens: Counts
    of_source: Counts
    tokens_of_source: Counts
    bins: NDArray[np.float32]
    heights: Counts


def spread_of(
    scores: Path, sources: Sequence[str], *, seed: int, threshold: float | None
) -> Spread:
    """Count the stored scores of a run, part by part.

    Thresholds come from a sample of the scores (`selection/examples.py`); the counts are exact.
    Memory does not grow with the corpus.
    """
    also = [] if threshold is None else [threshold]
    at = edges(lambda: (part for *_, part in _parts(scores)), seed=seed, also=also)
    bins = _bins(at)
    names: dict[str, int] = {}
    group_of = source_groups(sources)
    above: list[Counts] = []
    heights: list[Counts] = []
    for path, kept, part in _parts(scores):
        groups, place = grouped(*table.read_sources(path), group_of)
        number = np.array([names.setdefault(g, len(names)) for g in groups], np.int64)[place[kept]]
        while len(above) < len(names):
            above.append(np.zeros((2, len(at) + 1), np.int64))
            heights.append(np.zeros(len(bins) - 1, np.int64))
        for n in np.unique(number).tolist():
            found, tokens = part.scores[number == n], part.tokens[number == n]
            interval = np.searchsorted(-at, -found, side="left")
            above[n][0] += np.bincount(interval, minlength=len(at) + 1)
            above[n][1] += np.bincount(interval, tokens, len(at) + 1).astype(np.int64)
            heights[n] += np.histogram(np.clip(found, bins[0], bins[-1]), bins)[0]
    shape = (len(names), 2, len(at) + 1)
    counted = np.cumsum(np.array(above, np.int64).reshape(shape), axis=2)
    return Spread(
        tuple(names),
        at,
        counted[:, 0, :-1],
        counted[:, 1, :-1],
        counted[:, 0, -1],
        counted[:, 1, -1],
        bins,
        np.array(heights, np.int64).reshape(len(names), len(bins) - 1),
    )


def _parts(scores: Path) -> Iterator[tuple[Path, NDArray[np.bool_], ScoredPart]]:
    """Every part with segments, without copies: its path, which segments are none, the part."""
    for index, path in table.parts(scores):
        found, tokens, copy = table.read_columns(path, "score", "tokens", "copy")
        kept = ~np.asarray(copy, np.bool_)
        if kept.any():
            part = ScoredPart(
                index,
                np.asarray(found, np.float32)[kept],
                np.asarray(tokens, np.int64)[kept],
            )
            yield path, kept, part


def _bins(at: NDArray[np.float32]) -> NDArray[np.float32]:
    """Bins of equal width over the scores, with room beyond the outermost thresholds."""
    if not len(at):
        return np.array([0.0, 1.0], np.float32)
    low, middle = float(at[-1]), float(at[len(at) // 2])
    far = middle + _LONG_TAIL * (middle - low)
    high = float(next((s for s in at if s <= far), at[0]) if middle > low else at[0])
    room = 0.25 * (high - low) or 0.5
    return np.linspace(low - room, high + room, _BINS + 1, dtype=np.float32)
