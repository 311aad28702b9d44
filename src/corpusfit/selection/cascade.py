"""Scores a corpus by a cascade: cheap methods score everything, expensive ones what is left."""

from __future__ import annotations

import bisect
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from corpusfit.core.artifacts import (
    listed,
    read_arrays,
    restore,
    store,
    write_arrays,
    write_bytes,
)
from corpusfit.core.engine import Job, PlainJob, counting
from corpusfit.core.errors import bad_setting, changed_input
from corpusfit.core.plan import ChoosePlan, CutPlan, EmbedPlan, MethodPlan, ReadPlan
from corpusfit.core.types import Paired, Reads, Segments, Shard, Texts, read_as, taken
from corpusfit.embed import load, wants_gpu
from corpusfit.kernels.chance import place_keys
from corpusfit.scoring import registry, table
from corpusfit.scoring.contract import Scorer
from corpusfit.scoring.surrogate import Surrogate, fit_surrogate
from corpusfit.selection.auto import pick
from corpusfit.selection.choosing import Selector, find_threshold
from corpusfit.selection.embedding import add_vectors
from corpusfit.selection.fit import Fit, PrepareEncoder, Sample
from corpusfit.selection.folder import SelectionFolder, mark_path
from corpusfit.selection.samples import ALL, Drawn, background_texts, merge, strings, target_texts
from corpusfit.selection.scoring import require_words
from corpusfit.selection.stages import Stage, shares_of, stages_of
from corpusfit.text.context import Run
from corpusfit.text.reading import (
    Reasons,
    Tally,
    cut_units,
    join_units,
    joined_scores,
    read_shard,
    read_units,
)

_SURROGATE = "cascade surrogate"
_APART = 0x5E63  # added to the seed, so that segments are drawn independently of units
_PART = re.compile(r"part-(\d+)\.safetensors")

ShardPart = tuple[Shard, NDArray[np.int64] | None]
"""A shard, and the places of the segments to score; None for all of them."""


def prepare_stages(run: Run) -> None:
    """Load the earlier stages' encoders and note their fingerprints."""
    if not run.plan.cascade.stages:
        return
    embeds = {s.embed.embedder: s.embed for s in stages_of(run.plan)[:-1] if s.embed is not None}
    if not embeds:
        return
    run.engine.require_shared(run.cache, "`cache`")
    with run.stage("prepare encoder"):
        for name, embed in embeds.items():
            run.encoders[name] = run.one(PrepareEncoder(run.cache), embed)


@dataclass(frozen=True)
class _Ready:
    """What is decided before the first stage runs; `shares` are what earlier stages pass on."""

    method: MethodPlan
    shares: list[float]
    segments: int
    tokens: int
    remark: str
    reason: str = ""

    @property
    def passed(self) -> list[int]:
        """Number of segments that each earlier stage passes on."""
        return [round(share * self.segments) for share in self.shares]


def score_cascade(run: Run, folder: SelectionFolder) -> MethodPlan:
    """Write `scores/` for the whole corpus, stage by stage; returns the last stage's method."""
    # Reference: Viola and Jones (2001), cascades of classifiers; TADPOLE for the scores.
    stages = stages_of(run.plan)
    ready = _ready(run, folder, stages)
    run.remark, run.reason = ready.remark, ready.reason
    for stage in stages:
        _run_stage(run, folder, stages, stage, ready)
    _join(run, folder, stages)
    _write_report(run, folder, stages, ready)
    return ready.method


def _ready(run: Run, folder: SelectionFolder, stages: list[Stage]) -> _Ready:
    """Draw, encode, fit and decide the shares, or read what a killed run left."""
    path = folder.fit / "ready.json"
    if path.exists():
        found = json.loads(path.read_bytes())
        return _Ready(**{**found, "method": MethodPlan(**found["method"])})
    last = stages[-1]
    drawn, counts = _draw(run, folder, last)
    _encode(run, folder, stages)
    method, remark = _fit(run, folder, stages, drawn["fresh"])
    # Segments that an earlier stage drops never reach the last one, so that the recall of its own
    # selection shows only on a sample that it scores whole.
    with run.stage("score the sample"):
        scorer = scorer_of(folder, last, method, last)
        units = run.one(ScoreSample(scorer.network), (scorer, Sample(folder.fit, "sampled")))
    scores = joined_scores(units, drawn["units"], summed=scorer.summed)
    shares = shares_of(run.plan, **counts)
    ready = _Ready(method, shares, **counts, remark=remark, reason=run.reason)
    for stage, share, passed in zip(stages, ready.shares, ready.passed, strict=False):
        if not passed:
            raise bad_setting(
                f"The share of {stage.name} in `cascade.stages`",
                f"at least {1 / ready.segments:.2g}",
                share,
                f"The stage would pass on none of {ready.segments:,} segments.",
            )
    known = {name: drawn[name] for name in ("shard", "place")}
    write_arrays(folder.fit / "last.safetensors", {**known, "scores": scores}, {})
    write_bytes(path, json.dumps(asdict(ready)).encode())
    return ready


def _sample_of(folder: SelectionFolder, stages: list[Stage], stage: Stage, name: str) -> Sample:
    """`target` or `background` as a stage reads it: each embedder's vectors have a folder."""
    if stage.embed is None or stage.embed == stages[-1].embed:
        return Sample(folder.fit, name)
    first = next(s.number for s in stages if s.embed == stage.embed)
    return Sample(folder.fit / f"vectors-{first}", name)


def _draw(
    run: Run, folder: SelectionFolder, last: Stage
) -> tuple[dict[str, NDArray[Any]], dict[str, int]]:
    """Draw target, background and sample as texts; the sample, and the corpus's counts."""
    fit, path = run.plan.fit, folder.fit / "sample.safetensors"
    target, background = (Sample(folder.fit, name) for name in ("target", "background"))
    target_texts(run, target)
    if path.exists():
        return read_arrays(path)
    embeds = last.embed is not None
    if not embeds:
        background_texts(run, background, fit.background)
        require_words(run, target, background)
    # A run of the last stage alone draws the same background: units with the smallest keys if it
    # embeds the corpus, else those that `background_texts` draws.
    most = fit.background if embeds else 0
    k = run.plan.cascade.sample
    job = DrawSegments(run.plan.read, run.plan.cut, run.names, k, most, run.plan.seed)
    segments: list[Drawn[DrawnSegment]] = []
    units: list[Drawn[tuple[int, str]]] = []
    bounds, counts, rejected = [ALL - 1, ALL - 1], {"segments": 0, "tokens": 0}, Reasons()
    with run.stage("sample", run.size):
        for part in run.map(job, ((s, bounds[0], bounds[1]) for s in run.shards())):
            rejected.add(part.tally.rejects)
            counts["segments"] += part.tally.segments
            counts["tokens"] += part.tokens
            segments, bounds[0] = _least([*segments, part.segments], k, bounds[0])
            units, bounds[1] = _least([*units, part.units], most, bounds[1])
    if not counts["segments"]:
        raise run.nothing_read(rejected)
    segments, units = merge(segments, min(k, -(-counts["segments"] // 2))), merge(units, most)
    flat = [(d.shard, s) for d in segments for s in d.texts]
    Sample(folder.fit, "sampled").write_texts([t for _, s in flat for t in s.texts])
    fresh = np.arange(0)
    if embeds:
        background.write_texts([text for d in units for _, text in d.texts])
        fresh = _fresh(units, flat)
    drawn = {
        "shard": np.array([shard for shard, _ in flat]),
        "place": np.array([s.place for _, s in flat]),
        "units": np.array([len(s.texts) for _, s in flat], np.int32),
        "fresh": fresh if embeds else np.arange(len(background.read_texts())),
    }
    write_arrays(path, drawn, counts)
    return drawn, counts


def _least(drawn: list[Drawn[Any]], k: int, bound: int) -> tuple[list[Drawn[Any]], int]:
    """The drawn items, merged to k once there are more than 2 k, and the resulting bound."""
    if sum(len(d.texts) for d in drawn) <= 2 * k:
        return drawn, bound
    drawn = merge(drawn, k)
    return drawn, int(max(d.keys.max() for d in drawn)) if drawn else bound


def _fresh(
    units: list[Drawn[tuple[int, str]]], segments: list[tuple[int, DrawnSegment]]
) -> NDArray[np.int64]:
    """Places of the background's units outside sampled segments; all places if there are none."""
    sampled: dict[int, set[int]] = {}
    for shard, s in segments:
        sampled.setdefault(shard, set()).update(range(s.first, s.first + len(s.texts)))
    flat = [(d.shard, place) for d in units for place, _ in d.texts]
    fresh = [i for i, (d, p) in enumerate(flat) if p not in sampled.get(d, ())]
    return np.array(fresh or range(len(flat)), np.int64)


def _encode(run: Run, folder: SelectionFolder, stages: list[Stage]) -> None:
    """Encode the samples that a stage is fitted on, and the one that the last stage scores."""
    last = stages[-1]
    for stage in stages:
        if stage.embed is None:
            continue
        fitted = any(s.method is not None for s in stages if s.embed == stage.embed)
        names = [*(["target"] if fitted else []), "background"]
        for name in [*names, *(["sampled"] if stage.embed == last.embed else [])]:
            sample, plain = _sample_of(folder, stages, stage, name), Sample(folder.fit, name)
            if sample.vectors.exists():
                continue
            if sample != plain:
                write_bytes(sample.texts, plain.texts.read_bytes())
            add_vectors(run, sample, stage.embed)


def _fit(
    run: Run, folder: SelectionFolder, stages: list[Stage], fresh: NDArray[np.int64]
) -> tuple[MethodPlan, str]:
    """Fit every stage, the last one first; returns the last one's method and remark."""
    last = stages[-1]
    method = last.method or run.plan.method
    if method.name == "auto":
        samples = [_sample_of(folder, stages, last, name) for name in ("target", "background")]
        picked = pick(run, folder, *samples, alone=True)
        method, run.reason = picked.method, picked.reason
    remarks = {}
    with run.stage("fit"):
        for stage in reversed(stages):
            scorer = scorer_of(folder, stage, method, last)
            target, background = (
                _sample_of(folder, stages, stage, name) for name in ("target", "background")
            )
            used = method if stage == last else stage.method
            if used is not None:
                network = not registry.build(used.name, used.options).exact
                job = Fit(target, background, scorer.path, run.plan.seed, network)
                remarks[stage.number] = run.one(job, used)
                continue
            costly = _sample_of(folder, stages, last, "background")
            imitated = scorer_of(folder, last, method, last)
            # Not on units of the sample, as far as there are others: it estimates the recall.
            run.one(FitSurrogate(imitated, costly, background, scorer.path, run.plan.seed), fresh)
    return method, remarks[last.number]


def _stage_parts(folder: SelectionFolder, stage: Stage) -> StageParts:
    return StageParts(folder.stages / str(stage.number))


def _run_stage(
    run: Run, folder: SelectionFolder, stages: list[Stage], stage: Stage, ready: _Ready
) -> None:
    """Score what the previous stage passed on; the first stage scores everything."""
    own = _stage_parts(folder, stage)
    done = set(own.finished())
    job = ScoreStage(
        scorer_of(folder, stage, ready.method, stages[-1]),
        run.plan.read,
        run.plan.cut,
        run.names,
        run.cache,
        folder.scores,
        own.folder,
    )

    def everything() -> Iterator[ShardPart]:
        return ((shard, None) for shard in run.shards() if shard.index not in done)

    def passing() -> Iterator[ShardPart]:
        before = _stage_parts(folder, stages[stage.number - 2])
        threshold = find_threshold(
            lambda: ((s, np.ones(len(s), np.int64)) for _, _, s in before.read_all()),
            ready.passed[stage.number - 2],
        )
        finished, selector = set(before.finished()), Selector(threshold)
        for shard in run.shards():
            if shard.index in finished:
                places, scores = before.read(shard.index)
                passed = selector.select(scores, np.ones(len(scores), np.int64))
                if passed.any() and shard.index not in done:
                    yield shard, places[passed]

    with run.stage(f"{stage.number} {stage.name}", run.size):
        for units in run.map(job, everything() if stage.number == 1 else passing()):
            run.machine.progress.advance(0, units)


def _join(run: Run, folder: SelectionFolder, stages: list[Stage]) -> None:
    """Write every segment to `scores/`, ordered by the last stage it reached, then by score."""

    def ends(stage: Stage) -> tuple[float, float]:
        found = [(s.min(), s.max()) for _, _, s in _stage_parts(folder, stage).read_all() if len(s)]
        return float(min(low for low, _ in found)), float(max(high for _, high in found))

    placings = [Placing()]
    floor, _ = ends(stages[-1])
    for stage in reversed(stages[:-1]):
        lowest, highest = ends(stage)
        placings.insert(0, Placing.below(floor, lowest, highest))
        floor = float(placings[0](np.array([lowest], np.float32))[0])
    parts = [_stage_parts(folder, stage) for stage in stages]
    folders = tuple(part.folder for part in parts)
    job = JoinStages(folder.scores, folder.scored, folders, tuple(placings))
    done = listed(folder.scored)
    missing = [i for i in parts[0].finished() if mark_path(folder.scored, i).name not in done]
    for _ in run.over("join", job, missing):
        pass


def _write_report(run: Run, folder: SelectionFolder, stages: list[Stage], ready: _Ready) -> None:
    """Write what the stages did, and which sampled segments they dropped."""
    rows = []
    for stage, received, passed, share in zip(
        stages,
        [ready.segments, *ready.passed],
        [*ready.passed, None],
        [*ready.shares, None],
        strict=True,
    ):
        units, seconds = _stage_parts(folder, stage).spent()
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
    write_bytes(folder.fit / "cascade.json", json.dumps({"stages": rows}).encode())
    sample, _ = read_arrays(folder.fit / "last.safetensors")
    parts = _stage_parts(folder, stages[-1])
    finished = set(parts.finished())
    dropped = np.ones(len(sample["place"]), np.bool_)
    for shard in np.unique(sample["shard"]).tolist():
        if shard in finished:
            at = sample["shard"] == shard
            dropped[at] = ~np.isin(sample["place"][at], parts.read(shard)[0])
    scores = np.sort(sample["scores"][dropped])[::-1]
    ahead, through = np.zeros(len(scores), np.int64), 0
    for _, _, of_part in parts.read_all():
        through += len(of_part)
        ahead += len(of_part) - np.searchsorted(np.sort(of_part), scores, side="left")
    counts = {"through": through, "sample": len(dropped), "corpus": ready.segments}
    arrays = {"scores": scores, "ahead": ahead}
    write_arrays(folder.fit / "lost.safetensors", arrays, {"counts": counts})


def cascade_of(
    folder: SelectionFolder, amount: ChoosePlan, taken: int | None = None
) -> dict[str, Any] | None:
    """What the stages did, and the estimated recall of a selection, as plain values."""
    path = folder.fit / "cascade.json"
    if not path.exists():
        return None
    found: dict[str, Any] = json.loads(path.read_bytes())
    if amount.balance:  # each cluster has its own threshold; the recall is for a common one
        return {**found, "recall": None}
    if taken is None and (amount.segments or amount.tokens or amount.threshold is not None):
        return {**found, "recall": None}
    arrays, header = read_arrays(folder.fit / "lost.safetensors")
    lost = DroppedSample(arrays["scores"], arrays["ahead"], **header["counts"])
    if taken is None:
        taken = max(1, round(amount.share * lost.corpus))
    if amount.threshold is not None:
        taken = min(taken, lost.through)
    return {**found, "recall": estimate_recall(lost, taken, amount.threshold)}


def dropped_at(folder: SelectionFolder, stage: Stage, shard: int, place: int) -> float:
    """The score of a shard's segment at the stage that dropped it."""
    places, scores = _stage_parts(folder, stage).read(shard)
    return float(scores[places == place][0])


@dataclass(frozen=True)
class DroppedSample:
    """The dropped segments of a sample, and numbers of segments of the run."""

    # [k], falling: last-stage scores of the sampled segments that were dropped
    scores: NDArray[np.float32]
    # [k], number of segments that came through with such a score or a higher one
    ahead: NDArray[np.int64]
    through: int  # segments of the corpus that came through
    sample: int
    corpus: int


def estimate_recall(
    lost: DroppedSample, taken: int, threshold: float | None = None
) -> dict[str, Any] | None:
    """The share of the last stage's own selection of `taken` segments that reaches that stage."""
    # Only dropped segments of the selection are informative, so a small selection needs a large
    # sample.
    if not taken or not lost.sample:
        return None

    def missing(k: int) -> float:  # in the corpus, by k sampled segments that were dropped
        return k / lost.sample * lost.corpus

    if threshold is not None:
        k = int((lost.scores >= threshold).sum())
        estimate = taken / (taken + missing(k))
    else:
        # The lowest score of that selection is unknown. As a score falls, both the segments that
        # came through above it and the missing ones grow, until they add up to the selection. (The
        # sample's own quantile errs much more where scores are sparse.)
        until = np.append(lost.ahead, lost.through)  # segments through before the next loss, by k
        enough = range(len(until) - 1)
        k = bisect.bisect_left(enough, True, key=lambda k: bool(until[k] + missing(k) >= taken))
        least = int(lost.ahead[k - 1]) if k else 0
        estimate = float(np.clip(taken - missing(k), least, min(until[k], taken))) / taken
    return {"estimate": estimate, "lost": k, "sample": lost.sample}


def recall_in_words(cascade: Mapping[str, Any]) -> str:
    """The recall in a cascade's manifest, as a sentence."""
    last, recall = cascade["stages"][-1]["stage"], cascade["recall"]
    if recall is None:
        return f"Recall of the selection of {last} alone: unknown (no sample)."
    return (
        f"Recall of the selection of {last} alone: about {100 * recall['estimate']:.1f} % (earlier "
        f"stages dropped {recall['lost']:,} of its segments in a sample of {recall['sample']:,})."
    )


@dataclass(frozen=True)
class StageScorer:
    """The scorer of a stage in a file, and what it reads."""

    path: Path
    reads: Reads
    summed: bool  # a segment's score is the sum of its units' scores, not the mean
    embed: EmbedPlan | None  # None if it reads text only
    network: bool  # the scorer itself is a network

    def open(self) -> Scorer[Any]:
        return restore(
            self.path, lambda kind: Surrogate if kind == _SURROGATE else registry.scorer_class(kind)
        )


def scorer_of(
    folder: SelectionFolder, stage: Stage, method: MethodPlan, last: Stage
) -> StageScorer:
    """The scorer of a stage; a surrogate joins units to segments as the last stage does."""
    used = method if stage == last or stage.method is None else stage.method
    built = registry.build(used.name, used.options)
    path = folder.fit / ("scorer" if stage == last else f"stage-{stage.number}")
    path = path.with_suffix(".safetensors")
    if stage.method is None:
        return StageScorer(path, "embedding", built.log_weights, stage.embed, network=False)
    embed = None if built.reads == "text" else stage.embed
    return StageScorer(path, built.reads, built.log_weights, embed, network=not built.exact)


@dataclass(frozen=True)
class DrawnSegment:
    """A segment of the sample: its place in the shard, that of its first unit, and its texts."""

    place: int
    first: int
    texts: list[str]


@dataclass(frozen=True)
class DrawnShard:
    """The drawn segments and background units of one shard, and its counts."""

    segments: Drawn[DrawnSegment]
    units: Drawn[tuple[int, str]]  # each with its place in the shard
    tokens: int
    tally: Tally


@dataclass(frozen=True)
class DrawSegments(PlainJob[tuple[Shard, int, int], DrawnShard]):
    """Draw the segments and the units of a shard with the smallest keys, up to two bounds.

    Reference: bottom-k sampling, see `kernels/chance.py`.
    """

    read: ReadPlan
    cut: CutPlan
    names: tuple[str, ...]
    segments: int
    units: int
    seed: int

    def _work(self, piece: tuple[Shard, int, int]) -> DrawnShard:
        shard, below, below_units = piece
        units, texts, tally = read_units(shard, self.read, self.cut, self.names)
        segments = join_units(units, self.cut.gamma)
        tally.segments = len(segments)
        keys = place_keys(self.seed + _APART, shard.index, len(segments))
        at = _smallest(keys, self.segments, below)
        drawn = [
            DrawnSegment(int(i), first, strings(texts, np.arange(first, first + n)))
            for i, first, n in zip(
                at, segments.first_unit[at].tolist(), segments.units[at].tolist(), strict=True
            )
        ]
        unit_keys = place_keys(self.seed, shard.index, len(units))
        places = _smallest(unit_keys, self.units, below_units)
        background = list(zip(places.tolist(), strings(texts, places), strict=True))
        return DrawnShard(
            Drawn(shard.index, keys[at], drawn),
            Drawn(shard.index, unit_keys[places], background),
            int(segments.tokens.sum()),
            tally,
        )


def _smallest(keys: NDArray[np.uint64], k: int, bound: int) -> NDArray[np.int64]:
    """Places of the k smallest keys up to a bound, increasing."""
    at = np.flatnonzero(keys <= np.uint64(bound))
    return np.sort(at[np.argsort(keys[at], kind="stable")[:k]])


@dataclass(frozen=True)
class FitSurrogate(PlainJob[NDArray[np.int64], int]):
    """Fit a surrogate of the last stage's scores on cheap vectors of the units at some places."""

    last: StageScorer
    costly: Sample  # the units as `last` reads them
    cheap: Sample  # the same units with the cheap embedder's vectors
    out: Path
    seed: int

    @property
    def encodes(self) -> bool:
        return self.last.network

    def _work(self, places: NDArray[np.int64]) -> int:
        scores = self.last.open().score(self.costly.batch(self.last.reads))[places]
        vectors = self.cheap.batch("embedding")[places]
        store(self.out, _SURROGATE, fit_surrogate(vectors, scores, seed=self.seed))
        return len(places)


@dataclass(frozen=True)
class ScoreSample(PlainJob[tuple[StageScorer, Sample], NDArray[np.float32]]):
    """Score a sample's units; float32 [n].

    A last stage on embeddings scores float32 vectors here, and in a run on its own float16 vectors
    of its store, so that scores differ slightly.
    """

    network: bool

    @property
    def encodes(self) -> bool:
        return self.network

    def _work(self, piece: tuple[StageScorer, Sample]) -> NDArray[np.float32]:
        scorer, sample = piece
        return scorer.open().score(sample.batch(scorer.reads))


class StageParts:
    """The scores of one stage in a folder: by shard, the places of segments and their scores."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _part(self, shard: int) -> Path:
        return self.folder / f"part-{shard:05d}.safetensors"

    def finished(self) -> list[int]:
        """The finished shards, increasing."""
        matches = map(_PART.fullmatch, listed(self.folder))
        return sorted(int(match[1]) for match in matches if match)

    def write(
        self,
        shard: int,
        places: NDArray[np.int64],
        scores: NDArray[np.float32],
        tally: Tally,
        seconds: float,
    ) -> None:
        """Write the scores [m] of the segments at places [m], and the tally."""
        plain = {n: v for n, v in tally.as_dict().items() if n != "rejects"}
        arrays: dict[str, NDArray[Any]] = {
            "places": places,
            "scores": scores,
            "rejects": np.frombuffer(orjson.dumps(tally.rejects), np.uint8),
        }
        write_arrays(self._part(shard), arrays, {"tally": plain, "seconds": seconds})

    def read(self, shard: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Places and scores."""
        arrays, _ = read_arrays(self._part(shard), ["places", "scores"])
        return arrays["places"], arrays["scores"]

    def read_all(self) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.float32]]]:
        """Shard, places and scores of every part, by shard."""
        for shard in self.finished():
            yield shard, *self.read(shard)

    def tally(self, shard: int) -> Tally:
        """The tally of a part."""
        arrays, header = read_arrays(self._part(shard), ["rejects"])
        return Tally(**header["tally"], rejects=orjson.loads(arrays["rejects"].tobytes()))

    def spent(self) -> tuple[int, float]:
        """Number of scored units and seconds of the workers, over all parts."""
        units, seconds = 0, 0.0
        for shard in self.finished():
            _, header = read_arrays(self._part(shard), [])
            units, seconds = units + header["tally"]["units"], seconds + header["seconds"]
        return units, seconds


@dataclass(frozen=True)
class ScoreStage(Job[ShardPart, int]):
    """Score the segments of a shard at some places, or all; returns the number of units.

    Vectors are not stored, because another cascade would pass on other segments.
    """

    stage: StageScorer
    read: ReadPlan
    cut: CutPlan
    names: tuple[str, ...]
    cache: Path
    scores: Path  # where the first stage writes a shard's segments, and later ones find them
    parts: Path

    @property
    def encodes(self) -> bool:
        embed = self.stage.embed
        return self.stage.network or (embed is not None and wants_gpu(embed))

    def start(self) -> Callable[[ShardPart], int]:
        scorer, embed = self.stage.open(), self.stage.embed
        encoder = load(embed, self.cache) if embed is not None else None
        parts = StageParts(self.parts)

        def work(piece: ShardPart) -> int:
            started = time.perf_counter()
            shard, places = piece
            segments, texts, tally = self._read(shard, places)
            batch: Any = texts
            if encoder is not None:
                vectors = encoder.encode(texts, counting(len(texts)))
                batch = read_as(Paired(texts, vectors), self.stage.reads)
            scores = joined_scores(scorer.score(batch), segments.units, summed=self.stage.summed)
            if places is None:
                table.write(self.scores, shard.index, tally.sources(self.names), segments, scores)
                places = np.arange(len(segments))
            parts.write(shard.index, places, scores, tally, time.perf_counter() - started)
            return len(texts)

        return work

    def _read(
        self, shard: Shard, places: NDArray[np.int64] | None
    ) -> tuple[Segments, Texts, Tally]:
        """The segments at some places, or all; the texts of their units; their tally."""
        if places is None:
            units, texts, tally = read_units(shard, self.read, self.cut, self.names)
            segments = join_units(units, self.cut.gamma)
            tally.segments = len(segments)
            return segments, texts, tally
        part = table.part_path(self.scores, shard.index)
        rows = table.read_rows(part, Tally.of(shard).sources(self.names))[places]
        numbers = table.read_columns(part, "segment")[0][places]
        found, tally = read_shard(shard, self.read, self.names, lambda seen, _: np.isin(seen, rows))
        units, texts = cut_units(found, self.cut)
        segments = join_units(units, self.cut.gamma)
        at = np.searchsorted(segments.row, rows) + numbers.astype(np.int64)
        if (at >= len(segments)).any() or (segments.row[at] != rows).any():
            raise changed_input(self.names[shard.source], "`overwrite`")
        counts = segments.units[at]
        before = np.cumsum(counts, dtype=np.int64) - counts
        within = np.arange(int(counts.sum())) - np.repeat(before, counts)
        wanted = np.repeat(segments.first_unit[at], counts) + within
        tally.units, tally.segments = len(wanted), len(at)
        picked = Segments(*(getattr(segments, f.name)[at] for f in fields(Segments)))
        return picked, taken(texts, wanted), tally


@dataclass(frozen=True)
class Placing:
    """The map of a stage's scores into the joint column: at + by * score."""

    at: float = 0.0
    by: float = 1.0

    def __call__(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        """The mapped scores [n], in the same order."""
        return (self.at + self.by * scores.astype(np.float64)).astype(np.float32)

    @classmethod
    def below(cls, floor: float, lowest: float, highest: float) -> Placing:
        """The map that puts scores from lowest to highest below a floor."""
        # As wide as the floor is far from 0: float32 can then distinguish millions of scores.
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
            for n, (part, shards, placing) in enumerate(
                zip(parts, finished, self.placings, strict=True), start=1
            ):
                if shard in shards:
                    places, scores = part.read(shard)
                    score[places], stage[places] = placing(scores), n
            table.rewrite(table.part_path(self.scores, shard), score=score, stage=stage)
            write_bytes(mark_path(self.marks, shard), json.dumps(tally.as_dict()).encode())
            return tally.units

        return work
