"""Jobs that prepare a cascade: draw its sample, fit surrogates, score the sample."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.artifacts import restore, store
from corpusfit.core.engine import PlainJob
from corpusfit.core.plan import CutPlan, EmbedPlan, ReadPlan
from corpusfit.core.types import Reads, Shard
from corpusfit.kernels.chance import place_keys
from corpusfit.scoring import registry
from corpusfit.scoring.contract import Scorer
from corpusfit.scoring.surrogate import Surrogate, fit_surrogate
from corpusfit.selection.fit import Sample
from corpusfit.selection.sample_job import Drawn, strings
from corpusfit.text.reading import Tally, join_units, read_units

_SURROGATE = "cascade surrogate"
_APART = 0x5E63
"""Added to the seed, so that segments are drawn independently of units."""


@dataclass(frozen=True)
class DrawnSegment:
    """A segment of the sample: its place in the shard, that of its first unit, and its texts."""

    place: int
    first: int
    tokens: int
    texts: list[str]


@dataclass(frozen=True)
class DrawnUnit:
    """A unit of the background: its place in the shard, and its text."""

    place: int
    text: str


@dataclass(frozen=True)
class DrawnShard:
    """The drawn segments and background units of one shard, and its counts."""

    segments: Drawn[DrawnSegment]
    units: Drawn[DrawnUnit]
    tokens: int
    tally: Tally


@dataclass(frozen=True)
class DrawSegments(PlainJob[tuple[Shard, int, int], DrawnShard]):
    """Draw the segments and the units of a shard with the smallest keys, up to two bounds.

    The units are those that a run of the last stage alone draws as its background.

    Reference: bottom-k sampling, see `kernels/chance.py`.

    Attributes:
        segments: most segments to draw.
        units: most units to draw; 0 if the background is drawn elsewhere.
    """

    read: ReadPlan
    cut: CutPlan
    names: tuple[str, ...]
    segments: int
    units: int
    seed: int

    def _work(self, piece: tuple[Shard, int, int]) -> DrawnShard:
        shard, below, below_units = piece
        units, texts, tally = read_units(shard, self.read, self.cut, self.names)
        segments = join_units(units, self.cut.gamma)
        tally.segments = len(segments)
        keys = place_keys(self.seed + _APART, shard.index, len(segments))
        at = _smallest(keys, self.segments, below)
        drawn = [
            DrawnSegment(int(i), first, tokens, strings(texts, np.arange(first, first + n)))
            for i, first, tokens, n in zip(
                at,
                segments.first_unit[at].tolist(),
                segments.tokens[at].tolist(),
                segments.units[at].tolist(),
                strict=True,
            )
        ]
        own = place_keys(self.seed, shard.index, len(units))
        where = _smallest(own, self.units, below_units)
        found = zip(where.tolist(), strings(texts, where), strict=True)
        return DrawnShard(
            Drawn(shard.index, keys[at], drawn),
            Drawn(shard.index, own[where], [DrawnUnit(*unit) for unit in found]),
            int(segments.tokens.sum()),
            tally,
        )


def _smallest(keys: NDArray[np.uint64], k: int, bound: int) -> NDArray[np.int64]:
    """Places of the k smallest keys up to a bound, increasing."""
    at = np.flatnonzero(keys <= np.uint64(bound))
    return np.sort(at[np.argsort(keys[at], kind="stable")[:k]])


@dataclass(frozen=True)
class StageScorer:
    """The scorer of a stage.

    Attributes:
        path: file of the fitted scorer.
        reads: what the scorer reads of each unit.
        summed: whether a segment's score is the sum of its units' scores, not the mean.
        embed: settings of its embedder; None if it reads text only.
        network: whether the scorer itself is a network.
    """

    path: Path
    reads: Reads
    summed: bool
    embed: EmbedPlan | None
    network: bool

    def open(self) -> Scorer[Any]:
        """Restore the scorer."""
        return restore(
            self.path, lambda kind: Surrogate if kind == _SURROGATE else registry.scorer_class(kind)
        )


@dataclass(frozen=True)
class FitSurrogate(PlainJob[NDArray[np.int64], int]):
    """Fit a surrogate of the last stage's scores on cheap vectors of the units at some places.

    Attributes:
        last: the scorer to imitate.
        costly: the units as `last` reads them.
        cheap: the same units with the cheap embedder's vectors.
        out: file of the surrogate.
    """

    last: StageScorer
    costly: Sample
    cheap: Sample
    out: Path
    seed: int

    @property
    def encodes(self) -> bool:
        """Whether the scorer to imitate is a network."""
        return self.last.network

    def _work(self, places: NDArray[np.int64]) -> int:
        scores = self.last.open().score(self.costly.batch(self.last.reads))[places]
        vectors = self.cheap.batch("embedding")[places]
        store(self.out, _SURROGATE, fit_surrogate(vectors, scores, seed=self.seed))
        return len(places)


@dataclass(frozen=True)
class ScoreSample(PlainJob[tuple[StageScorer, Sample], NDArray[np.float32]]):
    """Score a sample's units; float32 [n].

    A last stage on embeddings scores float32 vectors here, and in a run on its own float16 vectors
    of its store, so that scores differ slightly.
    """

    network: bool

    @property
    def encodes(self) -> bool:
        """Whether the scorer is a network."""
        return self.network

    def _work(self, piece: tuple[StageScorer, Sample]) -> NDArray[np.float32]:
        scorer, sample = piece
        return scorer.open().score(sample.batch(scorer.reads))
