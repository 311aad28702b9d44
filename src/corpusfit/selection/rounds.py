"""Scores a corpus by a method that takes it in rounds; a killed run resumes within its round."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.artifacts import (
    names_in,
    read_arrays,
    remove,
    restore,
    store,
    write_arrays,
    write_bytes,
)
from corpusfit.core.engine import Job, PlainJob
from corpusfit.core.plan import CutPlan, ReadPlan
from corpusfit.core.types import Shard
from corpusfit.scoring import table
from corpusfit.scoring.rounds import (
    Counted,
    Features,
    Round,
    RoundMethod,
    RoundScorer,
    Taken,
    order_scores,
)
from corpusfit.selection.choosing import Selector, Threshold, find_threshold
from corpusfit.selection.fit import Sample
from corpusfit.selection.folder import SelectionFolder, mark_path
from corpusfit.text.context import Run
from corpusfit.text.reading import Tally, join_units, read_units

_SHARDS = 16
"""Shards in a group: 64 MiB of text by default, whose counts a worker holds in memory at once."""


def score_in_rounds(
    run: Run, folder: SelectionFolder, name: str, method: RoundMethod, target: Sample
) -> None:
    """Score the whole corpus."""
    # Every shard is counted once; a round then reads the counts, in a few groups of shards at a
    # time, so memory does not grow with the corpus.
    files = RoundsFolder(folder.rounds)
    scored, counted = names_in(folder.scored), names_in(files.counted)

    def is_counted(shard: int) -> bool:
        is_scored = mark_path(folder.scored, shard).name in scored
        return is_scored or files.counts(shard).name in counted

    features = method.learn(target.repeated("text"))
    store(files.features, "features", features)
    count = CountShard(files, run.plan.read, run.plan.cut, run.names, folder.scores)
    for tally in run.over_shards("count", count, is_counted):
        run.machine.progress.advance(0, tally.units)
    shards = range(run.shard_count)
    if all(mark_path(folder.scored, shard).name in scored for shard in shards):
        remove(folder.rounds)
        return
    all_groups = [
        Group(number, tuple(shards[first : first + _SHARDS]))
        for number, first in enumerate(range(0, len(shards), _SHARDS))
    ]
    sum_taken = SumTaken(files, len(features.weights))

    def sums_of(groups: list[Group]) -> tuple[NDArray[np.int64], int]:
        sums, total = np.zeros(sum_taken.features, np.int64), 0
        for numbers, counts, words in run.engine.map(sum_taken, groups):
            sums[numbers] += counts
            total += words
        return sums, total

    def groups_after(state: BeforeRound) -> list[Group]:
        """The groups, each with its threshold of the last round."""
        if not state.thresholds:
            return all_groups
        pairs = zip(all_groups, state.thresholds, strict=True)
        return [dataclasses.replace(group, threshold=threshold) for group, threshold in pairs]

    def untaken() -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64]]]:
        """Gains and words of what is left, group by group."""
        for group in all_groups:
            yield Left.read(files.group(group.number))[0].untaken

    if not files.state(1).exists():
        sums, words = sums_of(all_groups)
        nothing = Taken(np.zeros(len(sums)), 0)
        BeforeRound(nothing.with_more(sums, words)).write(files.state(0))
        BeforeRound(nothing).write(files.state(1))
    corpus = BeforeRound.read(files.state(0)).taken
    budgets = method.budgets(int(corpus.words))
    with run.stage("take", len(budgets)):
        for number, budget in enumerate(budgets, start=1):
            if not files.state(number + 1).exists():  # otherwise an interrupted run has done it
                # score what is left, and take the best until the budget
                before = BeforeRound.read(files.state(number))
                list(run.engine.map(ScoreLeft(files, method, number), groups_after(before)))
                left = budget - int(before.taken.words)
                selector = Selector(find_threshold(untaken, left))
                thresholds, bounds = [], Round(budget)
                for gains, costs in untaken():
                    thresholds.append(selector.rest)
                    bounds = bounds.widened(gains, gains[selector.select(gains, costs)])
                rounds = (*before.rounds, bounds)
                after = dataclasses.replace(before, rounds=rounds, thresholds=tuple(thresholds))
                taken = before.taken.with_more(*sums_of(groups_after(after)))
                dataclasses.replace(after, taken=taken).write(files.state(number + 1))
            run.machine.progress.advance(1)

    states = [scored_by(files, method, number) for number in range(1, len(budgets) + 1)]
    final = BeforeRound.read(files.state(len(budgets) + 1))
    scorer = RoundScorer.of(features, states, [*final.rounds])
    store(folder.scorer, name, scorer)
    write = WriteOrder(files, final.rounds, folder.scores, folder.scored)
    with run.stage("score", run.shard_count):
        for written in run.engine.map(write, groups_after(final)):
            run.machine.progress.advance(written)
    remove(folder.rounds)


@dataclass(frozen=True)
class RoundsFolder:
    """The files of a selection in rounds; all of them can be computed again."""

    path: Path

    @property
    def features(self) -> Path:
        """What is counted of the target."""
        return self.path / "features.safetensors"

    @property
    def counted(self) -> Path:
        """Folder with the counts of each shard."""
        return self.path / "counted"

    def counts(self, shard: int) -> Path:
        """The counts of a shard's segments, and the tally of its rows."""
        return self.counted / f"part-{shard:05d}.safetensors"

    def read_counts(self, shards: Iterable[int]) -> list[Counted]:
        """The counts of some shards' segments."""
        return [Counted(**read_arrays(self.counts(shard))[0]) for shard in shards]

    def group(self, number: int) -> Path:
        """The state of a group of shards."""
        return self.path / "groups" / f"group-{number:05d}.safetensors"

    def state(self, number: int) -> Path:
        """The state of the corpus before a round, from 1; before 0 all of it."""
        return self.path / f"round-{number:05d}.safetensors"


@dataclass(frozen=True)
class BeforeRound:
    """The state of the corpus before a round."""

    taken: Taken  # counts and words taken so far; before round 0, all of the corpus
    rounds: tuple[Round, ...] = ()
    thresholds: tuple[Threshold, ...] = ()  # of the last round, for each group

    def write(self, path: Path) -> None:
        """Write it to a file."""
        header = {
            "words": self.taken.words,
            "rounds": [[r.budget, r.top, r.threshold] for r in self.rounds],
            "last": [[t.key, t.budget] for t in self.thresholds],
        }
        write_arrays(path, {"counts": self.taken.counts}, header)

    @classmethod
    def read(cls, path: Path) -> BeforeRound:
        """Read what `write` wrote."""
        arrays, header = read_arrays(path)
        rounds = tuple(Round(*r) for r in header["rounds"])
        thresholds = tuple(Threshold(*t) for t in header["last"])
        taken = Taken(arrays["counts"], header["words"])
        return cls(taken, rounds, thresholds)


def scored_by(files: RoundsFolder, method: RoundMethod, number: int) -> Taken:
    """The counts by which a round scores what is left."""
    corpus = BeforeRound.read(files.state(0)).taken
    budget = method.budgets(int(corpus.words))[number - 1]
    taken = BeforeRound.read(files.state(number)).taken
    return taken.with_more(*method.begin(corpus, budget))


@dataclass(frozen=True)
class Group:
    """Some shards, and what the round before took of them."""

    number: int
    shards: tuple[int, ...]
    threshold: Threshold | None = None  # of the round before; None before the first round


@dataclass(frozen=True)
class Left:
    """The state of a group's m segments after a round scored them."""

    # [m], the number of the round that took each segment; 0 if it is left
    number: NDArray[np.int16]
    gains: NDArray[np.float32]  # [m], gain in that round, or in the last round that scored it
    words: NDArray[np.int64]  # [m], words of each segment
    ends: NDArray[np.int64]  # [s], where the segments of each of the group's shards end

    @classmethod
    def read(cls, path: Path) -> tuple[Left, int]:
        """The state in a file, and the number of the round that wrote it."""
        arrays, header = read_arrays(path)
        return cls(**arrays), header["round"]

    @property
    def untaken(self) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Gains and words of the segments that are left."""
        left = self.number == 0
        return self.gains[left], self.words[left]

    def chosen(self, threshold: Threshold) -> NDArray[np.bool_]:
        """The segments that a threshold takes of those left, bool [m]."""
        chosen = np.asarray(self.number == 0)
        chosen[chosen] = Selector(threshold).select(*self.untaken)
        return chosen

    def after(self, threshold: Threshold, number: int) -> NDArray[np.int16]:
        """The rounds' numbers after a round took what its threshold takes."""
        return np.where(self.chosen(threshold), np.int16(number), self.number)


@dataclass(frozen=True)
class CountShard(Job[Shard, Tally]):
    """Count the features of a shard's segments; also writes its scores, still empty."""

    folder: RoundsFolder
    read: ReadPlan
    cut: CutPlan
    names: tuple[str, ...]
    scores: Path

    def start(self) -> Callable[[Shard], Tally]:
        features: Features = restore(self.folder.features, lambda _: Features)

        def work(shard: Shard) -> Tally:
            units, texts, tally = read_units(shard, self.read, self.cut, self.names)
            segments = join_units(units, self.cut.gamma)
            tally.segments = len(segments)
            counted = features.count(texts, segments.first_unit)
            empty = np.zeros(len(segments), np.float32)
            table.write(self.scores, shard.index, tally.sources(self.names), segments, empty)
            write_arrays(self.folder.counts(shard.index), vars(counted), tally.as_dict())
            return tally

        return work


@dataclass(frozen=True)
class ScoreLeft(Job[Group, int]):
    """Score the segments of a group that are left; returns the group's number."""

    folder: RoundsFolder
    method: RoundMethod
    round: int

    def start(self) -> Callable[[Group], int]:
        features: Features = restore(self.folder.features, lambda _: Features)
        gains_of = scored_by(self.folder, self.method, self.round).gains(features)

        def work(group: Group) -> int:
            path = self.folder.group(group.number)
            before = None
            if group.threshold is not None:
                before, written = Left.read(path)
                if written == self.round:  # by an earlier command
                    return group.number
            counted = self.folder.read_counts(group.shards)
            gains = np.concatenate([gains_of(part) for part in counted])
            words = np.concatenate([part.words for part in counted])
            number = np.zeros(len(gains), np.int16)
            if before is not None and group.threshold is not None:
                number = before.after(group.threshold, self.round - 1)
                gains = np.where(number == 0, gains, before.gains)
            after = Left(number, gains, words, np.cumsum([len(part.words) for part in counted]))
            write_arrays(path, vars(after), {"round": self.round})
            return group.number

        return work


@dataclass(frozen=True)
class SumTaken(PlainJob[Group, tuple[NDArray[np.int64], NDArray[np.int64], int]]):
    """Sum the counts of what a threshold takes of a group; all of it without a threshold."""

    folder: RoundsFolder
    features: int

    def _work(self, group: Group) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        """The features taken, how often, and the words taken."""
        sums, words = np.zeros(self.features, np.int64), 0
        shards: dict[int, NDArray[np.bool_] | None] = dict.fromkeys(group.shards)
        if group.threshold is not None:
            left = Left.read(self.folder.group(group.number))[0]
            split = np.split(left.chosen(group.threshold), left.ends[:-1])
            # an early round takes a few segments of a few shards
            shards = {s: some for s, some in zip(group.shards, split, strict=True) if some.any()}
        for shard, chosen in shards.items():
            (part,) = self.folder.read_counts([shard])
            taken = np.ones(len(part.words), np.bool_) if chosen is None else chosen
            part.add(taken, sums)
            words += int(part.words[taken].sum())
        features = np.flatnonzero(sums)
        return features, sums[features], words


@dataclass(frozen=True)
class WriteOrder(PlainJob[Group, int]):
    """Write the order of taking as the scores of a group's shards; returns their number."""

    folder: RoundsFolder
    rounds: tuple[Round, ...]
    scores: Path
    marks: Path  # folder of the marks that a shard is finished

    def _work(self, group: Group) -> int:
        left, _ = Left.read(self.folder.group(group.number))
        assert group.threshold is not None  # noqa: S101 (the last round took the rest)
        number = left.after(group.threshold, len(self.rounds))
        scores = order_scores(left.gains, number, list(self.rounds))
        first = 0
        for shard in group.shards:
            arrays, tally = read_arrays(self.folder.counts(shard), ["words"])
            m = len(arrays["words"])
            path = table.part_path(self.scores, shard)
            table.rewrite(path, score=scores[first : first + m])
            write_bytes(mark_path(self.marks, shard), json.dumps(tally).encode())
            first += m
        return len(group.shards)
