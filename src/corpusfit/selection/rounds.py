"""Scores a corpus by a method that takes it in rounds; a killed run resumes within its round."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, replace
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
from corpusfit.kernels.threshold import Keys, Threshold
from corpusfit.scoring import table
from corpusfit.scoring.rounds import (
    Counted,
    Features,
    Group,
    Round,
    RoundMethod,
    Rounds,
    RoundScorer,
    State,
    Summed,
    TextCounts,
    order_scores,
    scored_by,
    summed,
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
_COUNTED = [field.name for field in fields(Counted)]


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
        by_sample = _take_by_sample(run, resolved, folder, method, features, share)
        taken, rounds, write, pieces = by_sample
    else:
        texts = _total(run, files.counted, "segments")
        taken, rounds, pieces = _OnShards(run, files, method, features, shards, texts).take()
        write = WriteScores(files, rounds, len(rounds), folder.scores, folder.scored)
    store(folder.scorer, resolved.plan.method.name, RoundScorer.of(features, taken, rounds))
    with run.stage("score", run.shard_count):
        for written in run.engine.map(write, pieces):
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


def _take_by_sample(
    run: Run,
    resolved: Resolved,
    folder: SelectionFolder,
    method: RoundMethod,
    features: Features,
    share: float,
) -> tuple[list[TextCounts], tuple[Round, ...], WriteScores, list[Piece]]:
    """Score a large corpus by rounds on a sample, and repeat the first of them on all texts."""
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
        join = partial(_join_sampled, files, sample, share, len(features.weights))
        nothing = TextCounts(np.zeros(len(features.weights)), 0)
        whole = nothing.with_more(run.engine.map(join, _dealt(shards, parts)))
        sample.write_state(0, State(whole))
    remove(files.counted)
    texts = _total(run, sample.counted, "segments") / share
    on_sample = _OnShards(run, sample, method, features, range(parts), texts, share)
    taken, rounds, _ = on_sample.take()
    store(sample.scorer, "rounds", RoundScorer.of(features, taken, rounds))

    # place every text by these rounds, and keep the counts of those with an early place
    words = rounds[-1].budget
    again = sum(2 * each.budget <= share * words for each in rounds)
    until = sum(each.budget <= share * words for each in rounds)
    cut = resolved.plan.cut
    inputs = resolved.corpus
    place = PlaceShard(files, inputs.read, cut, inputs.names, folder.scores, again, until)
    placed = names_in(files.placed)
    for tally in run.over_shards("place", inputs, place, lambda i: files.places(i).name in placed):
        run.progress.advance(0, tally.units)

    if not early.state(0).exists():
        store(early.features, "features", features)
        parts = max(parts, math.ceil(_total(run, files.placed, "early_words") / _PART_WORDS))
        parts = min(parts, len(shards))
        list(run.engine.map(partial(_join_early, files, early), _dealt(shards, parts)))
        early.write_state(0, sample.read_state(0))
    parts = sum(path.endswith(".safetensors") for path in names_in(early.counted))
    on_early = _OnShards(run, early, method, features, range(parts), texts)
    taken[:again], repeated, pieces = on_early.take(again)
    rounds = (*repeated, *rounds[again:])
    of_parts = tuple(piece.parts for piece in _dealt(shards, parts))
    write = WriteScores(files, rounds, again, folder.scores, folder.scored, of_parts)
    return taken, rounds, write, pieces


class _OnShards(Rounds):
    """Rounds on groups of parts, of which each worker has one in memory.

    The folder has the parts' counts; with those of the whole corpus too, if it has other texts.
    """

    def __init__(
        self,
        run: Run,  # whose workers do it
        files: RoundsFolder,
        method: RoundMethod,
        features: Features,
        parts: range,  # numbers of the parts with the texts
        texts: float,
        share: float = 1.0,
    ) -> None:
        self._run = run
        self._files = files
        firsts = range(0, len(parts), _PARTS)
        self._pieces = [Piece(i, tuple(parts[at : at + _PARTS])) for i, at in enumerate(firsts)]
        self._sum_taken = partial(_sum_taken, files, len(features.weights))
        nothing = TextCounts(np.zeros(len(features.weights)), 0)
        if not files.state(0).exists():
            sums = run.engine.map(self._sum_taken, self._pieces)
            files.write_state(0, State(nothing.with_more(sums)))
        if not files.state(1).exists():
            files.write_state(1, State(nothing))
        super().__init__(method, files.read_state(0).taken, texts, share)

    def take(
        self, most: int | None = None
    ) -> tuple[list[TextCounts], tuple[Round, ...], list[Piece]]:
        """Take all rounds or the first ones, from where an interrupted run has stopped.

        Returns:
            The counts by which each round scored, the rounds, and the groups after them.
        """
        files = self._files
        taken = []
        budgets = self.method.budgets(int(self.corpus.words))[:most]
        with self._run.stage("take", len(budgets)):
            for number, budget in enumerate(budgets, start=1):
                state = files.read_state(number)
                if not files.state(number + 1).exists():
                    files.write_state(number + 1, self.next(state, budget))
                taken.append(scored_by(self.method, self.corpus, state.taken, budget, self.share))
                self._run.progress.advance(1)
        final = files.read_state(len(budgets) + 1)
        return taken, final.rounds, self._after(final)

    def _after(self, state: State) -> list[Piece]:
        """The groups, each with its threshold of the last round."""
        return [replace(piece, threshold=state.threshold(piece.group)) for piece in self._pieces]

    def score(self, state: State, budget: int, longest: float) -> None:
        number = len(state.rounds) + 1
        score = ScoreLeft(self._files, self.method, number, budget, self.share, longest)
        list(self._run.engine.map(score, self._after(state)))

    def untaken(self) -> Iterator[Keys]:
        for piece in self._pieces:
            yield self._files.read_group(piece.group)[0].untaken

    def sums(self, state: State) -> Iterable[Summed]:
        return self._run.engine.map(self._sum_taken, self._after(state))


def _total(run: Run, folder: Path, entry: str) -> int:
    """The sum of an entry in the headers of the files of a folder."""
    names = sorted(name for name in names_in(folder) if name.endswith(".safetensors"))
    some = [names[first : first + _HEADERS] for first in range(0, len(names), _HEADERS)]
    return sum(run.engine.map(partial(_sum_entries, folder, entry), some))


def _dealt(shards: range, parts: int) -> list[Piece]:
    """Shards dealt to parts in turn, as neighbors may all be like the target."""
    return [Piece(i, tuple(shards[i::parts])) for i in range(parts)]


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

    def write_state(self, number: int, state: State) -> None:
        """Write the state before a round."""
        header = {
            "words": state.taken.words,
            "rounds": [[r.budget, r.top, r.threshold] for r in state.rounds],
            "last": [[t.key, t.budget] for t in state.thresholds],
        }
        write_arrays(self.state(number), {"counts": state.taken.counts}, header)

    def read_state(self, number: int) -> State:
        """Read what `write_state` wrote."""
        arrays, header = read_arrays(self.state(number))
        rounds = tuple(Round(*r) for r in header["rounds"])
        thresholds = tuple(Threshold(*t) for t in header["last"])
        return State(TextCounts(arrays["counts"], header["words"]), rounds, thresholds)

    def write_group(self, number: int, group: Group, after: int) -> None:
        """Write a group after a round; the first one writes its lengths, too."""
        if after == 1:
            write_arrays(self.lengths(number), {"words": group.words, "ends": group.ends}, {})
        state: dict[str, NDArray[Any]] = {"number": group.number, "gains": group.gains}
        write_arrays(self.group(number), state, {"round": after})

    def read_group(self, number: int) -> tuple[Group, int]:
        """A group, and the number of the round that wrote it."""
        state, header = read_arrays(self.group(number))
        lengths = map_arrays(self.lengths(number), ("words", "ends"))
        return Group(**state, **lengths), header["round"]


def _joined(parts: list[Counted]) -> Counted:
    """Concatenate the counts of several shards."""
    before = np.cumsum([0, *(len(part.features) for part in parts)])
    moved = [replace(part, last=part.last + n) for part, n in zip(parts, before, strict=False)]
    return Counted(*(np.concatenate([vars(part)[name] for part in moved]) for name in _COUNTED))


def _read_counted(path: Path) -> Counted:
    """The counts in a file that may have more."""
    return Counted(**map_arrays(path, _COUNTED))


@dataclass(frozen=True)
class Piece:
    """Some parts, or shards of a part, and what the round before took of them."""

    group: int
    parts: tuple[int, ...]
    threshold: Threshold | None = None  # of the round before; None before the first round


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
                numbers, counts, words = summed([(counted, None)], len(features.weights))
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
class ScoreLeft(Job[Piece, int]):
    """Score what is left of a group; returns the group's number."""

    folder: RoundsFolder
    method: RoundMethod
    round: int
    budget: int
    share: float  # as in `Rounds`
    longest: float  # as in `Group.scored`

    def start(self) -> Callable[[Piece], int]:
        features: Features = restore(self.folder.features, lambda _: Features)
        corpus = self.folder.read_state(0).taken
        taken = self.folder.read_state(self.round).taken
        by = scored_by(self.method, corpus, taken, self.budget, self.share)
        gains_of = by.gains(features)

        def work(piece: Piece) -> int:
            before = None
            if piece.threshold is not None:
                before, written = self.folder.read_group(piece.group)
                if written == self.round:  # by an earlier command
                    return piece.group
                before = before.after(piece.threshold, self.round - 1)
            counted = [_read_counted(self.folder.counts(part)) for part in piece.parts]
            group = (before or Group.of(counted)).scored(counted, gains_of, self.longest)
            self.folder.write_group(piece.group, group, self.round)
            return piece.group

        return work


def _sum_taken(folder: RoundsFolder, features: int, piece: Piece) -> Summed:
    """Sum the counts of what a threshold takes of a group; all of it without a threshold."""
    parts: dict[int, NDArray[np.bool_] | None] = dict.fromkeys(piece.parts)
    if piece.threshold is not None:
        group, _ = folder.read_group(piece.group)
        chosen = np.split(group.chosen(piece.threshold), group.ends[:-1])
        # an early round takes a few segments of a few parts
        parts = {p: some for p, some in zip(piece.parts, chosen, strict=True) if some.any()}
    counted = ((_read_counted(folder.counts(p)), some) for p, some in parts.items())
    return summed(counted, features)


@dataclass(frozen=True)
class WriteScores:
    """Write the scores of what rounds took of a group, and its shards' marks; returns the shards.

    The order of taking is the score.
    """

    folder: RoundsFolder
    rounds: tuple[Round, ...]
    last: int  # the last round that could take texts of the group
    scores: Path
    marks: Path  # folder of the marks that a shard is finished
    early: tuple[tuple[int, ...], ...] = ()  # the shards of each part, if parts are of early texts

    def __call__(self, piece: Piece) -> int:
        number = np.zeros(0, np.int16)
        order = np.zeros(0, np.float32)
        if piece.threshold is not None:
            folder = self.folder.inner("early") if self.early else self.folder
            group = folder.read_group(piece.group)[0].after(piece.threshold, self.last)
            number = group.number
            order = order_scores(group.gains, number, self.rounds)
        of_group = [
            s for part in piece.parts for s in (self.early[part] if self.early else (part,))
        ]
        first = 0
        for shard in of_group:
            if self.early:
                arrays, header = read_arrays(self.folder.places(shard), ["positions"])
                positions = arrays["positions"]
                tally = header["tally"]
            else:
                arrays, tally = read_arrays(self.folder.counts(shard), ["words"])
                positions = np.arange(len(arrays["words"]))
            here = slice(first, first + len(positions))
            taken = number[here] > 0
            if taken.any():
                path = table.part_path(self.scores, shard)
                values = np.array(table.read_columns(path, "score")[0])
                values[positions[taken]] = order[here][taken]
                table.rewrite(path, score=values)
            write_bytes(mark_path(self.marks, shard), json.dumps(tally).encode())
            first += len(positions)
        return len(of_group)


def _join_sampled(
    folder: RoundsFolder, sample: RoundsFolder, share: float, features: int, piece: Piece
) -> Summed:
    """Join the counts of the sampled segments of a part's shards; returns the sums of all."""
    of_shards: list[Summed] = []
    sampled = []
    for shard in piece.parts:
        arrays, _ = read_arrays(folder.counts(shard))
        counted = Counted(**{name: arrays[name] for name in _COUNTED})
        if "sums" in arrays:
            of_shards.append((arrays["summed"], arrays["sums"], arrays["sum_words"].item()))
        else:  # nothing was left out, as the corpus was not known to be large
            of_shards.append(summed([(counted, None)], features))
        sampled.append(counted.of(uniform(arrays["keys"]) < share))
    part = _joined(sampled)
    write_arrays(sample.counts(piece.group), vars(part), {"segments": len(part.words)})
    sums = TextCounts(np.zeros(features), 0).with_more(of_shards)
    numbers = np.flatnonzero(sums.counts)
    return numbers, sums.counts[numbers], sums.words


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
            tally.segments = len(segments)
            counted = scorer.features.count(texts, segments.first_unit)
            gains, number, early = scorer.placed(counted, self.again)
            early |= number <= self.early
            scores = order_scores(gains, number, scorer.bounds)
            table.write(self.scores, shard.index, tally.sources(self.names), segments, scores)
            first = counted.of(early)
            arrays = {**vars(first), "positions": np.flatnonzero(early)}
            header = {"tally": tally.as_dict(), "early_words": int(first.words.sum())}
            write_arrays(self.folder.places(shard.index), arrays, header)
            return tally

        return work


def _join_early(folder: RoundsFolder, early: RoundsFolder, piece: Piece) -> None:
    """Join the counts of the segments of a part's shards that have an early place."""
    counted = [_read_counted(folder.places(shard)) for shard in piece.parts]
    write_arrays(early.counts(piece.group), vars(_joined(counted)), {})
