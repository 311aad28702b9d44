"""The command `forecast`: KL reduction of selections and loss of a model before adaptation."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.artifacts import is_local, write_bytes
from corpusfit.core.errors import InputError, bad_setting
from corpusfit.core.lock import locked
from corpusfit.core.manifest import digest, source_identity
from corpusfit.core.types import Source, taken
from corpusfit.embed.extras import require_extras
from corpusfit.embed.hardware import resolve
from corpusfit.evaluation.forecast import (
    FEATURES,
    LAYERS,
    PARTS,
    Counts,
    TaskNgrams,
    count,
    layers,
    reduction,
)
from corpusfit.evaluation.forecast_job import CountSelected
from corpusfit.evaluation.predictors import GainPredictors, describe
from corpusfit.selection.fit import Sample
from corpusfit.selection.folder import SelectionFolder
from corpusfit.text.context import Machine, RunContext
from corpusfit.training.chunks import cut_chunks, split_heldout
from corpusfit.training.folder import AdaptFolder
from corpusfit.training.heldout import Heldout
from corpusfit.training.inputs import TrainingInputs, find_training_inputs
from corpusfit.training.models import LoadedModel, open_model
from corpusfit.training.objectives import Network, objective
from corpusfit.training.plan import LANGUAGE_MODELS, TASK, AdaptPlan
from corpusfit.training.prediction import Predictor
from corpusfit.training.presets import length_of
from corpusfit.training.special_tokens import backend_tokenizer
from corpusfit.training.tokenising import Tokenising


@dataclass(frozen=True)
class Forecast:
    """Predictors of the gain of adapting a model.

    Attributes:
        objective, length: of the losses: training objective, and tokens in a sequence.
        prospects: one per selection, in the order of the inputs.
        words: the result in sentences.
    """

    model: str
    objective: str
    length: int
    prospects: list[GainPredictors]
    words: list[str]


def forecast(plan: AdaptPlan, data: Sequence[str], *, machine: Machine) -> Forecast:
    """Measure the predictors of the gain; it writes nothing but token ids to the cache.

    It compares the n-grams of the task, of a sample of the corpus and of the selected text, and
    measures the base model's loss on the first two, in seconds. The losses are those that `adapt`
    reports before it trains, except that general text that will be trained on is not left out.

    Reference: Xie et al. (2023), section 4; TADPOLE, Figures 2 and 3.
    """
    plan = plan.check()
    if plan.model.init:
        raise bad_setting(
            "`model.name`", "a trained model", f"init = {plan.model.init}", "Leave init out."
        )
    if plan.objective.name not in LANGUAGE_MODELS:
        cure = "Leave out `objective.name`: the predictors are of language models."
        raise bad_setting("`objective.name`", "mlm, mlm+nsp or causal", plan.objective.name, cure)
    require_extras("corpusfit forecast", "models", plan.model.name)
    with contextlib.ExitStack() as stack, machine.running() as context:
        for name in data:
            if "://" not in name:
                used = SelectionFolder(Path(name)).work
                stack.enter_context(locked(used, "forecast", shared=True))
        folder = AdaptFolder(context.work)
        selections = [_selection(name, plan, context) for name in data]
        meter = _open_meter(plan, folder, context)
        general = _samples(selections)
        measured = dict[str, dict[str, float]]()
        for selection in selections:
            if selection.task_and_corpus not in measured:
                sample = general[selection.corpus]
                measured[selection.task_and_corpus] = meter.losses(selection.texts, sample)
        counted = [_count_selection(s, general[s.corpus], context) for s in selections]
    size = min(int(found.sum()) for c in counted for found in (c.sample, c.total.layers))
    prospects = [
        GainPredictors(
            selection.name,
            selection.manifest["method"]["name"],
            selection.task,
            c.total.texts,
            reduction(c.target, c.sample, c.total.layers, c.known.share(c.total.seen), size),
            measured[selection.task_and_corpus],
        )
        for selection, c in zip(selections, counted, strict=True)
    ]
    name, aim = plan.model.name, plan.objective.name
    return Forecast(name, aim, meter.length, prospects, describe(prospects, name))


@dataclass(frozen=True)
class _SelectionInputs:
    name: str
    texts: TrainingInputs
    manifest: dict[str, Any]
    target: Sample
    sample: Sample
    task: str
    corpus: str

    @property
    def task_and_corpus(self) -> str:
        """Fingerprints of task and corpus, which decide the losses."""
        return f"{self.task} {self.corpus}"


def _selection(name: str, plan: AdaptPlan, context: RunContext) -> _SelectionInputs:
    """A selection; raises `UsageError` for other data."""
    texts = find_training_inputs([name], (), (), plan.read, context)
    if texts.folder is None or texts.selection is None:
        cure = "Run corpusfit select first; forecast needs the target and corpus sample it stores."
        raise bad_setting("`data`", "the folder of a corpusfit select", name, cure)
    target, sample = (
        Sample(SelectionFolder(texts.folder).fit, n) for n in ("target", "background")
    )
    corpus = digest(source_identity([Source(**s) for s in texts.selection["corpus"]]))
    task = digest(target.read_texts())
    return _SelectionInputs(name, texts, texts.selection, target, sample, task, corpus)


def _samples(selections: Sequence[_SelectionInputs]) -> dict[str, Sample]:
    """By corpus, the first sample of it that a selection keeps; raises `InputError` without one."""
    found: dict[str, Sample] = {}
    for selection in selections:
        if selection.sample.texts.exists():
            found.setdefault(selection.corpus, selection.sample)
    for selection in selections:
        if selection.corpus not in found:
            raise InputError(
                f"`data={selection.name}` keeps no sample of its corpus to compare with. Add a "
                "selection from the same corpus by a method that reads text."
            )
    return found


@dataclass(frozen=True, eq=False)
class _Counts:
    """N-gram counts by bucket: of the target, of the corpus [PARTS, LAYERS, buckets], in total."""

    target: NDArray[np.float64]
    known: TaskNgrams
    sample: NDArray[np.float64]
    total: Counts


def _count_selection(selection: _SelectionInputs, sample: Sample, context: RunContext) -> _Counts:
    texts, chosen = selection.texts, selection.manifest["plan"]["choose"]["policy"]
    target, general = selection.target.batch("text"), sample.batch("text")
    job = CountSelected(selection.target, selection.texts.read.text_field, chosen == "continuous")
    known = TaskNgrams.of(target)
    nothing = np.zeros((LAYERS, FEATURES.buckets))
    total = Counts(0, nothing, np.zeros(len(known.times), np.bool_))
    with context.progress.showing("count n-grams", len(texts.data), "segments"):
        for part in context.map(job, (Path(s.url) for s in texts.data)):
            total = total.plus(part)
            context.progress.advance(0, part.texts)
    parts = [layers(taken(general, np.arange(k, len(general), PARTS))) for k in range(PARTS)]
    return _Counts(count(target), known, np.stack(parts), total)


@dataclass(frozen=True, eq=False)
class _LossMeter:
    """Measures the base model's loss, as `adapt` does before it trains, in rows of some length."""

    plan: AdaptPlan
    opened: LoadedModel
    network: Network
    rows: int
    length: int
    tokenising: Tokenising
    folder: AdaptFolder

    def losses(self, texts: TrainingInputs, general: Sample) -> dict[str, float]:
        """Mean loss per predicted token, in nats, on the task's text and on general text."""
        aim = objective(self.plan.objective, self.opened.special)
        found = {}
        if texts.task:
            found["task"] = replace(self.tokenising, read=texts.task_read).corpus(TASK, texts.task)
        found["general"] = self.tokenising.texts(
            "general", general.read_texts(), self.folder.general
        )
        kinds = {}
        for kind, (tokens, _) in found.items():
            room = self.length - aim.overhead()
            chunks = cut_chunks(tokens.lengths, np.ones(len(tokens), np.float32), room)
            most = self.plan.mix.heldout
            kinds[kind] = tokens, split_heldout(chunks, tokens.keys, most, self.plan.seed, 1.0)[1]
        measured = Heldout.of(kinds, aim, rows=self.rows, seed=self.plan.seed)
        return measured.losses(aim, self.network)


def _open_meter(plan: AdaptPlan, folder: AdaptFolder, context: RunContext) -> _LossMeter:
    hardware = resolve(plan.train, "train")
    opened = open_model(
        plan.model,
        plan.objective.name,
        attention=hardware.attention,
        seed=plan.seed,
        on_warn=context.progress.warn,
    )
    model = opened.model.to(hardware.device)
    write_bytes(
        folder.tokenizer, backend_tokenizer(opened.tokenizer, opened.name).to_str().encode()
    )
    end = opened.special.end if plan.objective.name == "causal" else None
    kept = (context.cache if is_local(context.cache) else folder.work) / "tokens"
    length = length_of(plan, opened.longest, hardware.device)
    return _LossMeter(
        plan,
        opened,
        Network(Predictor(model), model, None, hardware.precision == "bf16"),
        max(1, hardware.batch_tokens // length),
        length,
        Tokenising(plan.read, folder.tokenizer, kept, end, context),
        folder,
    )
