"""Join consecutive units into segments, the pieces of text that are taken or left.

What: gamma units of one document make a segment; its score is the mean of its units' scores.
Why: what is selected must be whole runs of text, or a language model would learn from texts
that never stood side by side.
Trade-off: segments never cross documents, so a short document is a segment of fewer units than
gamma and its score is noisier.
Reference: TADPOLE, section 3.2.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corpusfit.types import Segments, Units


def join_units(units: Units, gamma: int) -> Segments:
    """The segments of a shard's units, in reading order."""
    n = len(units)
    place = np.arange(n)
    opens = np.ones(n, bool)
    opens[1:] = units.row[1:] != units.row[:-1]
    first_of_document = np.maximum.accumulate(np.where(opens, place, 0)) if n else place
    within = place - first_of_document
    first = np.flatnonzero(within % gamma == 0)
    count = np.diff(np.append(first, n))
    return Segments(
        row=units.row[first],
        segment=(within[first] // gamma).astype(np.int32),
        start=units.start[first],
        end=units.end[first + count - 1],
        units=count.astype(np.int32),
        tokens=np.add.reduceat(units.pieces.astype(np.int64), first) if n else place,
        first_unit=first,
    )


def segment_scores(
    segments: Segments, unit_scores: NDArray[np.float32], *, summed: bool = False
) -> NDArray[np.float32]:
    """float32 [m]: the mean of each segment's unit scores (TADPOLE, section 3.2, y_j).

    Or their sum, for log importance weights: those of a text's parts add up to the text's.
    """
    return joined_scores(unit_scores, segments.units, summed=summed)


def joined_scores(
    unit_scores: NDArray[np.float32], units: NDArray[np.int32], *, summed: bool
) -> NDArray[np.float32]:
    """As `segment_scores`, from how many units each segment has, int32 [m]; they follow closely."""
    if not len(units):
        return np.empty(0, np.float32)
    first = np.cumsum(units, dtype=np.int64) - units
    sums = np.add.reduceat(unit_scores.astype(np.float64), first)
    return (sums if summed else sums / units).astype(np.float32)
