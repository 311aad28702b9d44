"""Scores a corpus by a method that takes it in rounds; a killed run resumes within its round."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.artifacts import listed, remove, store
from corpusfit.scoring.round_scorer import RoundScorer
from corpusfit.scoring.rounds import Features, Round, RoundMethod
from corpusfit.selection.fit import Sample
from corpusfit.selection.folder import SelectionFolder
from corpusfit.selection.rounds_job import (
    BeforeRound,
    CountShard,
    Group,
    Left,
    RoundsFolder,
    ScoreLeft,
    SumTaken,
    WriteOrder,
)
from corpusfit.selection.score_job import mark_path
from corpusfit.selection.top import Selector, find_threshold
from corpusfit.text.context import Run

_SHARDS = 16
"""Shards in a group: 64 MiB of text by default, whose counts a worker holds in memory at once."""


def score_in_rounds(
    run: Run, folder: SelectionFolder, name: str, method: RoundMethod, target: Sample
) -> None:
    """Score the whole corpus.

    Every shard is counted once; a round then reads the counts, in a few groups of shards at a time,
    so memory does not grow with the corpus.
    """
    files = RoundsFolder(folder.rounds)
    marked, counted = listed(folder.scored), listed(files.counted)

    def done(shard: int) -> bool:
        scored = mark_path(folder.scored, shard).name in marked
        return scored or files.counts(shard).name in counted

    features = method.learn(target.repeated("text"))
    store(files.features, "features", features)
    job = CountShard(files, run.plan.read, run.plan.cut, run.names, folder.scores)
    for tally in run.over_shards("count", job, done):
        run.machine.progress.advance(0, tally.units)
    shards = range(run.shard_count)
    if any(mark_path(folder.scored, shard).name not in marked for shard in shards):
        rounds = _Rounds(run, files, method, len(features.weights))
        rounds.take()
        scorer = rounds.scorer(features)
        store(folder.fit / "scorer.safetensors", name, scorer)
        rounds.write(folder)
    remove(folder.rounds)


class _Rounds:
    def __init__(self, run: Run, files: RoundsFolder, method: RoundMethod, features: int) -> None:
        self._run, self._files, self._method = run, files, method
        self._sums = SumTaken(files, features)
        shards = range(run.shard_count)
        parts = [tuple(shards[i : i + _SHARDS]) for i in range(0, len(shards), _SHARDS)]
        self._groups = [Group(number, part) for number, part in enumerate(parts)]

    @property
    def _first(self) -> Path:
        return self._files.state(1)

    def take(self) -> None:
        if not self._first.exists():
            sums, words = self._sum(self._groups)
            BeforeRound(self._method.begin(sums, words), words).write(self._first)
        budgets = self._method.budgets(BeforeRound.read(self._first).corpus)
        with self._run.stage("take", len(budgets)):
            for number, budget in enumerate(budgets, start=1):
                if not self._files.state(number + 1).exists():
                    self._round(number, budget)
                self._run.machine.progress.advance(1)

    def _round(self, number: int, budget: int) -> None:
        """Score what is left, and take the best until the budget."""
        before = BeforeRound.read(self._files.state(number))
        list(self._run.engine.map(ScoreLeft(self._files, number), self._after(before)))
        selector = Selector(find_threshold(self._left, budget - before.done))
        last, bounds = [], Round(budget)
        for gains, costs in self._left():
            last.append(selector.rest)
            bounds = bounds.widened(gains, gains[selector.select(gains, costs)])
        after = dataclasses.replace(before, rounds=(*before.rounds, bounds), last=tuple(last))
        sums, words = self._sum(self._after(after))
        dataclasses.replace(
            after, taken=before.taken.with_more(sums, words), done=before.done + words
        ).write(self._files.state(number + 1))

    def _after(self, state: BeforeRound) -> list[Group]:
        """The groups, with what the last round took of them."""
        if not state.last:
            return self._groups
        return [
            dataclasses.replace(group, taken=taken)
            for group, taken in zip(self._groups, state.last, strict=True)
        ]

    def _left(self) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64]]]:
        """Gains and words of what is left, group by group."""
        for group in self._groups:
            yield Left.read(self._files.group(group.number))[0].untaken

    def _sum(self, groups: list[Group]) -> tuple[NDArray[np.int64], int]:
        sums, total = np.zeros(self._sums.features, np.int64), 0
        for features, counts, words in self._run.engine.map(self._sums, groups):
            sums[features] += counts
            total += words
        return sums, total

    def scorer(self, features: Features) -> RoundScorer:
        rounds = len(self._method.budgets(1))
        states = [BeforeRound.read(self._files.state(i + 1)) for i in range(rounds + 1)]
        return RoundScorer.of(features, [s.taken for s in states[:-1]], [*states[-1].rounds])

    def write(self, folder: SelectionFolder) -> None:
        rounds = len(self._method.budgets(1))
        final = BeforeRound.read(self._files.state(rounds + 1))
        job = WriteOrder(self._files, final.rounds, folder.scores, folder.scored)
        with self._run.stage("score", self._run.shard_count):
            for shards in self._run.engine.map(job, self._after(final)):
                self._run.machine.progress.advance(shards)
