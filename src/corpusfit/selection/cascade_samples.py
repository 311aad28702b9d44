"""The samples of a cascade: drawn, encoded, to fit its stages on and to set their shares by."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.artifacts import read_arrays, write_arrays, write_bytes
from corpusfit.core.plan import MethodPlan
from corpusfit.scoring import registry
from corpusfit.selection.auto import pick
from corpusfit.selection.cascade_jobs import (
    DrawnSegment,
    DrawnUnit,
    DrawSegments,
    FitSurrogate,
    ScoreSample,
    StageScorer,
)
from corpusfit.selection.cascade_stages import Stage
from corpusfit.selection.corpus_embedding import add_vectors
from corpusfit.selection.fit import Fit, Sample
from corpusfit.selection.folder import SelectionFolder
from corpusfit.selection.recall import last_stage_selection, shares_for
from corpusfit.selection.sample_job import ALL, Drawn, merge
from corpusfit.selection.samples import background_texts, target_texts
from corpusfit.selection.scoring import require_words
from corpusfit.text.context import Run
from corpusfit.text.reading import Reasons
from corpusfit.text.segments import joined_scores

RECALL = 0.95
FEW = 20
"""Fewer sampled segments of a selection than this make its recall uncertain."""


class CascadeSamples:
    """The samples that stages are fitted on and measured with, in the run's folder."""

    def __init__(self, run: Run, folder: SelectionFolder, stages: list[Stage]) -> None:
        self.run, self.folder, self.stages = run, folder, stages
        self.segments = self.tokens = 0
        self.known: dict[str, NDArray[Any]] = {}

    def of(self, stage: Stage, name: str) -> Sample:
        """`target`, `background` or `sampled` as a stage reads it."""
        last = self.stages[-1].embed
        if stage.embed is None or stage.embed == last:
            return Sample(self.folder.fit, name)
        first = next(s.number for s in self.stages if s.embed == stage.embed)
        return Sample(self.folder.fit / f"vectors-{first}", name)

    def draw(self) -> None:
        """Draw target, background and the sample, as texts."""
        run, fit = self.run, self.run.plan.fit
        target, background = (Sample(self.folder.fit, n) for n in ("target", "background"))
        target_texts(run, target)
        own = self.stages[-1].embed is not None  # a run of the last stage alone draws it so
        if (self.folder.fit / "sample.safetensors").exists():
            self.known, header = read_arrays(self.folder.fit / "sample.safetensors")
            self.segments, self.tokens = header["segments"], header["tokens"]
            return
        if not own:
            background_texts(run, background, fit.background)
            require_words(run, target, background)
        segments, units = self._drawn(fit.background if own else 0)
        if own:
            background.write_texts([unit.text for d in units for unit in d.texts])
        flat = [(d.shard, s) for d in segments for s in d.texts]
        Sample(self.folder.fit, "sampled").write_texts([t for _, s in flat for t in s.texts])
        keys = np.concatenate([d.keys for d in segments])
        half = np.empty(len(keys), np.int8)
        half[np.argsort(keys)] = np.arange(len(keys)) % 2
        self.known = {
            "shard": np.array([shard for shard, _ in flat]),
            "place": np.array([s.place for _, s in flat]),
            "units": np.array([len(s.texts) for _, s in flat], np.int32),
            "tokens": np.array([s.tokens for _, s in flat]),
            "half": half,
            "fresh": _fresh(units, flat) if own else np.arange(len(background.read_texts())),
        }
        header = {"segments": self.segments, "tokens": self.tokens}
        write_arrays(self.folder.fit / "sample.safetensors", self.known, header)

    def _drawn(self, background: int) -> tuple[list[Drawn[DrawnSegment]], list[Drawn[DrawnUnit]]]:
        """Draw sampled segments and `background` units in one pass over the corpus."""
        run, k = self.run, self.run.plan.cascade.sample
        job = DrawSegments(run.plan.read, run.plan.cut, run.names, k, background, run.plan.seed)
        segments: list[Drawn[DrawnSegment]] = []
        units: list[Drawn[DrawnUnit]] = []
        bounds = [ALL - 1, ALL - 1]
        rejected = Reasons()
        with run.stage("sample", run.size):
            for found in run.map(job, ((s, bounds[0], bounds[1]) for s in run.shards())):
                rejected.add(found.tally.rejects)
                self.segments += found.tally.segments
                self.tokens += found.tokens
                segments, bounds[0] = _least([*segments, found.segments], k, bounds[0])
                units, bounds[1] = _least([*units, found.units], background, bounds[1])
        if not self.segments:
            raise run.nothing_read(rejected)
        return merge(segments, min(k, -(-self.segments // 2))), merge(units, background)

    def encode(self) -> None:
        """Encode the samples that a stage is fitted on or scores."""
        for stage in self.stages:
            if stage.embed is None:
                continue
            for name in ("target", "background", "sampled"):
                sample, plain = self.of(stage, name), Sample(self.folder.fit, name)
                unused = name == "target" and all(
                    s.method is None for s in self.stages if s.embed == stage.embed
                )
                if unused or sample.vectors.exists():
                    continue
                if sample != plain:
                    write_bytes(sample.texts, plain.texts.read_bytes())
                add_vectors(self.run, sample, stage.embed)

    def fit(self) -> tuple[MethodPlan, str]:
        """Fit every stage, the last one first; returns the last one's method and remark."""
        run, last = self.run, self.stages[-1]
        plain = [self.of(last, name) for name in ("target", "background")]
        method = last.method or run.plan.method
        if method.name == "auto":
            picked = pick(run, self.folder, *plain, alone=True)
            method, run.reason = picked.method, picked.reason
        remarks = {}
        with run.stage("fit"):
            for stage in reversed(self.stages):
                scorer = self.scorer(stage, method)
                used = method if stage == last else stage.method
                if used is not None:
                    target, background = (self.of(stage, n) for n in ("target", "background"))
                    network = not registry.build(used.name, used.options).exact
                    job = Fit(target, background, scorer.path, run.plan.seed, network)
                    remarks[stage.number] = run.one(job, used)
                    continue
                costly, cheap = (self.of(s, "background") for s in (last, stage))
                fit = FitSurrogate(
                    self.scorer(last, method), costly, cheap, scorer.path, run.plan.seed
                )
                run.one(fit, self.known["fresh"])
        return method, remarks[last.number]

    def scorer(self, stage: Stage, method: MethodPlan) -> StageScorer:
        """As `scorer_of`."""
        return scorer_of(self.folder, stage, method, self.stages[-1])

    def score(self, method: MethodPlan) -> list[NDArray[np.float32]]:
        """Scores of the sampled segments by every stage; float32 [k] per stage."""
        found = []
        with self.run.stage("score the sample"):
            for stage in self.stages:
                scorer = self.scorer(stage, method)
                units = self.run.one(
                    ScoreSample(scorer.network), (scorer, self.of(stage, "sampled"))
                )
                found.append(joined_scores(units, self.known["units"], summed=scorer.summed))
        return found

    def shares(self, scores: list[NDArray[np.float32]]) -> list[float]:
        """The shares as written in the plan, or those set from the first half of the sample."""
        plan = self.run.plan
        written = [stage.text.share for stage in self.stages[:-1]]
        shares = [share for share in written if share is not None]
        if shares:
            return shares
        half = self.known["half"] == 0
        of = last_stage_selection(
            scores[-1][half],
            self.known["tokens"][half],
            plan.choose,
            segments=self.segments,
            all_tokens=self.tokens,
        )
        if of.sum() < FEW:
            self.run.warn(
                f"Only {of.sum()} of {half.sum():,} sampled segments would be selected, so the "
                "shares and the recall of the cascade are uncertain. Enlarge the sample with "
                f"`cascade.sample={10 * plan.cascade.sample}`."
            )
        recall = RECALL if plan.cascade.recall is None else plan.cascade.recall
        costs = [stage.cost for stage in self.stages]
        return shares_for([s[half] for s in scores[:-1]], of, recall, costs)


def _least(drawn: list[Drawn[Any]], k: int, bound: int) -> tuple[list[Drawn[Any]], int]:
    """The drawn items, merged to k once there are more than 2 k, and the resulting bound."""
    if sum(len(d.texts) for d in drawn) <= 2 * k:
        return drawn, bound
    drawn = merge(drawn, k)
    return drawn, int(max(d.keys.max() for d in drawn)) if drawn else bound


def _fresh(
    units: list[Drawn[DrawnUnit]], segments: list[tuple[int, DrawnSegment]]
) -> NDArray[np.int64]:
    """Places of the background's units outside sampled segments; all places if there are none."""
    sampled: dict[int, set[int]] = {}
    for shard, s in segments:
        sampled.setdefault(shard, set()).update(range(s.first, s.first + len(s.texts)))
    flat = [(d.shard, unit.place) for d in units for unit in d.texts]
    fresh = [i for i, (d, p) in enumerate(flat) if p not in sampled.get(d, ())]
    return np.array(fresh or range(len(flat)), np.int64)


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
