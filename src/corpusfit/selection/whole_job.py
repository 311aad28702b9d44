"""The job that scores a corpus as a whole, for methods that cannot score a unit on its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpusfit import text as corpus
from corpusfit.core.engine import PlainJob
from corpusfit.core.plan import CutPlan, MethodPlan, ReadPlan
from corpusfit.core.types import Paired, Reads, Source, Units
from corpusfit.embed.store import VectorStore
from corpusfit.scoring import registry
from corpusfit.selection.fit import Sample
from corpusfit.selection.score_job import Scoring
from corpusfit.text.reading import Tally, read_units


@dataclass(frozen=True)
class _Stream:
    """The corpus, shard by shard; every iteration reads it again."""

    of: ScoreWhole
    reads: Reads

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        return ((index, batch) for index, _, batch, _ in self.of.read_all(self.reads))


@dataclass(frozen=True)
class ScoreWhole(Scoring, PlainJob[MethodPlan, int]):
    """Score the whole corpus with a method that reads it all; returns the number of units.

    Runs in one worker and reads the corpus at least twice; a killed run starts again.
    """

    sources: tuple[Source, ...]
    read: ReadPlan
    cut: CutPlan
    store: Path | None
    target: Sample
    background: Sample
    seed: int

    def _work(self, plan: MethodPlan) -> int:
        method = registry.corpus_method(plan.name, plan.options)
        learned = method.fits_on
        samples = (self.target.repeated(learned), self.background.batch(learned))
        scored = method.score_corpus(_Stream(self, method.reads), *samples, seed=self.seed)
        total = 0
        shards = self.read_all(method.reads)
        for (shard, units, _, tally), (index, scores) in zip(shards, scored, strict=True):
            assert index == shard  # noqa: S101
            self.finish(index, units, scores, tally)
            total += len(units)
        return total

    def read_all(self, reads: Reads) -> Iterator[tuple[int, Units, Any, Tally]]:
        """Number, units, batch and tally of every shard."""
        store = VectorStore(self.store) if self.store is not None else None
        if reads == "embedding" and store is not None:
            for index in sorted(store.finished()):
                units, vectors, tally = store.read(index)
                yield index, units, vectors, Tally(**tally)
            return
        for shard in corpus.packed(self.sources, self.read):
            units, texts, counted = read_units(shard, self.read, self.cut, self.names)
            if reads == "both" and store is not None:
                yield shard.index, units, Paired(texts, store.read(shard.index)[1]), counted
            else:
                yield shard.index, units, texts, counted
