"""The command `forecast`: KL reduction of selections and loss of a model before adaptation."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.artifacts import is_local, user_path, write_bytes
from corpusfit.core.engine import Job
from corpusfit.core.errors import InputError, bad_setting
from corpusfit.core.manifest import digest, locked, source_identity
from corpusfit.core.types import Source, Texts, take_texts, text_array
from corpusfit.embed.folders import require_extra
from corpusfit.embed.hardware import resolve
from corpusfit.embed.prediction import Predictor
from corpusfit.kernels import characters, grams, hashed
from corpusfit.kernels.chance import place_keys, uniform
from corpusfit.scoring.methods.dsir import Dsir
from corpusfit.scoring.tokens import ngrams, word_buffers
from corpusfit.selection.fit import Sample
from corpusfit.selection.folder import SelectionFolder
from corpusfit.text.context import Machine, RunContext
from corpusfit.training.data import cut_chunks, split_heldout
from corpusfit.training.folder import AdaptFolder
from corpusfit.training.inputs import TrainingInputs, find_training_inputs
from corpusfit.training.models import open_model
from corpusfit.training.objectives import Network, objective
from corpusfit.training.plan import LANGUAGE_MODELS, TASK, AdaptPlan
from corpusfit.training.presets import length_of
from corpusfit.training.special_tokens import backend_tokenizer
from corpusfit.training.tokenising import Range, Tokenising, ranges_of, read_selected
from corpusfit.training.trainer import Heldout

FEATURES = Dsir()  # n-grams as in the method `dsir`
PARTS = 16  # parts of the corpus sample, for a jackknife estimate of its noise
# random layers of texts: each has about a sixth of the texts not in earlier ones, the last the rest
LAYERS = 48
_NOISE_BAND = 2.0  # standard errors
_LAYERS_PER_HALVING = 4  # this many layers hold half of the texts not in earlier layers
_LAYER_STREAM = 2**43  # stream of random numbers that assigns texts to layers


def count(texts: Texts, weights: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """Number of n-grams in each hash bucket."""
    data, offsets = word_buffers(texts)
    counts: NDArray[np.float64] = hashed.count(
        data,
        offsets,
        characters.table(),
        FEATURES.signs,
        FEATURES.order,
        np.ones(len(texts)) if weights is None else weights,
        FEATURES.buckets,
    )
    return counts


def layers(texts: Texts, weights: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """Count n-grams in each of `LAYERS` random layers of texts: float64 [LAYERS, buckets]."""
    # A text's layer is drawn by its position. All layers from any one on are a random sample of the
    # texts, so `_subsample` can sample n-grams of nearly any number of whole texts.
    draws = uniform(place_keys(0, _LAYER_STREAM, len(texts)))
    layer_of_text = np.minimum(-np.log2(draws) * _LAYERS_PER_HALVING, LAYERS - 1).astype(np.int64)
    if weights is None:
        weights = np.ones(len(texts))
    members = [np.flatnonzero(layer_of_text == layer) for layer in range(LAYERS)]
    return np.stack([count(take_texts(texts, indices), weights[indices]) for indices in members])


def _subsample(counts: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """Sample about `size` n-grams: all of the last layers, and some of the layer before them."""
    # `counts` is float64 [parts, LAYERS, buckets], made by `layers`; the result [parts, buckets].
    sizes_from_layer = counts.sum(axis=(0, 2))[::-1].cumsum()[::-1]
    large_enough = np.flatnonzero(sizes_from_layer >= size)
    split_layer = int(large_enough[-1]) if len(large_enough) else 0
    whole_layers: NDArray[np.float64] = counts[:, split_layer + 1 :].sum(axis=1)

    # weighted texts have fractional counts: round them at random, without bias
    rng = np.random.default_rng(0)
    candidates = counts[:, split_layer]
    rounded = np.floor(candidates + rng.random(candidates.shape)).astype(np.int64)
    missing = min(max(0, round(size - float(whole_layers.sum()))), int(rounded.sum()))
    drawn = rng.multivariate_hypergeometric(rounded.ravel(), missing, method="marginals")
    return whole_layers + drawn.reshape(candidates.shape)


def divergence(target: NDArray[np.float64], text: NDArray[np.float64]) -> float:
    """KL(target || text), in nats, of two bags of n-grams (Xie et al. 2023, section 4)."""
    # The text's distribution is smoothed as in `dsir`; the target's is not. A shorter text lacks
    # more n-grams by chance, so only texts of equal size can be compared (see `reduction`).
    total = target.sum()
    if not total:
        return 0.0
    q = text / max(1.0, text.sum()) + FEATURES.smoothing
    q /= q.sum()
    p = target / total
    seen = p > 0
    return float(np.sum(p[seen] * np.log(p[seen] / q[seen])))


@dataclass(frozen=True, eq=False)
class TaskNgrams:
    """The distinct n-grams of the task's texts, and their counts."""

    times: NDArray[np.int64]  # int64 [n], occurrences of each
    keys: NDArray[np.uint64]  # with `places` a hash table, made by `kernels/grams.py`
    places: NDArray[np.int32]

    @classmethod
    def of(cls, texts: Texts) -> TaskNgrams:
        distinct, counts = np.unique(np.concatenate(_ngrams_by_order(texts)), return_counts=True)
        return cls(counts, *grams.table_of(distinct))

    def seen_in(self, texts: Texts) -> NDArray[np.bool_]:
        """Which of the n-grams occur in these texts, bool [n]."""
        seen = np.zeros(len(self.times), np.bool_)
        for each in _ngrams_by_order(texts):
            places = grams.find_each(self.keys, self.places, each)
            seen[places[places >= 0]] = True
        return seen

    def share(self, seen: NDArray[np.bool_]) -> float:
        """Share of the task's n-gram occurrences whose n-gram was seen."""
        return float(self.times[seen].sum() / max(1, self.times.sum()))


def _ngrams_by_order(texts: Texts) -> list[NDArray[np.uint64]]:
    """Ids of the n-grams of texts, uint64 [m], for each order from 1."""
    return [ngrams(texts, order)[0] for order in range(1, FEATURES.order + 1)]


@dataclass(frozen=True)
class Reduction:
    """DSIR's KL reduction of a selection."""

    raw: float  # KL(task || corpus), in nats
    selected: float  # KL(task || selected text), in nats
    size: int  # number of n-grams sampled from each of corpus and selection
    falls: float  # KL reduction, `raw` - `selected`, in nats
    noise: float  # standard error of `raw` (jackknife over parts of the corpus sample)
    # share of the task's n-gram occurrences whose n-gram is in the selected text; it grows with the
    # size of the selection
    covered: float

    @property
    def apart(self) -> float:
        """Largest difference between two KL reductions that noise explains, in nats."""
        return _NOISE_BAND * 2**0.5 * self.noise

    @property
    def sure(self) -> bool:
        return self.falls > self.apart


def reduction(
    target: NDArray[np.float64],
    sample: NDArray[np.float64],
    selected: NDArray[np.float64],
    covered: float,
    size: int,
) -> Reduction:
    """The KL reduction of a selection.

    Reference: Xie et al. (2023), Data Selection for Language Models via Importance Resampling
    (arXiv 2302.03169), sections 3 and 4: over selections, r = 0.82 with the score after training.
    """
    # KL compares words, not meaning. More text, or longer texts, contain more n-grams by chance
    # alone, so samples of equal size are compared: whole texts, then n-grams of further texts.
    parts = _subsample(sample, size)
    whole = np.sum(parts, axis=0)
    raw = divergence(target, whole)
    kl_selected = divergence(target, _subsample(selected[None], size)[0])
    leave_one_out = [divergence(target, whole - part) for part in parts]
    jackknife_error = float(np.std(leave_one_out) * (len(parts) - 1) ** 0.5)
    return Reduction(raw, kl_selected, size, raw - kl_selected, jackknife_error, covered)


@dataclass(frozen=True)
class GainPredictors:
    """Predictors of the gain from adapting on one selection, known before training."""

    data: str  # folder of the selection
    method: str  # selection method
    task: str  # fingerprint of the target's texts
    texts: int  # number of selected segments
    kl: Reduction  # KL reduction of the selected text
    # the base model's mean loss per predicted token, in nats, on text of the `task` and on
    # `general` text, a sample of the corpus; without `task` if its texts no longer exist
    losses: dict[str, float]


def describe(prospects: Sequence[GainPredictors], model: str) -> list[str]:
    """Describe the predictors of selections, in sentences.

    Reference: Xie et al. (2023), Data Selection for Language Models via Importance Resampling
    (arXiv 2302.03169), section 4; TADPOLE, section 3 and Figure 3.
    """
    # No value of a predictor is known to imply a gain, so no value is called high enough; a KL
    # reduction within the noise of the corpus sample is reported as none.
    sentences = []
    for p in prospects:
        kl = p.kl
        precision = f"(± {kl.noise:.3f} from sampling the corpus; {kl.size:,} n-grams compared)"
        if kl.sure:
            sentences.append(
                f"{p.data} ({p.method}): KL reduction of {kl.falls:.3f} of {kl.raw:.3f} nats "
                f"between the n-grams of task and corpus, {kl.falls / kl.raw:.0%} (higher is "
                f"nearer to the task) {precision}."
            )
        else:
            sentences.append(
                f"{p.data} ({p.method}): no KL reduction beyond noise: {kl.falls:+.3f} of "
                f"{kl.raw:.3f} nats between the n-grams of task and corpus {precision}."
            )
    tasks: dict[str, list[GainPredictors]] = {}
    for p in prospects:
        tasks.setdefault(p.task, []).append(p)
    if len(tasks) > 1:
        sentences.append("Selections for different tasks are not compared with each other.")
    for same_task in tasks.values():
        # the losses depend on task and corpus alone: report them once per corpus
        by_losses = {tuple(p.losses.values()): p for p in reversed(same_task)}
        for p in reversed(by_losses.values()):
            if "task" not in p.losses:
                sentences.append(
                    f"The task's texts no longer exist, so the loss of {model} on them is unknown."
                )
                continue
            task, general = p.losses["task"], p.losses["general"]
            side = "above" if task > general else "below"
            sentences.append(
                f"Loss of {model} per token: {task:.2f} nats on the task's text, "
                f"{abs(task - general):.2f} nats {side} the corpus ({general:.2f} nats)."
            )
        best, *others = sorted(same_task, key=lambda p: -p.kl.falls)
        for p in others:
            if not best.kl.sure:
                text = (
                    f"{p.data} and {best.data}: no difference; neither reduces the KL beyond noise."
                )
            elif best.kl.falls - p.kl.falls <= best.kl.apart:
                text = f"{p.data} and {best.data}: no difference beyond noise in KL reduction."
            elif not p.kl.sure:
                text = f"{p.data} ranks below {best.data}: it does not reduce the KL beyond noise."
            else:
                share = p.kl.falls / best.kl.falls
                text = f"{p.data} ranks below {best.data}: {share:.0%} of its KL reduction."
            sentences.append(text)
    sentences.append(
        "These predictors do not show that adapting helps: they are word counts and losses before "
        "training. Over selections, KL reduction correlated with the score in DSIR (r = 0.82), and "
        "the loss on the task's text in TADPOLE (Figure 3). Check their correlation on your tasks "
        "with a recipe (corpusfit run), and the gain of one selection with fine-tuning (corpusfit "
        "evaluate)."
    )
    return sentences


# Of selected texts: their number, n-grams by `layers`, and which n-grams of the task they have.
_Counts = tuple[int, NDArray[np.float64], NDArray[np.bool_]]


@dataclass(frozen=True)
class CountSelected(Job[Range, _Counts]):
    """Count the n-grams of some of the text of a selection."""

    target: Sample  # the task's texts
    field: str  # text field
    weighted: bool  # weight segments, for a selection of all segments

    def start(self) -> Callable[[Range], _Counts]:
        task_ngrams = TaskNgrams.of(self.target.batch("text"))

        def work(part: Range) -> _Counts:
            _, (texts,), weights = read_selected(part, (self.field,), "weight")
            batch = text_array(texts)
            counts = layers(batch, weights.astype(np.float64) if self.weighted else None)
            return len(texts), counts, task_ngrams.seen_in(batch)

        return work


@dataclass(frozen=True)
class Forecast:
    """Predictors of the gain of adapting a model.

    Attributes:
        objective: training objective of the losses.
        length: tokens per sequence of the losses.
        prospects: one per selection, in the order of the inputs.
        words: the result in sentences.
    """

    model: str
    objective: str
    length: int
    prospects: list[GainPredictors]
    words: list[str]


def forecast(plan: AdaptPlan, data: Sequence[str], *, machine: Machine) -> Forecast:
    """Measure the predictors of the gain; writes nothing but token ids to the cache.

    It compares the n-grams of the task, of a sample of the corpus and of the selected text, and
    measures the base model's loss on the first two, in seconds. The losses are those that `adapt`
    reports before it trains, except that they include general text that `adapt` would train on.

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
    require_extra("corpusfit forecast", "models")
    with contextlib.ExitStack() as stack, machine.running() as context:
        for name in data:
            if "://" not in name:
                work = SelectionFolder(user_path(name)).work
                stack.enter_context(locked(work, "forecast", shared=True))
        selections = [_open_selection(name, plan, context) for name in data]
        samples: dict[str, Sample] = {}  # the first stored sample of each corpus
        for selection in selections:
            if selection.sample.texts.exists():
                samples.setdefault(selection.corpus, selection.sample)
        for selection in selections:
            if selection.corpus not in samples:
                raise InputError(
                    f"`data={selection.name}` keeps no sample of its corpus to compare with. Add a "
                    "selection from the same corpus by a method that reads text."
                )

        # the losses depend on task and corpus alone: measure them once for each pair
        measure_losses, length = _loss_meter(plan, AdaptFolder(context.work), context)
        losses: dict[tuple[str, str], dict[str, float]] = {}
        for selection in selections:
            key = selection.task, selection.corpus
            if key not in losses:
                losses[key] = measure_losses(selection.inputs, samples[selection.corpus])

        # count the n-grams of the task, of the corpus [PARTS, LAYERS, buckets] and of the selection
        counts = []
        for selection in selections:
            general = samples[selection.corpus].batch("text")
            texts, selected, covered = _count_selection(selection, context)
            parts = [
                layers(take_texts(general, np.arange(k, len(general), PARTS))) for k in range(PARTS)
            ]
            target = count(selection.target.batch("text"))
            counts.append((target, np.stack(parts), texts, selected, covered))

    # compare samples of equal size: of the smallest corpus sample or selection
    size = min(int(c.sum()) for _, parts, _, selected, _ in counts for c in (parts, selected))
    prospects = [
        GainPredictors(
            selection.name,
            selection.manifest["method"]["name"],
            selection.task,
            texts,
            reduction(target, parts, selected, covered, size),
            losses[selection.task, selection.corpus],
        )
        for selection, (target, parts, texts, selected, covered) in zip(
            selections, counts, strict=True
        )
    ]
    name = plan.model.name
    return Forecast(name, plan.objective.name, length, prospects, describe(prospects, name))


@dataclass(frozen=True)
class _Selection:
    name: str
    inputs: TrainingInputs
    manifest: dict[str, Any]
    target: Sample
    sample: Sample
    task: str  # fingerprint
    corpus: str  # fingerprint


def _open_selection(name: str, plan: AdaptPlan, context: RunContext) -> _Selection:
    """Open a selection; raises `UsageError` for data of another kind."""
    inputs = find_training_inputs([name], (), (), plan.read, context)
    if inputs.folder is None or inputs.selection is None:
        cure = "Run corpusfit select first; forecast needs the target and corpus sample it stores."
        raise bad_setting("`data`", "the folder of a corpusfit select", name, cure)
    fit = SelectionFolder(inputs.folder).fit
    target = Sample(fit, "target")
    corpus = digest(source_identity([Source(**s) for s in inputs.selection["corpus"]]))
    task = digest(target.read_texts())
    sample = Sample(fit, "background")
    return _Selection(name, inputs, inputs.selection, target, sample, task, corpus)


def _count_selection(
    selection: _Selection, context: RunContext
) -> tuple[int, NDArray[np.float64], float]:
    """The selected texts, their n-grams, and the share of the task's n-grams they contain."""
    inputs = selection.inputs
    weighted = selection.manifest["plan"]["choose"]["policy"] == "continuous"
    job = CountSelected(selection.target, inputs.read.text_field, weighted)
    task_ngrams = TaskNgrams.of(selection.target.batch("text"))
    texts, counts = 0, np.zeros((LAYERS, FEATURES.buckets))
    seen = np.zeros(len(task_ngrams.times), np.bool_)
    ranges = ranges_of(inputs.data)
    with context.progress.showing("count n-grams", len(ranges), "segments"):
        for of_part, counted, of_task in context.map(job, ranges):
            texts += of_part
            counts = counts + counted
            seen |= of_task
            context.progress.advance(0, of_part)
    return texts, counts, task_ngrams.share(seen)


def _loss_meter(
    plan: AdaptPlan, folder: AdaptFolder, context: RunContext
) -> tuple[Callable[[TrainingInputs, Sample], dict[str, float]], int]:
    """A function that measures the base model's losses as `adapt` does; the sequence length."""
    hardware = resolve(plan.train, "train")
    opened = open_model(
        plan.model,
        plan.objective.name,
        attention=hardware.attention,
        seed=plan.seed,
        on_warn=context.progress.warn,
    )
    model = opened.model.to(hardware.device)
    backend = backend_tokenizer(opened.tokenizer, opened.name)
    write_bytes(folder.tokenizer, backend.to_str().encode())
    end = opened.special.end if plan.objective.name == "causal" else None
    # token ids are memory-mapped, so they must be local
    token_cache = (context.cache if is_local(context.cache) else folder.work) / "tokens"
    length = length_of(plan, opened.max_length, hardware.device)
    network = Network(Predictor(model), model, None, hardware.precision)
    rows = max(1, hardware.batch_tokens // length)
    tokenising = Tokenising(plan.read, folder.tokenizer, token_cache, end, context)

    def losses(inputs: TrainingInputs, sample: Sample) -> dict[str, float]:
        """Mean loss per predicted token, in nats, on the task's text and on general text."""
        method = objective(plan.objective, opened.special)
        tokenised = {}
        if inputs.task:
            task_tokenising = replace(tokenising, read=inputs.task_read)
            tokenised["task"] = task_tokenising.corpus(TASK, inputs.task)
        tokenised["general"] = tokenising.texts("general", sample.read_texts(), folder.general)
        heldout = {}
        for kind, (tokens, _) in tokenised.items():
            weights = np.ones(len(tokens), np.float32)
            chunks = cut_chunks(tokens.lengths, weights, length - method.overhead())
            _, drawn = split_heldout(chunks, tokens.keys, plan.mix.heldout, plan.seed, 1.0)
            heldout[kind] = tokens, drawn
        return Heldout.of(heldout, method, rows=rows, seed=plan.seed).losses(method, network)

    return losses, length
