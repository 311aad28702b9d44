"""How scores are spread: counts by source at the thresholds that a report shows.

Workers count; the report reads the sums and no score, so it costs the same for any corpus.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
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
    """The scores of m segments of s sources, or folders of them (`scoring/table.py`); no copies."""

    sources: tuple[str, ...]  # s names, in the corpus's order
    thresholds: NDArray[np.float32]  # float32 [k], descending
    # int64 [s, k + 1]: segments of each source, and their word pieces, between two thresholds:
    # above the first, …, below the last
    between: Counts
    tokens_between: Counts
    taken: Counts  # int64 [k + 1], word pieces selected between two thresholds
    bins: NDArray[np.float32]  # float32 [b + 1], edges, ascending
    heights: Counts  # int64 [s, b], segments of each source in each bin; outermost: and beyond
    # int64 [2, l], segments by length, all and selected; zeros of a run whose version counted none
    lengths: Counts = field(default_factory=lambda: np.zeros((2, len(_LENGTHS)), np.int64))

    def quantiles(self, shares: Sequence[float]) -> list[list[int]]:
        """Quantiles of the word pieces, about, of all and of the selected segments, if any."""
        through = [of.cumsum() for of in self.lengths if of.any()]
        places = [np.searchsorted(of, np.array(shares) * of[-1]) for of in through]
        return [_LENGTHS[at].tolist() for at in places]

    @property
    def segments(self) -> Counts:
        """Segments of each source at or above each threshold, [s, k]."""
        return np.asarray(self.between.cumsum(axis=1)[:, :-1])

    @property
    def tokens(self) -> Counts:
        """Their word pieces, [s, k]."""
        return np.asarray(self.tokens_between.cumsum(axis=1)[:, :-1])

    @property
    def of_source(self) -> Counts:
        """All segments of each source, [s]."""
        return np.asarray(self.between.sum(axis=1))

    @property
    def tokens_of_source(self) -> Counts:
        """All their word pieces, [s]."""
        return np.asarray(self.tokens_between.sum(axis=1))


def count_spread(
    sources: Sequence[str],
    source: NDArray[np.int64],
    scores: NDArray[np.float32],
    tokens: NDArray[np.int64],
    selected: NDArray[np.bool_],
    at: NDArray[np.float32],
) -> Spread:
    """Count m segments, each with the place of its source, its score and its word pieces, [m]."""
    bins, shape = _bins(at), (len(sources), len(at) + 1)
    interval = np.searchsorted(-at, -scores, side="left")
    cell = source * shape[1] + interval
    tall = len(sources), len(bins) - 1
    # as `np.histogram`, which counts the last edge in the last bin
    column = np.searchsorted(bins, np.clip(scores, bins[0], bins[-1]), side="right") - 1
    height = source * tall[1] + np.minimum(column, tall[1] - 1)
    length = np.searchsorted(_LENGTHS, tokens, side="right") - 1
    of_length = [
        np.bincount(which, minlength=len(_LENGTHS)) for which in (length, length[selected])
    ]
    size = shape[0] * shape[1]
    return Spread(
        tuple(sources),
        at,
        np.bincount(cell, minlength=size).reshape(shape),
        np.bincount(cell, tokens, size).astype(np.int64).reshape(shape),
        np.bincount(interval, tokens * selected, shape[1]).astype(np.int64),
        bins,
        np.bincount(height, minlength=tall[0] * tall[1]).reshape(tall),
        np.array(of_length),
    )


def add_spreads(spreads: Iterable[Spread], at: NDArray[np.float32]) -> Spread:
    """The sums of several, in the order in which their sources come first."""
    nothing = np.empty(0, np.int64)
    whole = count_spread((), nothing, np.empty(0, np.float32), nothing, np.empty(0, np.bool_), at)
    taken, lengths = whole.taken.copy(), whole.lengths.copy()
    of_source: dict[str, NDArray[np.int64]] = {}  # the columns of all three, one after another
    for spread in spreads:
        taken += spread.taken
        lengths += spread.lengths
        rows = np.hstack([spread.between, spread.tokens_between, spread.heights])
        for name, row in zip(spread.sources, rows, strict=True):
            of_source[name] = of_source.get(name, 0) + row
    k = whole.between.shape[1]
    rows = np.array([*of_source.values()], np.int64).reshape(-1, 2 * k + whole.heights.shape[1])
    between, tokens, heights = np.split(rows, [k, 2 * k], axis=1)
    return Spread(tuple(of_source), at, between, tokens, taken, whole.bins, heights, lengths)


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
    """Count the segments of a run of parts, whose sources and selection `WriteChoice` wrote."""
    number, parts = numbered
    arrays, header = read_arrays(marked_path(gathered, parts))
    kept = [part.without_copies() for part in read_gathered(gathered, parts)]
    scores = np.concatenate([np.empty(0, np.float32), *(part.scores for part in kept)])
    tokens = np.concatenate([np.empty(0, np.int64), *(part.tokens for part in kept)])
    source = arrays["source"].astype(np.int64)
    spread = count_spread(header["sources"], source, scores, tokens, arrays["selected"], at)
    return number, spread


def write_spread(path: Path, spread: Spread) -> None:
    """Store it."""
    arrays = {name: value for name, value in vars(spread).items() if name != "sources"}
    write_arrays(path, arrays, {"sources": spread.sources})


def read_spread(path: Path) -> Spread:
    """What `write_spread` stored."""
    arrays, header = read_arrays(path)
    return Spread(tuple(header["sources"]), **arrays)
