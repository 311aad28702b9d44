"""How scores and lengths are spread, as a report shows them.

Workers count; the report reads the sums and no score, so it costs the same for any corpus.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.artifacts import read_arrays, write_arrays
from corpusfit.selection.gathering import read_chosen

_BINS = 60
"""Bins of equal width."""

_LONG_TAIL = 20.0
"""Most distance of the highest score above the best tenth, as a multiple of that tenth's own above
the lowest tenth. Scores beyond are counted in the outermost bins."""

_LENGTHS = np.array([0, *np.unique(np.round(2.0 ** (np.arange(16 * 40) / 16)))], np.int64)
"""Word pieces at which the bins of lengths begin: each number to 29, later 4 % apart."""

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Spread:
    """The scores and the lengths of m segments; no copies."""

    bins: NDArray[np.float32]  # float32 [b + 1], edges, ascending
    heights: Counts  # int64 [b], segments in each bin; outermost: and beyond
    lengths: Counts  # int64 [2, l], segments by length, all and selected

    def quantiles(self, shares: Sequence[float]) -> list[list[int]]:
        """Quantiles of the word pieces, about, of all and of the selected segments, if any."""
        through = [of.cumsum() for of in self.lengths if of.any()]
        places = [np.searchsorted(of, np.array(shares) * of[-1]) for of in through]
        return [_LENGTHS[at].tolist() for at in places]


def bins_of(sample: NDArray[np.float32]) -> NDArray[np.float32]:
    """Bins of equal width for scores like those of a sample, with a margin."""
    if not len(sample):
        return np.array([0.0, 1.0], np.float32)
    low, middle, high = np.quantile(sample, (0.1, 0.9, 0.999), method="lower").tolist()
    if middle > low:
        high = min(high, middle + _LONG_TAIL * (middle - low))
    margin = 0.25 * (high - low) or 0.5
    return np.linspace(low - margin, high + margin, _BINS + 1, dtype=np.float32)


def count_spread(
    scores: NDArray[np.float32],
    tokens: NDArray[np.int64],
    selected: NDArray[np.bool_],
    bins: NDArray[np.float32],
) -> Spread:
    """Count m segments, each with its score and its word pieces, [m]."""
    length = np.searchsorted(_LENGTHS, tokens, side="right") - 1
    of_length = [
        np.bincount(which, minlength=len(_LENGTHS)) for which in (length, length[selected])
    ]
    heights = np.histogram(np.clip(scores, bins[0], bins[-1]), bins)[0]
    return Spread(bins, heights, np.array(of_length))


def add_spreads(spreads: Iterable[Spread]) -> Spread:
    """The sums of one or more with the same bins."""
    first, *others = spreads
    heights = sum((spread.heights for spread in others), first.heights)
    lengths = sum((spread.lengths for spread in others), first.lengths)
    return Spread(first.bins, heights, lengths)


def count_gathered(gathered: Path, bins: NDArray[np.float32], parts: tuple[int, ...]) -> Spread:
    """Count the segments of a run of parts, whose selection `WriteChoice` wrote."""
    columns = [(np.empty(0, np.float32), np.empty(0, np.int64), np.empty(0, np.bool_))]
    for part, selected in read_chosen(gathered, parts):
        kept = ~part.copy
        columns.append((part.scores[kept], part.tokens[kept], selected[kept]))
    return add_spreads(count_spread(*each, bins) for each in columns)


def write_spread(path: Path, spread: Spread) -> None:
    """Store it."""
    write_arrays(path, vars(spread), {})


def read_spread(path: Path) -> Spread | None:
    """What `write_spread` stored; None if it stored nothing."""
    names = [field.name for field in fields(Spread)]
    return Spread(**read_arrays(path, names)[0]) if path.exists() else None
