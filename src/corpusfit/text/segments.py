"""Join consecutive units into segments, the runs of text that are selected or not."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.types import Segments, Units


def join_units(units: Units, gamma: int) -> Segments:
    """Join every `gamma` consecutive units of a document into a segment, in reading order.

    Segments never cross documents, so a short document is a segment of fewer units and its score is
    noisier.

    Reference: TADPOLE, section 3.2.
    """
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

    Or their sum, for log importance weights, which add up over a text's units.
    """
    return joined_scores(unit_scores, segments.units, summed=summed)


def joined_scores(
    unit_scores: NDArray[np.float32], units: NDArray[np.int32], *, summed: bool
) -> NDArray[np.float32]:
    """As `segment_scores`, from the number of units of each consecutive segment, int32 [m]."""
    if not len(units):
        return np.empty(0, np.float32)
    first = np.cumsum(units, dtype=np.int64) - units
    sums = np.add.reduceat(unit_scores.astype(np.float64), first)
    return (sums if summed else sums / units).astype(np.float32)
