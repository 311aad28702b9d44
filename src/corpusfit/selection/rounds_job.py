"""Jobs that take a corpus in rounds: count each shard once, then score and take its segments."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.artifacts import read_arrays, restore, write_arrays, write_bytes
from corpusfit.core.engine import Job, PlainJob
from corpusfit.core.plan import CutPlan, ReadPlan
from corpusfit.core.types import Shard
from corpusfit.scoring import table
from corpusfit.scoring.rounds import Counted, Features, Round, Taken, order_scores
from corpusfit.selection.score_job import mark_path
from corpusfit.selection.top import Selector, Threshold
from corpusfit.text.reading import Tally, join_units, read_units


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

    def group(self, number: int) -> Path:
        """The state of a group of shards."""
        return self.path / "groups" / f"group-{number:05d}.safetensors"

    def state(self, number: int) -> Path:
        """The state of the corpus before a round."""
        return self.path / f"round-{number:05d}.safetensors"


@dataclass(frozen=True)
class BeforeRound:
    """The state of the corpus before a round.

    Attributes:
        taken: counts and words taken so far, the start included.
        corpus: words of the corpus.
        done: words taken of the corpus.
        rounds: the bounds of the rounds so far.
        last: what the last of them took of each group.
    """

    taken: Taken
    corpus: int
    done: int = 0
    rounds: tuple[Round, ...] = ()
    last: tuple[Threshold, ...] = ()

    def write(self, path: Path) -> None:
        """Write it to a file."""
        header = {
            "words": self.taken.words,
            "corpus": self.corpus,
            "done": self.done,
            "rounds": [[r.budget, r.top, r.threshold] for r in self.rounds],
            "last": [[t.key, t.budget] for t in self.last],
        }
        write_arrays(path, {"counts": self.taken.counts}, header)

    @classmethod
    def read(cls, path: Path) -> BeforeRound:
        """Read what `write` wrote."""
        arrays, header = read_arrays(path)
        rounds = tuple(Round(*r) for r in header["rounds"])
        last = tuple(Threshold(*t) for t in header["last"])
        taken = Taken(arrays["counts"], header["words"])
        return cls(taken, header["corpus"], header["done"], rounds, last)


@dataclass(frozen=True)
class Group:
    """Some shards, and what the round before took of them.

    Attributes:
        number: the group's number.
        shards: the shards' numbers.
        taken: the threshold of the round before; None before the first round.
    """

    number: int
    shards: tuple[int, ...]
    taken: Threshold | None = None


@dataclass(frozen=True)
class Left:
    """The state of a group's m segments after a round scored them.

    Attributes:
        number: int16 [m], the number of the round that took each segment; 0 if it is left.
        gains: float32 [m], gain in that round, or in the last round that scored it.
        words: int64 [m], words of each segment.
    """

    number: NDArray[np.int16]
    gains: NDArray[np.float32]
    words: NDArray[np.int64]

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
        """Restore the features."""
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
class _OverGroups:
    """The common argument of jobs over groups: the folder."""

    folder: RoundsFolder

    def counted(self, shards: Iterable[int]) -> list[Counted]:
        return [Counted(**read_arrays(self.folder.counts(shard))[0]) for shard in shards]


@dataclass(frozen=True)
class ScoreLeft(_OverGroups, Job[Group, int]):
    """Score the segments of a group that are left; returns the group's number.

    Attributes:
        round: number of the round, from 1.
    """

    round: int

    def start(self) -> Callable[[Group], int]:
        """Restore the features, and read what had been taken before the round."""
        features: Features = restore(self.folder.features, lambda _: Features)
        gains_of = BeforeRound.read(self.folder.state(self.round)).taken.gains(features)

        def work(group: Group) -> int:
            path = self.folder.group(group.number)
            before = None
            if group.taken is not None:
                before, written = Left.read(path)
                if written == self.round:  # by an earlier command
                    return group.number
            counted = self.counted(group.shards)
            gains = np.concatenate([gains_of(part) for part in counted])
            words = np.concatenate([part.words for part in counted])
            number = np.zeros(len(gains), np.int16)
            if before is not None and group.taken is not None:
                number = before.after(group.taken, self.round - 1)
                gains = np.where(number == 0, gains, before.gains)
            after = Left(number, gains, words)
            write_arrays(path, vars(after), {"round": self.round})
            return group.number

        return work


@dataclass(frozen=True)
class SumTaken(_OverGroups, PlainJob[Group, tuple[NDArray[np.int64], NDArray[np.int64], int]]):
    """Sum the counts of what a threshold takes of a group; all of it without a threshold."""

    features: int

    def _work(self, group: Group) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        """The features taken, how often, and the words taken."""
        sums, words, first = np.zeros(self.features, np.int64), 0, 0
        threshold = group.taken
        own = None
        if threshold is not None:
            own = Left.read(self.folder.group(group.number))[0].chosen(threshold)
        for part in self.counted(group.shards):
            m = len(part.words)
            chosen = np.ones(m, np.bool_) if own is None else own[first : first + m]
            part.add(chosen, sums)
            words += int(part.words[chosen].sum())
            first += m
        found = np.flatnonzero(sums)
        return found, sums[found], words


@dataclass(frozen=True)
class WriteOrder(_OverGroups, PlainJob[Group, int]):
    """Write the order of taking as the scores of a group's shards; returns their number.

    Attributes:
        rounds: all rounds.
        scores: folder of the scores.
        marks: folder of the marks that a shard is finished.
    """

    rounds: tuple[Round, ...]
    scores: Path
    marks: Path

    def _work(self, group: Group) -> int:
        left, _ = Left.read(self.folder.group(group.number))
        assert group.taken is not None  # noqa: S101 (the last round took the rest)
        number = left.after(group.taken, len(self.rounds))
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
