"""Scores a corpus by a method that takes it in rounds; a killed run resumes within its round."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit import text as corpus
from corpusfit.core.artifacts import (
    map_arrays,
    names_in,
    read_arrays,
    remove,
    restore,
    store,
    write_arrays,
    write_bytes,
)
from corpusfit.core.engine import Job
from corpusfit.core.plan import CutPlan, ReadPlan
from corpusfit.core.types import Shard
from corpusfit.kernels.chance import place_keys, uniform
from corpusfit.kernels.threshold import Selector, Threshold, find_threshold
from corpusfit.scoring import table
from corpusfit.scoring.rounds import (
    Counted,
    Features,
    Round,
    RoundMethod,
    RoundScorer,
    Taken,
    joined,
    longest_text,
    order_scores,
)
from corpusfit.selection.copies import write_keys
from corpusfit.selection.fit import Sample
from corpusfit.selection.folder import SelectionFolder, mark_path
from corpusfit.selection.resolved import Resolved
from corpusfit.text.context import Run
from corpusfit.text.reading import Tally, join_units, read_units

_PARTS = 16
"""Parts in a group: counts of 64 MiB of text by default, which a worker holds in memory at once."""
_PART_WORDS = 700_000
"""Words of a part with texts of several shards, about as many as a shard has by default."""
_HEADERS = 256
"""Files of which a worker reads the headers at a time."""
_COUNTED = [field.name for field in dataclasses.fields(Counted)]

Summed = tuple[NDArray[np.int64], NDArray[np.int64], int]
"""The features of some texts, how often these have each, and their words."""


def score_in_rounds(
    run: Run,
    resolved: Resolved,
    method: RoundMethod,
    target: Sample,
    background: Sample,
    folder: SelectionFolder,
) -> float:
    """Score the whole corpus; returns the share of its texts that all rounds read."""
    # Every shard is counted once; a round then reads the counts, in a few groups of shards at a
    # time, so memory does not grow with the corpus. As every round reads all counts, those of a
    # large corpus are kept of a sample only.
    name = resolved.plan.method.name
    files = RoundsFolder(folder.rounds)
    scored = names_in(folder.scored)
    features = method.learn(target.batch("text"), background.batch("text"))
    store(files.features, "features", features)
    share = _count(run, resolved, folder, method.rounds_gb)
    shards = range(run.shard_count)
    if all(mark_path(folder.scored, shard).name in scored for shard in shards):
        remove(folder.rounds)
        return share
    if share < 1.0:
        _score_by_sample(run, resolved, folder, method, features, share)
    else:
        texts = _total(run, files.counted, "segments")
        states, rounds, groups = _take(run, files, method, shards, texts)
        store(folder.scorer, name, RoundScorer.of(features, states, rounds))
        write = partial(_write_order, files, tuple(rounds), folder.scores, folder.scored)
        with run.stage("score", run.shard_count):
            for written in run.engine.map(write, groups):
                run.progress.advance(written)
    remove(folder.rounds)
    return share


def _count(run: Run, resolved: Resolved, folder: SelectionFolder, most_gb: float) -> float:
    """Count the features of the corpus; returns the share of its texts whose counts are kept."""
    texts = resolved.corpus
    files = RoundsFolder(folder.rounds)
    decided = folder.fit / "rounds.json"
    complete = decided.exists()
    counted = names_in(files.counted)
    # characters of the shards that are counted so far
    characters = 0 if complete else _total(run, files.counted, "characters")

    def share() -> float:
        return min(1.0, most_gb * 1e9 / max(1, characters))

    def pieces() -> Iterator[tuple[Shard, float]]:
        # The share falls while more of the corpus is known. A shard keeps its segments with the
        # lowest keys, so those that the last share takes are always among them.
        for shard in run.shards(texts):
            if not complete and files.counts(shard.index).name not in counted:
                yield shard, share()

    plan = resolved.plan
    # hash texts for the later search for copies, as their text is at hand
    hashed = plan.choose.dedup != "none" and not corpus.is_parallel(texts.sources)
    keys = folder.keys if hashed else None
    count = CountShard(files, plan.read, plan.cut, texts.names, folder.scores, plan.seed, keys)
    with run.stage("count", texts.size):
        for tally in run.map(count, pieces()):
            characters += tally.characters
            run.progress.advance(0, tally.units)
    if not complete:
        write_bytes(decided, json.dumps({"share": share()}).encode())
    decision: float = json.loads(decided.read_bytes())["share"]
    return decision


def _score_by_sample(
    run: Run,
    resolved: Resolved,
    folder: SelectionFolder,
    method: RoundMethod,
    features: Features,
    share: float,
) -> None:
    """Score a large corpus by rounds on a sample, and the first of them again on all texts."""
    # A text's place is the first round whose threshold its gain reaches, sampled or not. But the
    # few texts that the first rounds take of a sample show too little of what is still missing. So
    # those up to half of the share are done again, on all texts that have a place up to the share.
    files = RoundsFolder(folder.rounds)
    sample = files.inner("sample")
    early = files.inner("early")
    shards = range(run.shard_count)
    parts = math.ceil(share * len(shards))
    if not sample.state(0).exists():
        store(sample.features, "features", features)
        size = len(features.weights)
        join = partial(_join_sampled, files, sample, share, size)
        nothing = Taken(np.zeros(size), 0)
        whole = nothing.with_more(*_sums(run, join, size, _dealt(shards, parts)))
        BeforeRound(whole).write(sample.state(0))
    remove(files.counted)
    texts = _total(run, sample.counted, "segments") / share
    states, rounds, _ = _take(run, sample, method, range(parts), texts, share)
    store(sample.scorer, "rounds", RoundScorer.of(features, states, rounds))

    # place every text by these rounds, and keep the counts of those with an early place
    words = rounds[-1].budget
    again = sum(2 * each.budget <= share * words for each in rounds)
    until = sum(each.budget <= share * words for each in rounds)
    read = resolved.plan.read
    cut = resolved.plan.cut
    names = resolved.corpus.names
    place = PlaceShard(files, read, cut, names, folder.scores, again, until)
    placed = names_in(files.placed)
    for tally in run.over_shards(
        "place", resolved.corpus, place, lambda i: files.places(i).name in placed
    ):
        run.progress.advance(0, tally.units)

    if not early.state(0).exists():
        store(early.features, "features", features)
        parts = max(parts, math.ceil(_total(run, files.placed, "early_words") / _PART_WORDS))
        parts = min(parts, len(shards))
        list(run.engine.map(partial(_join_early, files, early), _dealt(shards, parts)))
        BeforeRound.read(sample.state(0)).write(early.state(0))
    parts = sum(path.endswith(".safetensors") for path in names_in(early.counted))
    taken = _take(run, early, method, range(parts), texts, most=again)
    states[:again], rounds[:again], groups = taken
    store(folder.scorer, resolved.plan.method.name, RoundScorer.of(features, states, rounds))
    of_parts = tuple(group.parts for group in _dealt(shards, parts))
    write = partial(
        _write_early, files, tuple(rounds), again, of_parts, folder.scores, folder.scored
    )
    with run.stage("score", run.shard_count):
        for written in run.engine.map(write, groups):
            run.progress.advance(written)


def _take(
    run: Run,  # whose workers do it
    # with the parts' counts; with those of the whole corpus too, if it has other texts
    files: RoundsFolder,
    method: RoundMethod,  # decides on rounds and gains
    parts: range,  # numbers of the parts with the texts
    texts: float,  # number of all texts of the corpus, about
    share: float = 1.0,  # of the corpus that the texts are, if they are a sample of it
    most: int | None = None,  # number of rounds; all of the method's by default
) -> tuple[list[Taken], list[Round], list[Group]]:
    """Take texts in rounds.

    Returns:
        The counts by which each round scored, the rounds, and the groups of parts after them.
    """
    firsts = range(0, len(parts), _PARTS)
    all_groups = [Group(i, tuple(parts[at : at + _PARTS])) for i, at in enumerate(firsts)]
    features: Features = restore(files.features, lambda _: Features)
    size = len(features.weights)
    sum_taken = partial(_sum_taken, files, size)

    def groups_after(state: BeforeRound) -> list[Group]:
        """The groups, each with its threshold of the last round."""
        if not state.thresholds:
            return all_groups
        pairs = zip(all_groups, state.thresholds, strict=True)
        return [dataclasses.replace(group, threshold=threshold) for group, threshold in pairs]

    def untaken() -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.uint16]]]:
        """Gains and words of what is left, group by group."""
        for group in all_groups:
            yield Left.read(files, group.number)[0].untaken

    nothing = Taken(np.zeros(size), 0)
    if not files.state(0).exists():
        whole = nothing.with_more(*_sums(run, sum_taken, size, all_groups))
        BeforeRound(whole).write(files.state(0))
    if not files.state(1).exists():
        BeforeRound(nothing).write(files.state(1))
    whole = BeforeRound.read(files.state(0)).taken
    budgets = method.budgets(int(whole.words))[:most]
    with run.stage("take", len(budgets)):
        for number, budget in enumerate(budgets, start=1):
            if not files.state(number + 1).exists():  # otherwise an interrupted run has done it
                # score what is left, and take the best until the budget
                before = BeforeRound.read(files.state(number))
                room = math.ceil(budget * share) - int(before.taken.words)
                longest = longest_text(room, whole.words, texts)
                score = ScoreLeft(files, method, number, share, longest)
                list(run.engine.map(score, groups_after(before)))
                selector = Selector(find_threshold(untaken, room))
                thresholds = []
                bounds = Round(budget)
                for gains, costs, order in untaken():
                    thresholds.append(selector.rest)
                    bounds = bounds.widened(gains, gains[selector.select(gains, costs, order)])
                rounds = (*before.rounds, bounds)
                after = dataclasses.replace(before, rounds=rounds, thresholds=tuple(thresholds))
                taken = before.taken.with_more(*_sums(run, sum_taken, size, groups_after(after)))
                dataclasses.replace(after, taken=taken).write(files.state(number + 1))
            run.progress.advance(1)

    states = [scored_by(files, method, number, share) for number in range(1, len(budgets) + 1)]
    final = BeforeRound.read(files.state(len(budgets) + 1))
    return states, [*final.rounds], groups_after(final)


def _sums(
    run: Run, job: Callable[[Group], Summed], features: int, groups: list[Group]
) -> tuple[NDArray[np.int64], int]:
    """Add up what a job sums of each group."""
    sums = np.zeros(features, np.int64)
    total = 0
    for numbers, counts, words in run.engine.map(job, groups):
        sums[numbers] += counts
        total += words
    return sums, total


def _total(run: Run, folder: Path, entry: str) -> int:
    """The sum of an entry in the headers of the files of a folder."""
    names = sorted(name for name in names_in(folder) if name.endswith(".safetensors"))
    some = [names[first : first + _HEADERS] for first in range(0, len(names), _HEADERS)]
    return sum(run.engine.map(partial(_sum_entries, folder, entry), some))


def _dealt(shards: range, parts: int) -> list[Group]:
    """Shards dealt to parts in turn, as neighbors may all be like the target."""
    return [Group(i, tuple(shards[i::parts])) for i in range(parts)]


class RoundsFolder:
    """The files of a selection in rounds; all of them can be computed again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.features = path / "features.safetensors"  # what is counted of the target
        self.scorer = path / "scorer.safetensors"  # of the rounds on a sample
        self.counted = path / "counted"  # folder of what `counts` names
        self.placed = path / "placed"  # folder of what `places` names

    def inner(self, name: str) -> RoundsFolder:
        """The folder of rounds on some texts of the corpus, whose parts are of several shards."""
        return RoundsFolder(self.path / name)

    def counts(self, part: int) -> Path:
        """The counts of a part's segments; of a shard also the tally of its rows."""
        return self.counted / f"part-{part:05d}.safetensors"

    def places(self, shard: int) -> Path:
        """Counts and positions of a shard's segments with an early place, and its tally."""
        return self.placed / f"part-{shard:05d}.safetensors"

    def group(self, number: int) -> Path:
        """The state of a group of parts."""
        return self.path / "groups" / f"group-{number:05d}.safetensors"

    def lengths(self, number: int) -> Path:
        """The words of each segment of a group, and where those of its parts end."""
        return self.path / "groups" / f"lengths-{number:05d}.safetensors"

    def state(self, number: int) -> Path:
        """The state of the corpus before a round, from 1; before 0 all of it."""
        return self.path / f"round-{number:05d}.safetensors"


def _read_counted(path: Path) -> Counted:
    """The counts in a file that may have more."""
    return Counted(**map_arrays(path, _COUNTED))


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


def scored_by(files: RoundsFolder, method: RoundMethod, number: int, share: float) -> Taken:
    """The counts by which a round scores what is left, of texts that are a share of the corpus."""
    whole = BeforeRound.read(files.state(0)).taken
    budget = method.budgets(int(whole.words))[number - 1]
    taken = BeforeRound.read(files.state(number)).taken.of_all(share)
    return taken.with_more(*method.begin(whole, budget))


@dataclass(frozen=True)
class Group:
    """Some parts, or shards of a part, and what the round before took of them."""

    number: int
    parts: tuple[int, ...]
    threshold: Threshold | None = None  # of the round before; None before the first round


@dataclass(frozen=True)
class Left:
    """The state of a group's m segments after a round scored them."""

    # [m], the number of the round that took each segment; 0 if it is left
    number: NDArray[np.int16]
    gains: NDArray[np.float32]  # [m], gain in that round, or in the last round that scored it
    words: NDArray[np.int64]  # [m], words of each segment
    ends: NDArray[np.int64]  # [p], where the segments of each of the group's parts end

    @classmethod
    def read(cls, folder: RoundsFolder, group: int) -> tuple[Left, int]:
        """The state of a group, and the number of the round that wrote it."""
        state, header = read_arrays(folder.group(group))
        lengths = map_arrays(folder.lengths(group), ("words", "ends"))
        return cls(**state, **lengths), header["round"]

    def write(self, folder: RoundsFolder, group: int, number: int) -> None:
        """Write the state of a group after a round; the first one writes its lengths, too."""
        if number == 1:
            write_arrays(folder.lengths(group), {"words": self.words, "ends": self.ends}, {})
        state: dict[str, NDArray[Any]] = {"number": self.number, "gains": self.gains}
        write_arrays(folder.group(group), state, {"round": number})

    @property
    def untaken(self) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.uint16]]:
        """Gains and words of the segments that are left; equal gains go by position."""
        left = self.number == 0
        gains = self.gains[left]
        return gains, self.words[left], np.zeros(len(gains), np.uint16)

    def chosen(self, threshold: Threshold) -> NDArray[np.bool_]:
        """The segments that a threshold takes of those left, bool [m]."""
        chosen = np.asarray(self.number == 0)
        chosen[chosen] = Selector(threshold).select(*self.untaken)
        return chosen

    def after(self, threshold: Threshold, number: int) -> NDArray[np.int16]:
        """The rounds' numbers after a round took what its threshold takes."""
        return np.where(self.chosen(threshold), np.int16(number), self.number)


@dataclass(frozen=True)
class CountShard(Job[tuple[Shard, float], Tally]):
    """Count the features of a shard's segments; also writes its scores, still empty.

    With a share below 1 it keeps the counts of that share of the segments, and the sums of all.
    """

    folder: RoundsFolder
    read: ReadPlan
    cut: CutPlan
    names: tuple[str, ...]
    scores: Path
    seed: int
    keys: Path | None  # folder of the keys of texts, if they are written too

    def start(self) -> Callable[[tuple[Shard, float]], Tally]:
        features: Features = restore(self.folder.features, lambda _: Features)

        def work(piece: tuple[Shard, float]) -> Tally:
            shard, share = piece
            units, texts, tally = read_units(shard, self.read, self.cut, self.names)
            segments = join_units(units, self.cut.gamma)
            tally.segments = len(segments)
            counted = features.count(texts, segments.first_unit)
            keys = place_keys(self.seed, shard.index, len(segments))
            sums = {}
            if share < 1.0:
                numbers, counts, words = _summed([(counted, None)], len(features.weights))
                sums = {"summed": numbers.astype(np.uint32), "sums": counts.astype(np.uint32)}
                sums["sum_words"] = np.array([words])
                kept = uniform(keys) < share
                counted = counted.of(kept)
                keys = keys[kept]
            else:
                empty = np.zeros(len(segments), np.float32)
                table.write(self.scores, shard.index, tally.sources(self.names), segments, empty)
            if self.keys is not None:
                write_keys(self.keys, shard.index, units, texts, self.cut)
            arrays = {**vars(counted), "keys": keys, **sums}
            write_arrays(self.folder.counts(shard.index), arrays, tally.as_dict())
            return tally

        return work


def _sum_entries(folder: Path, entry: str, names: list[str]) -> int:
    """Sum an entry in the headers of some files of a folder."""
    return sum(read_arrays(folder / name, [])[1][entry] for name in names)


@dataclass(frozen=True)
class ScoreLeft(Job[Group, int]):
    """Score the segments of a group that are left; returns the group's number."""

    folder: RoundsFolder
    method: RoundMethod
    round: int
    share: float  # of the corpus that all groups are, if they are a sample
    longest: float  # words of the longest text that does not wait for a later round

    def start(self) -> Callable[[Group], int]:
        features: Features = restore(self.folder.features, lambda _: Features)
        state = scored_by(self.folder, self.method, self.round, self.share)
        gains_of = state.gains(features)

        def work(group: Group) -> int:
            before = None
            if group.threshold is not None:
                before, written = Left.read(self.folder, group.number)
                if written == self.round:  # by an earlier command
                    return group.number
            counted = [_read_counted(self.folder.counts(part)) for part in group.parts]
            gains = np.concatenate([gains_of(part) for part in counted])
            words = np.concatenate([part.words for part in counted])
            gains = np.where(words <= self.longest, gains, np.float32(-np.inf))
            number = np.zeros(len(gains), np.int16)
            if before is not None and group.threshold is not None:
                number = before.after(group.threshold, self.round - 1)
                gains = np.where(number == 0, gains, before.gains)
            after = Left(number, gains, words, np.cumsum([len(part.words) for part in counted]))
            after.write(self.folder, group.number, self.round)
            return group.number

        return work


def _sum_taken(folder: RoundsFolder, features: int, group: Group) -> Summed:
    """Sum the counts of what a threshold takes of a group; all of it without a threshold."""
    parts: dict[int, NDArray[np.bool_] | None] = dict.fromkeys(group.parts)
    if group.threshold is not None:
        left = Left.read(folder, group.number)[0]
        split = np.split(left.chosen(group.threshold), left.ends[:-1])
        # an early round takes a few segments of a few parts
        parts = {p: some for p, some in zip(group.parts, split, strict=True) if some.any()}
    counted = ((_read_counted(folder.counts(p)), some) for p, some in parts.items())
    return _summed(counted, features)


def _summed(parts: Iterable[tuple[Counted, NDArray[np.bool_] | None]], features: int) -> Summed:
    """Sum the counts of the chosen segments of some parts, bool [m]; None stands for all."""
    sums = np.zeros(features, np.int64)
    words = 0
    for counted, chosen in parts:
        taken = np.ones(len(counted.words), np.bool_) if chosen is None else chosen
        counted.add(taken, sums)
        words += int(counted.words[taken].sum())
    numbers = np.flatnonzero(sums)
    return numbers, sums[numbers], words


def _write_order(
    folder: RoundsFolder,
    rounds: tuple[Round, ...],
    scores: Path,
    marks: Path,  # folder of the marks that a shard is finished
    group: Group,
) -> int:
    """Write the order of taking as the scores of a group's shards; returns their number."""
    left, _ = Left.read(folder, group.number)
    assert group.threshold is not None  # noqa: S101 (the last round took the rest)
    number = left.after(group.threshold, len(rounds))
    order = order_scores(left.gains, number, list(rounds))
    first = 0
    for shard in group.parts:
        arrays, tally = read_arrays(folder.counts(shard), ["words"])
        m = len(arrays["words"])
        path = table.part_path(scores, shard)
        table.rewrite(path, score=order[first : first + m])
        write_bytes(mark_path(marks, shard), json.dumps(tally).encode())
        first += m
    return len(group.parts)


def _join_sampled(
    folder: RoundsFolder, sample: RoundsFolder, share: float, features: int, group: Group
) -> Summed:
    """Join the counts of the sampled segments of a part's shards; returns the sums of all."""
    sums = np.zeros(features, np.int64)
    total = 0
    sampled = []
    for shard in group.parts:
        arrays, _ = read_arrays(folder.counts(shard))
        counted = Counted(**{name: arrays[name] for name in _COUNTED})
        if "sums" in arrays:
            numbers = arrays["summed"]
            counts = arrays["sums"]
            words = arrays["sum_words"].item()
        else:  # nothing was left out, as the corpus was not known to be large
            numbers, counts, words = _summed([(counted, None)], features)
        sums[numbers] += counts
        total += words
        sampled.append(counted.of(uniform(arrays["keys"]) < share))
    part = joined(sampled)
    header = {"segments": len(part.words)}
    write_arrays(sample.counts(group.number), vars(part), header)
    numbers = np.flatnonzero(sums)
    return numbers, sums[numbers], total


@dataclass(frozen=True)
class PlaceShard(Job[Shard, Tally]):
    """Score a shard by the rounds on a sample, but for those that are done again on all texts.

    What has a place in an early round is stored with its counts.
    """

    folder: RoundsFolder
    read: ReadPlan
    cut: CutPlan
    names: tuple[str, ...]
    scores: Path
    again: int  # rounds that are done again
    early: int  # rounds whose texts are stored

    def start(self) -> Callable[[Shard], Tally]:
        scorer = restore(self.folder.inner("sample").scorer, lambda _: RoundScorer)

        def work(shard: Shard) -> Tally:
            units, texts, tally = read_units(shard, self.read, self.cut, self.names)
            segments = join_units(units, self.cut.gamma)
            tally.segments = m = len(segments)
            counted = scorer.features.count(texts, segments.first_unit)
            early = np.zeros(m, np.bool_)
            number = np.zeros(m, np.int16)
            gains = np.zeros(m, np.float32)
            for i, (new_gains, passed) in enumerate(scorer.rounds(counted), start=1):
                if i <= self.early:
                    early |= passed
                if i > self.again:
                    now = passed & (number == 0)
                    number[now] = i
                    gains[now] = new_gains[now]
            scores = order_scores(gains, number, scorer.bounds)
            table.write(self.scores, shard.index, tally.sources(self.names), segments, scores)
            first = counted.of(early)
            arrays = {**vars(first), "positions": np.flatnonzero(early)}
            header = {"tally": tally.as_dict(), "early_words": int(first.words.sum())}
            write_arrays(self.folder.places(shard.index), arrays, header)
            return tally

        return work


def _join_early(folder: RoundsFolder, early: RoundsFolder, group: Group) -> None:
    """Join the counts of the segments of a part's shards that have an early place."""
    counted = [_read_counted(folder.places(shard)) for shard in group.parts]
    write_arrays(early.counts(group.number), vars(joined(counted)), {})


def _write_early(
    folder: RoundsFolder,
    rounds: tuple[Round, ...],
    again: int,  # rounds that were repeated
    shards: tuple[tuple[int, ...], ...],  # of each part
    scores: Path,
    marks: Path,  # folder of the marks that a shard is finished
    group: Group,
) -> int:
    """Write the scores of what the repeated rounds took, and the marks; returns the shards."""
    number = np.zeros(0, np.int16)
    order = np.zeros(0, np.float32)
    if group.threshold is not None:
        left, _ = Left.read(folder.inner("early"), group.number)
        number = left.after(group.threshold, again)
        order = order_scores(left.gains, number, list(rounds))
    first = 0
    of_group = [shard for part in group.parts for shard in shards[part]]
    for shard in of_group:
        arrays, header = read_arrays(folder.places(shard), ["positions"])
        positions = arrays["positions"]
        here = slice(first, first + len(positions))
        taken = number[here] > 0
        if taken.any():
            path = table.part_path(scores, shard)
            values = np.array(table.read_columns(path, "score")[0])
            values[positions[taken]] = order[here][taken]
            table.rewrite(path, score=values)
        write_bytes(mark_path(marks, shard), json.dumps(header["tally"]).encode())
        first += len(positions)
    return len(of_group)
