"""The command `forecast`: what is known of adapting a model on a selection, before it is done.

What: counts n-grams of the task, of a sample of the corpus and of what was selected, and measures
the base model's loss on the first two.
Why: a selection has kept its task and its sample, so that this takes seconds.
Trade-off: general text is the sample of the corpus that a selection keeps, the first one's where
several of one corpus are set side by side. The losses are those that `adapt` says before it trains,
but that general text which will be trained on is not left out.
Reference: Xie et al. (2023), section 4; TADPOLE, Figures 2 and 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.adapt.chunks import cut_chunks, split_heldout
from corpusfit.adapt.heldout import Heldout
from corpusfit.adapt.models import LoadedModel, open_model
from corpusfit.adapt.objectives import Network, objective
from corpusfit.adapt.plan import AdaptPlan
from corpusfit.adapt.prediction import Predictor
from corpusfit.adapt.presets import length_of
from corpusfit.adapt.special_tokens import backend_tokenizer
from corpusfit.artifacts import is_local, write_bytes
from corpusfit.embed.hardware import resolve
from corpusfit.engine import Engine
from corpusfit.errors import InputError, bad_setting
from corpusfit.evaluate.forecast import (
    FEATURES,
    LAYERS,
    PARTS,
    Counts,
    TaskNgrams,
    count,
    layers,
    reduction,
)
from corpusfit.evaluate.predictors import GainPredictors, describe
from corpusfit.jobs.fit import Sample
from corpusfit.jobs.forecast import CountSelected
from corpusfit.manifest import AdaptFolder, RunFolder, digest, source_identity
from corpusfit.pipeline.inputs import TASK, Given, given
from corpusfit.pipeline.run import Machine
from corpusfit.pipeline.tokenising import Tokenising
from corpusfit.types import Source, taken


@dataclass(frozen=True)
class Forecast:
    """What is to be expected of adapting a model.

    Attributes:
        model: its name.
        prospects: one a selection, as they were named.
        words: what it comes to, in sentences.
    """

    model: str
    prospects: list[GainPredictors]
    words: list[str]


def forecast(plan: AdaptPlan, data: Sequence[str], *, machine: Machine) -> Forecast:
    """Say what speaks for adapting; nothing is written but token ids into the cache.

    Args:
        plan: of an adaptation, with the model's name.
        data: folders of selections.
        machine: where text is counted and tokenised.

    Raises:
        UsageError: the data is no selection; an untrained model is asked for.
        CorpusfitError: a selection or the model cannot be read.
    """
    plan = plan.check()
    if plan.model.init:
        raise bad_setting("--model", "given: an untrained model knows no text", "nothing")
    with machine.start() as engine, machine.scratch() as scratch:
        engine.require_shared(scratch, "--cache")
        work = AdaptFolder(scratch)
        selections = [_selection(name, plan, work, engine, machine) for name in data]
        meter = _meter(plan, work, engine, machine)
        general = _general(selections)
        measured = dict[str, dict[str, float]]()
        for selection in selections:
            if selection.both not in measured:
                sample = general[selection.corpus]
                measured[selection.both] = meter.losses(selection.texts, sample)
        counted = [_counted(s, general[s.corpus], engine, machine) for s in selections]
    size = min(int(found.sum()) for c in counted for found in (c.sample, c.total.layers))
    prospects = [
        GainPredictors(
            selection.name,
            selection.manifest["method"]["name"],
            selection.task,
            c.total.texts,
            reduction(c.target, c.sample, c.total.layers, c.known.share(c.total.seen), size),
            measured[selection.both],
        )
        for selection, c in zip(selections, counted, strict=True)
    ]
    return Forecast(plan.model.name, prospects, describe(prospects, plan.model.name))


@dataclass(frozen=True)
class _Selected:
    """A selection that the user named.

    Attributes:
        name: as it was named.
        texts: where its texts are, and its task's.
        manifest: its own.
        target: the task's texts as they were learned from.
        sample: of its corpus; not all selections keep one.
        task: fingerprint of its target's texts.
        corpus: fingerprint of its corpus.
    """

    name: str
    texts: Given
    manifest: dict[str, Any]
    target: Sample
    sample: Sample
    task: str
    corpus: str

    @property
    def both(self) -> str:
        """Task and corpus: what the losses hang on."""
        return f"{self.task} {self.corpus}"


def _selection(
    name: str, plan: AdaptPlan, work: AdaptFolder, engine: Engine, machine: Machine
) -> _Selected:
    """Find a selection.

    Raises:
        UsageError: it is none.
    """
    texts = given([name], (), (), plan.read, work.path, engine, machine)
    if texts.folder is None or texts.selection is None:
        cure = "A forecast needs the task and the sample of the corpus that a selection keeps."
        raise bad_setting("--data", "the folder of a corpusfit select", name, cure)
    target, sample = (Sample(RunFolder(texts.folder).fit, n) for n in ("target", "background"))
    corpus = digest(source_identity([Source(**s) for s in texts.selection["corpus"]]))
    task = digest(target.read_texts())
    return _Selected(name, texts, texts.selection, target, sample, task, corpus)


def _general(selections: Sequence[_Selected]) -> dict[str, Sample]:
    """By corpus, the first sample of it that a selection keeps: the same for all of that corpus.

    Raises:
        InputError: none keeps one.
    """
    found: dict[str, Sample] = {}
    for selection in selections:
        if selection.sample.texts.exists():
            found.setdefault(selection.corpus, selection.sample)
    for selection in selections:
        if selection.corpus not in found:
            raise InputError(
                f"--data {selection.name} keeps no sample of its corpus, so there is nothing to "
                "compare with. Name another selection from the same corpus beside it."
            )
    return found


@dataclass(frozen=True, eq=False)
class _Counted:
    """What was counted of a selection, its task and its corpus.

    Attributes:
        target: float64 [buckets].
        known: the task's n-grams.
        sample: float64 [PARTS, LAYERS, buckets].
        total: of the selected text.
    """

    target: NDArray[np.float64]
    known: TaskNgrams
    sample: NDArray[np.float64]
    total: Counts


def _counted(selection: _Selected, sample: Sample, engine: Engine, machine: Machine) -> _Counted:
    """Count one selection."""
    texts, chosen = selection.texts, selection.manifest["plan"]["choose"]["policy"]
    target, general = selection.target.batch("text"), sample.batch("text")
    job = CountSelected(selection.target, chosen == "continuous")
    known = TaskNgrams.of(target)
    nothing = np.zeros((LAYERS, FEATURES.buckets))
    total = Counts(0, nothing, np.zeros(len(known.times), np.bool_))
    machine.progress.begin("count", len(texts.data), "segments")
    for part in engine.map(job, (Path(s.url) for s in texts.data)):
        total = total.plus(part)
        machine.progress.advance(1, part.texts)
    machine.progress.end()
    parts = [layers(taken(general, np.arange(k, len(general), PARTS))) for k in range(PARTS)]
    return _Counted(count(target), known, np.stack(parts), total)


@dataclass(frozen=True, eq=False)
class _Meter:
    """Measures the base model's loss, as `adapt` does before it trains.

    Attributes:
        plan: of the adaptation.
        opened: the model, on its device.
        network: how it is called.
        rows: sequences that go through it together.
        length: tokens in a sequence.
        tokenising: makes token ids of texts.
        work: a folder for what is needed under way.
    """

    plan: AdaptPlan
    opened: LoadedModel
    network: Network
    rows: int
    length: int
    tokenising: Tokenising
    work: AdaptFolder

    def losses(self, texts: Given, general: Sample) -> dict[str, float]:
        """Mean loss of a predicted token, in nats, on the task's text and on general text."""
        aim = objective(self.plan.objective, self.opened.special)
        found = {}
        if texts.task:
            found["task"] = replace(self.tokenising, read=texts.task_read).corpus(TASK, texts.task)
        found["general"] = self.tokenising.texts("general", general.read_texts(), self.work.general)
        kinds = {}
        for kind, (tokens, _) in found.items():
            room = self.length - aim.overhead()
            chunks = cut_chunks(tokens.lengths, np.ones(len(tokens), np.float32), room)
            most = self.plan.mix.heldout
            kinds[kind] = tokens, split_heldout(chunks, tokens.keys, most, self.plan.seed, 1.0)[1]
        measured = Heldout.of(kinds, aim, rows=self.rows, seed=self.plan.seed)
        return measured.losses(aim, self.network)


def _meter(plan: AdaptPlan, work: AdaptFolder, engine: Engine, machine: Machine) -> _Meter:
    """Open the model."""
    hardware = resolve(plan.train, "train")
    opened = open_model(
        plan.model,
        plan.objective.name,
        attention=hardware.attention,
        seed=plan.seed,
        on_warn=machine.progress.warn,
    )
    model = opened.model.to(hardware.device)
    write_bytes(work.tokenizer, backend_tokenizer(opened.tokenizer, opened.name).to_str().encode())
    cache = machine.cache_folder()
    end = opened.special.end if plan.objective.name == "causal" else None
    kept = (cache if is_local(cache) else work.work) / "tokens"
    length = length_of(plan, opened.longest, hardware.device)
    return _Meter(
        plan,
        opened,
        Network(Predictor(model), model, None, hardware.precision == "bf16"),
        max(1, hardware.batch_tokens // length),
        length,
        Tokenising(plan.read, work.tokenizer, kept, end, engine, machine),
        work,
    )
