"""How scores and lengths are spread, as a report shows them.

Workers count; the report reads the sums and no score, so it costs the same for any corpus.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.artifacts import read_arrays, write_arrays
from corpusfit.selection.gathering import marked_path, read_gathered

_BINS = 60
"""Bins of equal width."""

_LONG_TAIL = 20.0
"""Most distance of the last bin above the median, as a multiple of that of the first below it.

Scores beyond are counted in the outermost bins.
"""

_LENGTHS = np.array([0, *np.unique(np.round(2.0 ** (np.arange(16 * 40) / 16)))], np.int64)
"""Word pieces at which the bins of lengths begin: each number to 29, later 4 % apart."""

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Spread:
    """The scores and the lengths of m segments; no copies."""

    thresholds: NDArray[np.float32]  # float32 [k], descending
    taken: Counts  # int64 [k + 1], word pieces selected between two thresholds
    bins: NDArray[np.float32]  # float32 [b + 1], edges, ascending
    heights: Counts  # int64 [b], segments in each bin; outermost: and beyond
    lengths: Counts  # int64 [2, l], segments by length, all and selected

    def quantiles(self, shares: Sequence[float]) -> list[list[int]]:
        """Quantiles of the word pieces, about, of all and of the selected segments, if any."""
        through = [of.cumsum() for of in self.lengths if of.any()]
        places = [np.searchsorted(of, np.array(shares) * of[-1]) for of in through]
        return [_LENGTHS[at].tolist() for at in places]


def count_spread(
    scores: NDArray[np.float32],
    tokens: NDArray[np.int64],
    selected: NDArray[np.bool_],
    at: NDArray[np.float32],
) -> Spread:
    """Count m segments, each with its score and its word pieces, [m]."""
    bins = _bins(at)
    interval = np.searchsorted(-at, -scores, side="left")
    length = np.searchsorted(_LENGTHS, tokens, side="right") - 1
    of_length = [
        np.bincount(which, minlength=len(_LENGTHS)) for which in (length, length[selected])
    ]
    return Spread(
        at,
        np.bincount(interval, tokens * selected, len(at) + 1).astype(np.int64),
        bins,
        np.histogram(np.clip(scores, bins[0], bins[-1]), bins)[0],
        np.array(of_length),
    )


def add_spreads(spreads: Iterable[Spread], at: NDArray[np.float32]) -> Spread:
    """The sums of several."""
    nothing = np.empty(0, np.int64)
    whole = count_spread(np.empty(0, np.float32), nothing, np.empty(0, np.bool_), at)
    for spread in spreads:
        whole = replace(
            whole,
            taken=whole.taken + spread.taken,
            heights=whole.heights + spread.heights,
            lengths=whole.lengths + spread.lengths,
        )
    return whole


def _bins(at: NDArray[np.float32]) -> NDArray[np.float32]:
    """Bins of equal width, with a margin beyond the outermost thresholds."""
    if not len(at):
        return np.array([0.0, 1.0], np.float32)
    low, middle = float(at[-1]), float(at[len(at) // 2])
    far = middle + _LONG_TAIL * (middle - low)
    high = float(next((s for s in at if s <= far), at[0]) if middle > low else at[0])
    margin = 0.25 * (high - low) or 0.5
    return np.linspace(low - margin, high + margin, _BINS + 1, dtype=np.float32)


def count_gathered(
    gathered: Path, at: NDArray[np.float32], numbered: tuple[int, tuple[int, ...]]
) -> tuple[int, Spread]:
    """Count the segments of a run of parts, whose selection `WriteChoice` wrote."""
    number, parts = numbered
    selected = read_arrays(marked_path(gathered, parts))[0]["selected"]
    kept = [part.without_copies() for part in read_gathered(gathered, parts)]
    scores = np.concatenate([np.empty(0, np.float32), *(part.scores for part in kept)])
    tokens = np.concatenate([np.empty(0, np.int64), *(part.tokens for part in kept)])
    return number, count_spread(scores, tokens, selected, at)


def write_spread(path: Path, spread: Spread) -> None:
    """Store it."""
    write_arrays(path, vars(spread), {})


def read_spread(path: Path) -> Spread | None:
    """What `write_spread` stored; None if it stored nothing."""
    return Spread(**read_arrays(path)[0]) if path.exists() else None
