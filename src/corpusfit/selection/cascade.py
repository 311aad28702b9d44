"""Scores a corpus with a cascade: cheap methods score everything, expensive ones what is left."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from corpusfit.core.artifacts import (
    names_in,
    read_arrays,
    restore,
    store,
    write_arrays,
    write_bytes,
)
from corpusfit.core.engine import Call, Job, counting
from corpusfit.core.errors import bad_setting, changed_input
from corpusfit.core.plan import CutPlan, EmbedPlan, MethodPlan, ReadPlan
from corpusfit.core.types import Paired, Reads, Segments, Shard, Texts, Units, read_as, take_texts
from corpusfit.embed import feeds, load, wants_gpu
from corpusfit.kernels.chance import place_keys
from corpusfit.scoring import registry, table
from corpusfit.scoring.contract import Scorer
from corpusfit.scoring.surrogate import Surrogate, fit_surrogate
from corpusfit.selection.choosing import Selector, find_threshold, tie_draws
from corpusfit.selection.embedding import add_vectors
from corpusfit.selection.fit import Sample, fit
from corpusfit.selection.folder import SelectionFolder, mark_path
from corpusfit.selection.resolving import Resolved, Stage, shares_of
from corpusfit.selection.samples import (
    ALL,
    Drawn,
    Unit,
    background_texts,
    first_bound,
    lowest,
    merge,
    target_texts,
    units_at,
    write_units,
)
from corpusfit.selection.scoring import Scored, measured_likeness, require_words
from corpusfit.text.context import Run
from corpusfit.text.reading import (
    Reasons,
    Tally,
    cut_units,
    join_units,
    joined_scores,
    read_shard,
    read_units,
    with_numbers,
)

_SURROGATE = "cascade surrogate"
_SEGMENT_SEED = 0x5E63  # added to the seed, so that segments are drawn independently of units
_PART = re.compile(r"part-(\d+)\.safetensors")

ShardPart = tuple[Shard, NDArray[np.int64] | None]
"""A shard, and the positions of the segments to score; None for all of them."""


@dataclass(frozen=True)
class _Setup:
    """Decisions before the first stage runs; `shares` are passed on by the earlier stages."""

    shares: list[float]
    segments: int
    tokens: int
    remark: str

    @property
    def passed(self) -> list[int]:
        """Number of segments that each earlier stage passes on."""
        return [round(share * self.segments) for share in self.shares]


def score_cascade(run: Run, folder: SelectionFolder, resolved: Resolved) -> Scored:
    """Write `scores/` for the whole corpus, stage by stage."""
    # Reference: Viola and Jones (2001), cascades of classifiers; TADPOLE for the scores.
    setup = _prepare(run, folder, resolved)
    samples = Sample(folder.fit, "target"), Sample(folder.fit, "background")
    likeness = measured_likeness(run, *samples)
    stages = resolved.stages
    for stage in stages:
        _run_stage(run, folder, stages, stage, setup)
    lowest = _join(run, folder, stages)
    _write_report(folder, stages, setup, lowest)
    return Scored(setup.remark, likeness=likeness)


def _prepare(run: Run, folder: SelectionFolder, resolved: Resolved) -> _Setup:
    """Draw and encode samples, fit the stages and set their shares; resumes an interrupted run."""
    path = folder.fit / "ready.json"
    if path.exists():
        return _Setup(**json.loads(path.read_bytes()))
    stages = resolved.stages
    last = stages[-1]
    sample, counts = _draw(run, folder, last)
    _encode(run, folder, stages)
    last_scorer = scorer_of(folder, stages, last)
    with run.stage("fit"):
        remark = _fit(run, folder, stages, last, run.plan.method)
        # Surrogates learn the last stage's scores, of units outside the sample if there are any, as
        # the sample estimates the recall.
        for stage in reversed(stages[:-1]):
            if stage.method is not None:
                _fit(run, folder, stages, stage, stage.method)
                continue
            surrogate = partial(
                _fit_stage_surrogate,
                last_scorer,
                _sample_of(folder, stages, last, "background"),
                _sample_of(folder, stages, stage, "background"),
                scorer_of(folder, stages, stage).path,
                run.plan.seed,
            )
            run.one(Call(surrogate, last_scorer.network), sample["fresh"])

    # The last stage never sees what earlier stages drop. To estimate the recall, it scores a
    # whole sample of the corpus.
    with run.stage("score the sample"):
        job = Call(_score_sample, last_scorer.network)
        units = run.one(job, (last_scorer, Sample(folder.fit, "sampled")))
    scores = joined_scores(units, sample["units"], summed=last_scorer.summed)
    shares = shares_of(resolved, **counts)
    setup = _Setup(shares, **counts, remark=remark)
    for stage, share, passed in zip(stages, shares, setup.passed, strict=False):
        if not passed:
            raise bad_setting(
                f"The share of {stage.name} in `cascade.stages`",
                f"at least {1 / setup.segments:.2g}",
                share,
                f"The stage would pass on none of {setup.segments:,} segments.",
            )
    location = {name: sample[name] for name in ("shard", "place")}
    write_arrays(folder.fit / "last.safetensors", {**location, "scores": scores}, {})
    write_bytes(path, json.dumps(asdict(setup)).encode())
    return setup


def _sample_of(folder: SelectionFolder, stages: Sequence[Stage], stage: Stage, name: str) -> Sample:
    """A sample as a stage reads it: its texts, with the vectors of the stage's embedder."""
    if stage.embed is None or stage.embed == stages[-1].embed:
        return Sample(folder.fit, name)
    first = next(s.number for s in stages if s.embed == stage.embed)
    return Sample(folder.fit / f"vectors-{first}", name)


def _draw(
    run: Run, folder: SelectionFolder, last: Stage
) -> tuple[dict[str, NDArray[Any]], dict[str, int]]:
    """Draw and write target, background and sample; returns the sample, and the corpus's counts."""
    path = folder.fit / "sample.safetensors"
    target = Sample(folder.fit, "target")
    background = Sample(folder.fit, "background")
    target_texts(run, target)
    if path.exists():
        return read_arrays(path)
    embeds = last.embed is not None
    if not embeds:
        background_texts(run, background, run.plan.fit.background)
        require_words(run, target, background)
    # Draw the background as a run of the last stage alone would, so that both fit the same scorer.
    background_size = run.plan.fit.background if embeds else 0
    sample_size = run.plan.cascade.sample
    # The bounds are estimates, so that a worker with many shards returns few texts: draw again
    # without them if they gave too few.
    size, cut = run.size, run.plan.cut
    bounds = (
        first_bound(size, sample_size * max(1, cut.gamma), cut),
        first_bound(size, background_size, cut),
    )
    segments, units, counts = _draw_below(run, sample_size, background_size, *bounds)
    found = (sum(len(d.texts) for d in drawn) for drawn in (segments, units))
    if any(
        n < k and bound < ALL
        for n, k, bound in zip(found, (sample_size, background_size), bounds, strict=True)
    ):
        segments, units, counts = _draw_below(run, sample_size, background_size, ALL, ALL)
    # at most half of a small corpus, so that units remain to fit surrogates on
    segments = merge(segments, min(sample_size, math.ceil(counts["segments"] / 2)))
    sampled = [(d.shard, segment) for d in segments for segment in d.texts]
    in_sample = [unit for _, segment in sampled for unit in segment.texts]
    write_units(Sample(folder.fit, "sampled"), in_sample, run.plan.read)
    if embeds:
        units = merge(units, background_size)
        write_units(background, [unit for d in units for _, unit in d.texts], run.plan.read)
        unsampled = _unsampled(units, sampled)
    else:
        unsampled = np.arange(len(background.read_texts()))
    drawn = {
        "shard": np.array([shard for shard, _ in sampled]),
        "place": np.array([segment.place for _, segment in sampled]),
        "units": np.array([len(segment.texts) for _, segment in sampled], np.int32),
        "fresh": unsampled,
    }
    write_arrays(path, drawn, counts)
    return drawn, counts


def _draw_below(
    run: Run, most_segments: int, most_units: int, segment_bound: int, unit_bound: int
) -> tuple[list[Drawn[DrawnSegment]], list[Drawn[tuple[int, Unit]]], dict[str, int]]:
    """The segments and units with the smallest keys below bounds, and the corpus's counts."""
    segments: list[Drawn[DrawnSegment]] = []
    units: list[Drawn[tuple[int, Unit]]] = []
    counts = {"segments": 0, "tokens": 0}
    rejected = Reasons()
    plan = run.plan
    job = partial(
        _draw_segments, plan.read, plan.cut, run.names, most_segments, most_units, plan.seed
    )
    with run.stage("sample", run.size):
        # bounds fall as shards come in; a late bound only makes workers return more than needed
        for shard in run.map(job, ((s, segment_bound, unit_bound) for s in run.shards())):
            rejected.add(shard.tally.rejects)
            counts["segments"] += shard.tally.segments
            counts["tokens"] += shard.tokens
            segments, segment_bound = _keep_smallest(
                [*segments, shard.segments], most_segments, segment_bound
            )
            units, unit_bound = _keep_smallest([*units, shard.units], most_units, unit_bound)
    if not counts["segments"]:
        raise run.nothing_read(rejected)
    return segments, units, counts


def _keep_smallest(drawn: list[Drawn[Any]], k: int, bound: int) -> tuple[list[Drawn[Any]], int]:
    """Reduce drawn items to k once there are more than 2 k; returns them and the new bound."""
    if sum(len(d.texts) for d in drawn) <= 2 * k:
        return drawn, bound
    drawn = merge(drawn, k)
    return drawn, int(max(d.keys.max() for d in drawn)) if drawn else bound


def _unsampled(
    units: list[Drawn[tuple[int, Unit]]], segments: list[tuple[int, DrawnSegment]]
) -> NDArray[np.int64]:
    """Indices of the background's units outside sampled segments; all indices if there are none."""
    sampled: dict[int, set[int]] = {}
    for shard, segment in segments:
        end = segment.first + len(segment.texts)
        sampled.setdefault(shard, set()).update(range(segment.first, end))
    positions = [(d.shard, unit) for d in units for unit, _ in d.texts]
    unsampled = [
        i for i, (shard, unit) in enumerate(positions) if unit not in sampled.get(shard, ())
    ]
    return np.array(unsampled or range(len(positions)), np.int64)


def _encode(run: Run, folder: SelectionFolder, stages: Sequence[Stage]) -> None:
    """Encode the samples that each stage is fitted on, and the one that the last stage scores."""
    for stage in stages:
        if stage.embed is None:
            continue
        names = ["background"]
        # a surrogate is fitted without the target
        if any(s.method is not None for s in stages if s.embed == stage.embed):
            names.insert(0, "target")
        if stage.embed == stages[-1].embed:
            names.append("sampled")
        for name in names:
            sample = _sample_of(folder, stages, stage, name)
            original = Sample(folder.fit, name)
            if sample.vectors.exists():
                continue
            if sample != original:
                write_bytes(sample.texts, original.texts.read_bytes())
            add_vectors(run, sample, stage.embed)


def _fit(
    run: Run,
    folder: SelectionFolder,
    stages: Sequence[Stage],
    stage: Stage,
    method: MethodPlan,
) -> str:
    """Fit the method of a stage; returns its remark."""
    scorer = scorer_of(folder, stages, stage)
    target = _sample_of(folder, stages, stage, "target")
    background = _sample_of(folder, stages, stage, "background")
    job = partial(fit, target, background, scorer.path, run.plan.seed)
    return run.one(Call(job, scorer.network), method)


def _parts_of(folder: SelectionFolder, stage: Stage) -> StageParts:
    return StageParts(folder.stages / str(stage.number))


def _run_stage(
    run: Run, folder: SelectionFolder, stages: Sequence[Stage], stage: Stage, setup: _Setup
) -> None:
    """Score what the previous stage passed on; the first stage scores everything."""
    parts = _parts_of(folder, stage)
    done = set(parts.finished())
    scorer = scorer_of(folder, stages, stage)
    if scorer.embed is not None:
        scorer = replace(scorer, embed=run.pinned(scorer.embed))
    job = ScoreStage(
        scorer,
        run.plan.read,
        run.plan.cut,
        run.names,
        run.cache,
        folder.scores,
        parts.folder,
    )

    def all_segments() -> Iterator[ShardPart]:
        return ((shard, None) for shard in run.shards() if shard.index not in done)

    def passed_segments() -> Iterator[ShardPart]:
        previous = _parts_of(folder, stages[stage.number - 2])

        def keyed(shard: int, scores: NDArray[np.float32]) -> tuple[Any, Any, Any]:
            draws = tie_draws(run.plan.seed, shard, len(scores))
            return scores, np.ones(len(scores), np.int64), draws

        threshold = find_threshold(
            lambda: (keyed(shard, scores) for shard, _, scores in previous.read_all()),
            setup.passed[stage.number - 2],
        )
        finished = set(previous.finished())
        selector = Selector(threshold)
        for shard in run.shards():
            if shard.index in finished:
                places, scores = previous.read(shard.index)
                # call it for finished shards too, as the selector counts ties across shards
                passed = selector.select(*keyed(shard.index, scores))
                if passed.any() and shard.index not in done:
                    yield shard, places[passed]

    with run.stage(f"{stage.number} {stage.name}", run.size):
        pieces = all_segments() if stage.number == 1 else passed_segments()
        for units in run.map(job, pieces):
            run.machine.progress.advance(0, units)


def _join(run: Run, folder: SelectionFolder, stages: Sequence[Stage]) -> float:
    """Write every segment to `scores/`, ordered by the last stage it reached, then by score.

    Returns:
        the lowest score of the last stage.
    """

    def score_range(stage: Stage) -> tuple[float, float]:
        parts = _parts_of(folder, stage).read_all()
        ranges = [(scores.min(), scores.max()) for _, _, scores in parts if len(scores)]
        return float(min(low for low, _ in ranges)), float(max(high for _, high in ranges))

    # backwards from the last stage, map each stage's scores below those of the next
    placings = [Placing()]
    lowest_of_last, _ = score_range(stages[-1])
    floor = lowest_of_last
    for stage in reversed(stages[:-1]):
        lowest, highest = score_range(stage)
        placings.insert(0, Placing.below(floor, lowest, highest))
        floor = float(placings[0](np.array([lowest], np.float32))[0])
    parts = [_parts_of(folder, stage) for stage in stages]
    folders = tuple(part.folder for part in parts)
    job = JoinStages(folder.scores, folder.scored, folders, tuple(placings))
    done = names_in(folder.scored)
    missing = [i for i in parts[0].finished() if mark_path(folder.scored, i).name not in done]
    for _ in run.over("join", job, missing):
        pass
    return lowest_of_last


def _write_report(
    folder: SelectionFolder, stages: Sequence[Stage], setup: _Setup, lowest: float
) -> None:
    """Write counts and times of the stages, and the sampled segments that they dropped."""
    rows = []
    for stage, received, passed, share in zip(
        stages,
        [setup.segments, *setup.passed],
        [*setup.passed, None],
        [*setup.shares, None],
        strict=True,
    ):
        units, seconds = _parts_of(folder, stage).spent()
        rows.append(
            {
                "stage": stage.name,
                "embedder": stage.embed and stage.embed.embedder,
                "segments": received,
                "passed": passed,
                "share": share,
                "units": units,
                "seconds": round(seconds, 3),
                "units_per_second": round(units / max(seconds, 1e-9), 1),
            }
        )
    report = {"stages": rows, "lowest": lowest}
    write_bytes(folder.fit / "cascade.json", json.dumps(report).encode())
    # sampled segments that did not reach the last stage, with the scores that it gives them
    sample, _ = read_arrays(folder.fit / "last.safetensors")
    parts = _parts_of(folder, stages[-1])
    finished = set(parts.finished())
    dropped = np.ones(len(sample["place"]), np.bool_)
    for shard in np.unique(sample["shard"]).tolist():
        if shard in finished:
            in_shard = sample["shard"] == shard
            scored, _ = parts.read(shard)
            dropped[in_shard] = ~np.isin(sample["place"][in_shard], scored)
    scores = np.sort(sample["scores"][dropped])[::-1]
    # how many segments of the last stage rank at least as high as each dropped one
    ahead = np.zeros(len(scores), np.int64)
    through = 0
    for _, _, part_scores in parts.read_all():
        through += len(part_scores)
        ahead += len(part_scores) - np.searchsorted(np.sort(part_scores), scores, side="left")
    counts = {"through": through, "sample": len(dropped), "corpus": setup.segments}
    arrays = {"scores": scores, "ahead": ahead}
    write_arrays(folder.fit / "lost.safetensors", arrays, {"counts": counts})


def dropped_at(folder: SelectionFolder, stage: Stage, shard: int, position: int) -> float:
    """The score of a shard's segment at the stage that dropped it."""
    places, scores = _parts_of(folder, stage).read(shard)
    return float(scores[places == position][0])


@dataclass(frozen=True)
class StageScorer:
    """A stage's scorer, stored in a file, and what it reads."""

    path: Path
    reads: Reads
    fields: tuple[str, ...]
    summed: bool  # a segment's score is the sum of its units' scores, not the mean
    embed: EmbedPlan | None  # None if the scorer reads only text
    network: bool  # the scorer itself is a network

    def open(self) -> Scorer[Any]:
        return restore(
            self.path, lambda kind: Surrogate if kind == _SURROGATE else registry.scorer_class(kind)
        )


def scorer_of(folder: SelectionFolder, stages: Sequence[Stage], stage: Stage) -> StageScorer:
    """The scorer of a stage; a surrogate joins units to segments as the last stage does."""
    path = folder.fit / f"stage-{stage.number}.safetensors"
    if stage == stages[-1]:
        path = folder.scorer
    if stage.method is None:
        last = scorer_of(folder, stages, stages[-1])
        return StageScorer(path, "embedding", (), last.summed, stage.embed, network=False)
    method = registry.build(stage.method.name, stage.method.options)
    embed = None if method.reads in ("text", "numbers") else stage.embed
    return StageScorer(
        path,
        method.reads,
        method.fields,
        method.log_weights,
        embed,
        network=not method.exact,
    )


@dataclass(frozen=True)
class DrawnSegment:
    """A sampled segment: its position in the shard, that of its first unit, and its units."""

    place: int
    first: int
    texts: list[Unit]


@dataclass(frozen=True)
class DrawnShard:
    """The drawn segments and background units of one shard, and its counts."""

    segments: Drawn[DrawnSegment]
    units: Drawn[tuple[int, Unit]]  # each with its position in the shard
    tokens: int
    tally: Tally


def _draw_segments(
    read: ReadPlan,
    cut: CutPlan,
    names: tuple[str, ...],
    most_segments: int,
    most_units: int,
    seed: int,
    piece: tuple[Shard, int, int],
) -> DrawnShard:
    """Draw the segments and the units of a shard with the smallest keys, each up to a bound.

    Reference: bottom-k sampling, see `kernels/chance.py`.
    """
    shard, segment_bound, unit_bound = piece
    units, texts, tally = read_units(shard, read, cut, names)
    segments = join_units(units, cut.gamma)
    tally.segments = len(segments)
    keys = place_keys(seed + _SEGMENT_SEED, shard.index, len(segments))
    chosen = lowest(keys, most_segments, segment_bound)
    drawn = [
        DrawnSegment(i, first, units_at(texts, units.numbers, np.arange(first, first + n)))
        for i, first, n in zip(
            chosen.tolist(),
            segments.first_unit[chosen].tolist(),
            segments.units[chosen].tolist(),
            strict=True,
        )
    ]
    unit_keys = place_keys(seed, shard.index, len(units))
    chosen_units = lowest(unit_keys, most_units, unit_bound)
    units_chosen = units_at(texts, units.numbers, chosen_units)
    background = list(zip(chosen_units.tolist(), units_chosen, strict=True))
    return DrawnShard(
        Drawn(shard.index, keys[chosen], drawn),
        Drawn(shard.index, unit_keys[chosen_units], background),
        int(segments.tokens.sum()),
        tally,
    )


def _fit_stage_surrogate(
    last: StageScorer,
    costly: Sample,  # the units as `last` reads them
    cheap: Sample,  # the same units with the cheap embedder's vectors
    out: Path,
    seed: int,
    places: NDArray[np.int64],
) -> int:
    """Fit a surrogate of the last stage's scores to a cheap embedder's vectors of some units."""
    scores = last.open().score(costly.batch(last.reads, last.fields))[places]
    vectors = cheap.batch("embedding")[places]
    store(out, _SURROGATE, fit_surrogate(vectors, scores, seed=seed))
    return len(places)


def _score_sample(piece: tuple[StageScorer, Sample]) -> NDArray[np.float32]:
    """Score a sample's units; float32 [n].

    Embeddings are float32 here. A run without a cascade reads float16 embeddings from its store, so
    its scores differ slightly.
    """
    scorer, sample = piece
    return scorer.open().score(sample.batch(scorer.reads, scorer.fields))


class StageParts:
    """The stored scores of one stage: by shard, positions of segments and their scores."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _part(self, shard: int) -> Path:
        return self.folder / f"part-{shard:05d}.safetensors"

    def finished(self) -> list[int]:
        """The finished shards, increasing."""
        matches = map(_PART.fullmatch, names_in(self.folder))
        return sorted(int(match[1]) for match in matches if match)

    def write(
        self,
        shard: int,
        places: NDArray[np.int64],
        scores: NDArray[np.float32],
        tally: Tally,
        seconds: float,
    ) -> None:
        """Write the scores [m] of the segments at positions [m], and the tally."""
        counts = {name: n for name, n in tally.as_dict().items() if name != "rejects"}
        arrays: dict[str, NDArray[Any]] = {
            "places": places,
            "scores": scores,
            "rejects": np.frombuffer(orjson.dumps(tally.rejects), np.uint8),
        }
        write_arrays(self._part(shard), arrays, {"tally": counts, "seconds": seconds})

    def read(self, shard: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Positions of the segments, and their scores."""
        arrays, _ = read_arrays(self._part(shard), ["places", "scores"])
        return arrays["places"], arrays["scores"]

    def read_all(self) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.float32]]]:
        """Shard, positions and scores of every part, ordered by shard."""
        for shard in self.finished():
            yield shard, *self.read(shard)

    def tally(self, shard: int) -> Tally:
        """The tally of a part."""
        arrays, header = read_arrays(self._part(shard), ["rejects"])
        return Tally(**header["tally"], rejects=orjson.loads(arrays["rejects"].tobytes()))

    def spent(self) -> tuple[int, float]:
        """Total number of scored units, and of seconds of the workers."""
        units = 0
        seconds = 0.0
        for shard in self.finished():
            _, header = read_arrays(self._part(shard), [])
            units += header["tally"]["units"]
            seconds += header["seconds"]
        return units, seconds


@dataclass(frozen=True)
class ScoreStage(Job[ShardPart, int]):
    """Score all segments of a shard, or those at some positions; returns the number of units.

    Embeddings are not stored, because another cascade would pass on other segments.
    """

    stage: StageScorer
    read: ReadPlan
    cut: CutPlan
    names: tuple[str, ...]
    cache: Path
    scores: Path  # the first stage writes a shard's segments here, later stages read them
    parts: Path

    @property
    def encodes(self) -> bool:
        embed = self.stage.embed
        return self.stage.network or (embed is not None and wants_gpu(embed))

    @property
    def devices(self) -> Callable[[], tuple[str, ...]] | None:
        # a scorer with a network has it in its worker, on the same GPU
        embed = self.stage.embed
        return None if embed is None or self.stage.network else feeds(embed)

    def start(self) -> Callable[[ShardPart], int]:
        scorer = self.stage.open()
        embed = self.stage.embed
        encoder = load(embed, self.cache) if embed is not None else None
        parts = StageParts(self.parts)

        def work(piece: ShardPart) -> int:
            started = time.perf_counter()
            shard, places = piece
            segments, units, texts, tally = self._read(shard, places)
            batch: Any = texts
            if encoder is not None:
                vectors = encoder.encode(texts, counting(len(texts)))
                batch = read_as(Paired(texts, vectors), self.stage.reads)
            batch = with_numbers(batch, units, self.read, self.stage.fields)
            scores = joined_scores(scorer.score(batch), segments.units, summed=self.stage.summed)
            if places is None:
                table.write(self.scores, shard.index, tally.sources(self.names), segments, scores)
                places = np.arange(len(segments))
            parts.write(shard.index, places, scores, tally, time.perf_counter() - started)
            return len(texts)

        return work

    def _read(
        self, shard: Shard, places: NDArray[np.int64] | None
    ) -> tuple[Segments, Units, Texts, Tally]:
        """All segments, or those at some positions; their units and the texts; their tally."""
        if places is None:
            units, texts, tally = read_units(shard, self.read, self.cut, self.names)
            segments = join_units(units, self.cut.gamma)
            tally.segments = len(segments)
            return segments, units, texts, tally
        # read only the rows of these segments, and cut and join them as the first stage did
        path = table.part_path(self.scores, shard.index)
        rows = table.read_rows(path, Tally.of(shard).sources(self.names))[places]
        numbers_in_row = table.read_columns(path, "segment")[0][places]
        documents, tally = read_shard(
            shard, self.read, self.names, lambda row_numbers, _: np.isin(row_numbers, rows)
        )
        units, texts = cut_units(documents, self.cut)
        segments = join_units(units, self.cut.gamma)

        # of all segments of these rows, keep those at the positions
        positions = np.searchsorted(segments.row, rows) + numbers_in_row.astype(np.int64)
        if (positions >= len(segments)).any() or (segments.row[positions] != rows).any():
            raise changed_input(self.names[shard.source], "`overwrite`")
        counts = segments.units[positions]
        offsets = np.cumsum(counts, dtype=np.int64) - counts
        within_segment = np.arange(int(counts.sum())) - np.repeat(offsets, counts)
        kept_units = np.repeat(segments.first_unit[positions], counts) + within_segment
        tally.units = len(kept_units)
        tally.segments = len(positions)
        kept_segments = Segments(*(getattr(segments, f.name)[positions] for f in fields(Segments)))
        return kept_segments, units.take(kept_units), take_texts(texts, kept_units), tally


@dataclass(frozen=True)
class Placing:
    """A linear map of a stage's scores into the joint score column: at + by * score."""

    at: float = 0.0
    by: float = 1.0

    def __call__(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        """The mapped scores [n], in the same order."""
        return (self.at + self.by * scores.astype(np.float64)).astype(np.float32)

    @classmethod
    def below(cls, floor: float, lowest: float, highest: float) -> Placing:
        """The map that puts scores from lowest to highest below a floor."""
        # The range is as wide as the distance of the floor from 0, so that float32 can distinguish
        # millions of scores.
        width = max(1.0, abs(floor))
        by = width / (highest - lowest) if highest > lowest else 1.0
        return cls(floor - width / 4 - by * highest, by)


@dataclass(frozen=True)
class JoinStages(Job[int, int]):
    """Write to a shard's part of `scores/` each segment's score in the last stage it reached."""

    scores: Path
    marks: Path
    stages: tuple[Path, ...]
    placings: tuple[Placing, ...]

    def start(self) -> Callable[[int], int]:
        parts = [StageParts(folder) for folder in self.stages]
        finished = [set(p.finished()) for p in parts]

        def work(shard: int) -> int:
            tally = parts[0].tally(shard)
            score = np.empty(tally.segments, np.float32)
            stage = np.empty(tally.segments, np.int8)
            for number, (part, shards, placing) in enumerate(
                zip(parts, finished, self.placings, strict=True), start=1
            ):
                if shard in shards:
                    places, scores = part.read(shard)
                    score[places] = placing(scores)
                    stage[places] = number
            table.rewrite(table.part_path(self.scores, shard), score=score, stage=stage)
            write_bytes(mark_path(self.marks, shard), json.dumps(tally.as_dict()).encode())
            return tally.units

        return work
