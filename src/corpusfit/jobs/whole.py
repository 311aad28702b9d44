"""The job that scores a corpus as a whole, for methods that cannot score a unit by itself.

What: reads every shard in one worker, lets the method see them all, then reads them again and
writes scores as `ScoreTexts` does.
Why: such a method's memory grows with the corpus anyway; what it does not need, it need not hold.
Trade-off: two passes or more and no help from other workers; a killed run scores everything again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from corpusfit import corpus
from corpusfit.engine import Job
from corpusfit.jobs.fit import Sample
from corpusfit.jobs.reading import read_units
from corpusfit.jobs.score import Scoring
from corpusfit.plan import CutPlan, MethodPlan, ReadPlan
from corpusfit.score import registry
from corpusfit.types import Source, Texts

__all__ = ["ScoreWhole"]


@dataclass(frozen=True)
class _Stream:
    """The corpus, shard by shard; it is read anew whenever it is iterated over."""

    sources: tuple[Source, ...]
    read: ReadPlan
    cut: CutPlan
    names: tuple[str, ...]

    def __iter__(self) -> Iterator[tuple[int, Texts]]:
        for shard in corpus.shards(self.sources, self.read):
            yield shard.index, read_units(shard, self.read, self.cut, self.names)[1]


@dataclass(frozen=True)
class ScoreWhole(Scoring, Job[MethodPlan, int]):
    """Score the whole corpus by a method that reads it all; returns the number of units."""

    sources: tuple[Source, ...]
    read: ReadPlan
    cut: CutPlan
    target: Sample
    background: Sample
    seed: int

    def start(self) -> Callable[[MethodPlan], int]:
        """Nothing to open: it is done once."""
        return self._work

    def _work(self, plan: MethodPlan) -> int:
        method = registry.of_corpus(plan.name, plan.options)
        stream = _Stream(self.sources, self.read, self.cut, self.names)
        samples = (self.target.repeated("text"), self.background.batch("text"))
        scored = method.score_corpus(stream, *samples, seed=self.seed)
        total = 0
        shards = corpus.shards(self.sources, self.read)
        for shard, (index, scores) in zip(shards, scored, strict=True):
            units, _, tally = read_units(shard, self.read, self.cut, self.names)
            assert index == shard.index  # noqa: S101
            self.finish(index, units, scores, tally)
            total += len(units)
        return total
