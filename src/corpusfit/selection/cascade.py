"""Scores a corpus by a cascade: cheap methods score everything, expensive ones what is left."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.artifacts import listed, read_arrays, write_arrays, write_bytes
from corpusfit.core.errors import bad_setting
from corpusfit.core.plan import ChoosePlan, MethodPlan
from corpusfit.core.types import Shard
from corpusfit.selection.cascade_samples import CascadeSamples, scorer_of
from corpusfit.selection.cascade_stages import Stage, stages_of
from corpusfit.selection.fit import PrepareEncoder
from corpusfit.selection.folder import SelectionFolder
from corpusfit.selection.recall import DroppedSample, estimate_recall
from corpusfit.selection.score_job import mark_path
from corpusfit.selection.stage_job import JoinStages, Placing, ScoreStage, StageParts
from corpusfit.selection.top import Selector, find_threshold
from corpusfit.text.context import Run


@dataclass(frozen=True)
class _Ready:
    """What is decided before the first stage runs; shares are what earlier stages pass on."""

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


def score_cascade(run: Run, folder: SelectionFolder) -> MethodPlan:
    """Write `scores/` for the whole corpus, stage by stage; returns the last stage's method.

    Segments that an earlier stage drops never reach the last one. The recall of the last stage's
    own selection is estimated on sampled segments that no share was set by. A surrogate of a last
    stage on vectors is not fitted on their units, as far as there are others; the background of a
    method, or of a surrogate of a last stage on text, may hold some of them.

    Reference: Viola and Jones (2001), cascades of classifiers; TADPOLE for the scores.
    """
    stages = stages_of(run.plan)
    ready = _ready(run, folder, stages)
    run.remark, run.reason = ready.remark, ready.reason
    for stage in stages:
        _run_stage(run, folder, stages, stage, ready)
    _join(run, folder, stages)
    _write_report(run, folder, stages, ready)
    return ready.method


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
    recall = estimate_recall(lost, taken, header["confidence"], amount.threshold)
    return {**found, "recall": recall and dataclasses.asdict(recall)}


def _ready(run: Run, folder: SelectionFolder, stages: list[Stage]) -> _Ready:
    """Draw, encode, fit and set shares, or read what a killed run left."""
    path = folder.fit / "ready.json"
    if path.exists():
        found = json.loads(path.read_bytes())
        return _Ready(**{**found, "method": MethodPlan(**found["method"])})
    sample = CascadeSamples(run, folder, stages)
    sample.draw()
    sample.encode()
    method, remark = sample.fit()
    scores = sample.score(method)
    shares = sample.shares(scores)
    ready = _Ready(method, shares, sample.segments, sample.tokens, remark, run.reason)
    _require_passing(ready, stages)
    known = {name: sample.known[name] for name in ("shard", "place", "half")}
    write_arrays(folder.fit / "last.safetensors", {**known, "scores": scores[-1]}, {})
    write_bytes(path, json.dumps(dataclasses.asdict(ready)).encode())
    return ready


def _require_passing(ready: _Ready, stages: list[Stage]) -> None:
    for stage, share, passed in zip(stages, ready.shares, ready.passed, strict=False):
        if not passed:
            raise bad_setting(
                f"The share of {stage.name} in `cascade.stages`",
                f"at least {1 / ready.segments:.2g}",
                share,
                f"The stage would pass on none of {ready.segments:,} segments.",
            )


def stage_folder(folder: SelectionFolder, stage: Stage) -> Path:
    """Folder of a stage's parts."""
    return folder.stages / str(stage.number)


def _run_stage(
    run: Run, folder: SelectionFolder, stages: list[Stage], stage: Stage, ready: _Ready
) -> None:
    """Score what the previous stage passed on; the first stage scores everything."""
    job = ScoreStage(
        scorer_of(folder, stage, ready.method, stages[-1]),
        run.plan.read,
        run.plan.cut,
        run.names,
        run.cache,
        folder.scores,
        stage_folder(folder, stage),
    )
    done = set(StageParts(stage_folder(folder, stage)).finished())
    with run.stage(f"{stage.number} {stage.name}", run.size):
        if stage.number == 1:
            pieces: Iterator[tuple[Shard, NDArray[np.int64] | None]] = (
                (shard, None) for shard in run.shards() if shard.index not in done
            )
        else:
            before = stage_folder(folder, stages[stage.number - 2])
            pieces = _passing(run, before, ready.passed[stage.number - 2], done)
        for units in run.map(job, pieces):
            run.machine.progress.advance(0, units)


def _passing(
    run: Run, before: Path, through: int, done: set[int]
) -> Iterator[tuple[Shard, NDArray[np.int64]]]:
    """Shards that are still to be scored, with the places of the segments passed on."""
    parts = StageParts(before)
    threshold = find_threshold(
        lambda: ((scores, np.ones(len(scores), np.int64)) for _, _, scores in parts.read_all()),
        through,
    )
    finished, selector = set(parts.finished()), Selector(threshold)
    for shard in run.shards():
        if shard.index in finished:
            places, scores = parts.read(shard.index)
            taken = selector.select(scores, np.ones(len(scores), np.int64))
            if taken.any() and shard.index not in done:
                yield shard, places[taken]


def _join(run: Run, folder: SelectionFolder, stages: list[Stage]) -> None:
    """Write every segment to `scores/`, ordered by the last stage it reached, then by score."""
    placings = [Placing()]
    floor, _ = _range(StageParts(stage_folder(folder, stages[-1])))
    for stage in reversed(stages[:-1]):
        lowest, highest = _range(StageParts(stage_folder(folder, stage)))
        placings.insert(0, Placing.below(floor, lowest, highest))
        floor = float(placings[0](np.array([lowest], np.float32))[0])
    folders = tuple(stage_folder(folder, stage) for stage in stages)
    job = JoinStages(folder.scores, folder.scored, folders, tuple(placings))
    done = listed(folder.scored)
    shards = StageParts(folders[0]).finished()
    missing = [i for i in shards if mark_path(folder.scored, i).name not in done]
    for _ in run.over("join", job, missing):
        pass


def _range(parts: StageParts) -> tuple[float, float]:
    """The lowest and the highest score of a stage."""
    ends = [(s.min(), s.max()) for _, _, s in parts.read_all() if len(s)]
    return float(min(low for low, _ in ends)), float(max(high for _, high in ends))


def _write_report(run: Run, folder: SelectionFolder, stages: list[Stage], ready: _Ready) -> None:
    """Write what the stages did, and which sampled segments they dropped."""
    through = [ready.segments, *ready.passed]
    rows = []
    for stage, received, passed in zip(stages, through, [*ready.passed, None], strict=True):
        units, seconds = StageParts(stage_folder(folder, stage)).spent()
        rows.append(
            {
                "stage": stage.name,
                "embedder": stage.embed and stage.embed.embedder,
                "segments": received,
                "passed": passed,
                "share": None if passed is None else ready.shares[stage.number - 1],
                "units": units,
                "seconds": round(seconds, 3),
                "units_per_second": round(units / max(seconds, 1e-9), 1),
            }
        )
    set_here = stages[0].text.share is None
    write_bytes(
        folder.fit / "cascade.json",
        json.dumps({"stages": rows, "shares_from_sample": set_here}).encode(),
    )
    _write_lost(run, folder, stages, ready, half=set_here)


def _write_lost(
    run: Run, folder: SelectionFolder, stages: list[Stage], ready: _Ready, *, half: bool
) -> None:
    """Write the dropped segments of the sample; of its second `half` if the first set shares."""
    sample, _ = read_arrays(folder.fit / "last.safetensors")
    if half:
        sample = {name: values[sample["half"] == 1] for name, values in sample.items()}
    parts = StageParts(stage_folder(folder, stages[-1]))
    finished = set(parts.finished())
    dropped = np.ones(len(sample["place"]), np.bool_)
    for shard in np.unique(sample["shard"]).tolist():
        if shard in finished:
            at = sample["shard"] == shard
            dropped[at] = ~np.isin(sample["place"][at], parts.read(shard)[0])
    scores = np.sort(sample["scores"][dropped])[::-1]
    ahead, through = np.zeros(len(scores), np.int64), 0
    for _, _, found in parts.read_all():
        through += len(found)
        ahead += len(found) - np.searchsorted(np.sort(found), scores, side="left")
    counts = {"through": through, "sample": len(dropped), "corpus": ready.segments}
    header = {"counts": counts, "confidence": run.plan.cascade.confidence}
    write_arrays(folder.fit / "lost.safetensors", {"scores": scores, "ahead": ahead}, header)
