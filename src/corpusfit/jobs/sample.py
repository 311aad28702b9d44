"""Jobs that draw the background: a bounded, uniform sample of the corpus's units.

What: the texts of the sample from the shards, or its vectors from the store.
Why: `fit` and `rank` need a piece of the corpus that fits in memory.
Trade-off: every shard draws its own k smallest keys and the merge keeps the k smallest of all,
so a shard may send texts that are then dropped.
Reference: bottom-k sampling, see `kernels/chance.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from corpusfit.artifacts import write_arrays
from corpusfit.embed.store import VectorStore
from corpusfit.engine import Job
from corpusfit.jobs.reading import Tally, read_units
from corpusfit.kernels.chance import place_keys
from corpusfit.plan import CutPlan, ReadPlan
from corpusfit.types import Shard

__all__ = ["Drawn", "SampleTexts", "SampleVectors", "merge"]


@dataclass(frozen=True)
class Drawn:
    """What one shard gives to the sample: keys uint64 [n] and as many texts."""

    shard: int
    keys: NDArray[np.uint64]
    texts: list[str]


@dataclass(frozen=True)
class SampleTexts(Job[Shard, tuple[Drawn, Tally]]):
    """Read and cut a shard; give the k units with the smallest keys, and the tally."""

    read: ReadPlan
    cut: CutPlan
    names: tuple[str, ...]
    k: int
    seed: int

    def start(self) -> Callable[[Shard], tuple[Drawn, Tally]]:
        """Nothing to open."""
        return self._work

    def _work(self, shard: Shard) -> tuple[Drawn, Tally]:
        units, texts, tally = read_units(shard, self.read, self.cut, self.names)
        keys = place_keys(self.seed, shard.index, len(units))
        kept = np.sort(np.argsort(keys, kind="stable")[: self.k])
        return Drawn(shard.index, keys[kept], texts.take(pa.array(kept)).to_pylist()), tally


def merge(drawn: list[Drawn], k: int) -> list[Drawn]:
    """Keep the k smallest keys of all; by shard, those with nothing left out."""
    keys = np.concatenate([d.keys for d in drawn])
    if len(keys) <= k:
        return sorted(drawn, key=lambda d: d.shard)
    bound = np.partition(keys, k - 1)[k - 1]
    kept = []
    for d in sorted(drawn, key=lambda d: d.shard):
        mask = d.keys <= bound
        texts = [t for t, keep in zip(d.texts, mask.tolist(), strict=True) if keep]
        if texts:
            kept.append(Drawn(d.shard, d.keys[mask], texts))
    return kept


@dataclass(frozen=True)
class SampleVectors(Job[list[tuple[int, NDArray[np.int64]]], int]):
    """Gather the vectors at (shard, places) from the store into a file; returns how many."""

    store: Path
    out: Path

    def start(self) -> Callable[[list[tuple[int, NDArray[np.int64]]]], int]:
        """Nothing to open."""
        return self._work

    def _work(self, places: list[tuple[int, NDArray[np.int64]]]) -> int:
        vectors = VectorStore(self.store).gather(places)
        write_arrays(self.out, {"vectors": vectors}, {})
        return len(vectors)
