"""Jobs that score a shard: from stored vectors, or from text."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpusfit.core.artifacts import restore, write_bytes
from corpusfit.core.engine import Job
from corpusfit.core.plan import CutPlan, ReadPlan
from corpusfit.core.types import Paired, Shard, Units
from corpusfit.embed.store import VectorStore
from corpusfit.scoring import registry, table
from corpusfit.selection.copies_job import keys_of, write_keys
from corpusfit.text.reading import Tally, join_units, read_units, segment_scores


def mark_path(marks: Path, shard: int) -> Path:
    """Completion mark of a shard; it holds the tally."""
    return marks / f"part-{shard:05d}.json"


@dataclass(frozen=True)
class Scoring:
    """The common arguments of scoring jobs: how units make a segment's score, and the folders."""

    gamma: int
    summed: bool
    names: tuple[str, ...]
    scores: Path
    marks: Path

    def finish(self, shard: int, units: Units, unit_scores: Any, tally: Tally) -> Tally:
        """Write a shard's scores, then its mark."""
        segments = join_units(units, self.gamma)
        tally.segments = len(segments)
        scores = segment_scores(segments, unit_scores, summed=self.summed)
        table.write(self.scores, shard, tally.sources(self.names), segments, scores)
        write_bytes(mark_path(self.marks, shard), json.dumps(tally.as_dict()).encode())
        return tally


@dataclass(frozen=True)
class ScoreVectors(Scoring, Job[int, Tally]):
    """Score a shard's stored vectors."""

    scorer: Path
    store: Path

    def start(self) -> Callable[[int], Tally]:
        """Restore the scorer."""
        scorer, store = restore(self.scorer, registry.scorer_class), VectorStore(self.store)

        def work(shard: int) -> Tally:
            units, vectors, tally = store.read(shard)
            return self.finish(shard, units, scorer.score(vectors), Tally(**tally))

        return work


@dataclass(frozen=True)
class ScoreTexts(Scoring, Job[Shard, Tally]):
    """Read, cut and score a shard of text, with its stored vectors if there is a store.

    With a folder `keys` the documents' keys are written too.
    """

    scorer: Path
    read: ReadPlan
    cut: CutPlan
    store: Path | None = None
    network: bool = False
    keys: Path | None = None

    @property
    def encodes(self) -> bool:
        """Whether the scorer is a network."""
        return self.network

    def start(self) -> Callable[[Shard], Tally]:
        """Restore the scorer."""
        scorer = restore(self.scorer, registry.scorer_class)
        store = VectorStore(self.store) if self.store is not None else None

        def work(shard: Shard) -> Tally:
            units, texts, tally = read_units(shard, self.read, self.cut, self.names)
            batch = Paired(texts, store.read(shard.index)[1]) if store is not None else texts
            if self.keys is not None:
                write_keys(self.keys, shard.index, keys_of(units.row, texts))
            return self.finish(shard.index, units, scorer.score(batch), tally)

        return work
