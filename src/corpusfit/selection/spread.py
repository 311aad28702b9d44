"""How scores are spread, as a report shows them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.artifacts import read_arrays, write_arrays

_BINS = 60
"""Bins of equal width."""

_LONG_TAIL = 20.0
"""Most distance of the highest score above the best tenth, as a multiple of that tenth's own above
the lowest tenth. Scores beyond are counted in the outermost bins."""


class Spread(NamedTuple):
    """The scores of a sample of segments."""

    bins: NDArray[np.float32]  # float32 [b + 1], edges, ascending
    heights: NDArray[np.int64]  # int64 [b], segments in each bin; outermost: and beyond


def spread_of(sample: NDArray[np.float32]) -> Spread:
    """Count scores in bins of equal width, with a margin."""
    bins = np.array([0.0, 1.0], np.float32)
    if len(sample):
        low, middle, high = np.quantile(sample, (0.1, 0.9, 0.999), method="lower").tolist()
        if middle > low:
            high = min(high, middle + _LONG_TAIL * (middle - low))
        margin = 0.25 * (high - low) or 0.5
        bins = np.linspace(low - margin, high + margin, _BINS + 1, dtype=np.float32)
    return Spread(bins, np.histogram(np.clip(sample, bins[0], bins[-1]), bins)[0])


def write_spread(path: Path, spread: Spread) -> None:
    """Store it."""
    write_arrays(path, spread._asdict(), {})


def read_spread(path: Path) -> Spread | None:
    """What `write_spread` stored; None if it stored nothing."""
    return Spread(**read_arrays(path)[0]) if path.exists() else None
