"""`forecast`: KL reduction of selections, and the loss of a model before adaptation."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from os import PathLike

import numpy as np
from numpy.typing import NDArray

import corpusfit
from corpusfit.contracts import (
    EmbedPlan,
    InputError,
    ModelSetting,
    Predictor,
    Texts,
    as_texts,
    bad_setting,
    find_each,
    ngrams,
    place_keys,
    position_limit,
    resolve,
    table_of,
    token_batches,
)
from corpusfit_papers.network import (
    Row,
    batch_tokens,
    language_model_folder,
    open_language_model,
    padding,
    row_losses,
)
from corpusfit_papers.retrieving import listed

MODEL = ModelSetting(
    name="`model`",
    allowed="a model folder or a Hugging Face hub id of a masked or causal language model",
    otherwise="leave the command out: nothing else needs it",
    extra="models",
)
# n-grams as in the method `dsir`
ORDER = 2
BUCKETS = 10_000
SMOOTHING = 1e-5
PARTS = 16  # parts of the corpus sample, for a jackknife estimate of its noise
# random layers of texts: each has about a sixth of the texts not in earlier ones, the last the rest
LAYERS = 48
MASKED = 0.15  # share of the tokens that a masked model predicts
SEQUENCES = 256  # most of each kind of text that the loss is measured on
_TEXTS = 10_000  # selected texts that are counted together
_NOISE_BAND = 2.0  # standard errors
_LAYERS_PER_HALVING = 4  # this many layers hold half of the texts not in earlier layers
_LAYER_STREAM = 2**43  # stream of random numbers that assigns texts to layers
_HALF = np.uint64(32)


def count(texts: Texts, weights: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """Number of n-grams in each hash bucket."""
    counts = np.zeros(BUCKETS)
    for order in range(1, ORDER + 1):
        ids, ends = ngrams(texts, order)
        # the identity's upper half, scaled to the number of buckets
        buckets = ((ids >> _HALF) * np.uint64(BUCKETS)) >> _HALF
        weight_of_ngrams = None if weights is None else np.repeat(weights, np.diff(ends))
        counts += np.bincount(buckets.astype(np.int64), weight_of_ngrams, BUCKETS)
    return counts


def layers(
    texts: Texts, weights: NDArray[np.float64] | None = None, stream: int = 0
) -> NDArray[np.float64]:
    """Count n-grams in each of `LAYERS` random layers of texts: float64 [LAYERS, buckets]."""
    # A text's layer is random, by its position. All layers from any one on are a random sample of
    # the texts, so `_subsample` can sample n-grams of nearly any number of whole texts.
    keys = place_keys(stream, _LAYER_STREAM, len(texts))
    uniforms = ((keys >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53  # in (0, 1)
    layer_of_text = np.minimum(-np.log2(uniforms) * _LAYERS_PER_HALVING, LAYERS - 1).astype(
        np.int64
    )
    if weights is None:
        weights = np.ones(len(texts))
    members = [np.flatnonzero(layer_of_text == layer) for layer in range(LAYERS)]
    return np.stack([count(texts.take(indices), weights[indices]) for indices in members])


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
    sampled = rng.multivariate_hypergeometric(rounded.ravel(), missing, method="marginals")
    return whole_layers + sampled.reshape(candidates.shape)


def divergence(target: NDArray[np.float64], text: NDArray[np.float64]) -> float:
    """KL(target || text), in nats, of two bags of n-grams (Xie et al. 2023, section 4)."""
    # The text's distribution is smoothed as in `dsir`; the target's is not. A shorter text lacks
    # more n-grams by chance, so only texts of equal size can be compared (see `reduction`).
    total = target.sum()
    if not total:
        return 0.0
    q = text / max(1.0, text.sum()) + SMOOTHING
    q /= q.sum()
    p = target / total
    seen = p > 0
    return float(np.sum(p[seen] * np.log(p[seen] / q[seen])))


@dataclass(frozen=True, eq=False)
class TaskNgrams:
    """The distinct n-grams of the task's texts, and their counts."""

    times: NDArray[np.int64]  # int64 [n], occurrences of each
    keys: NDArray[np.uint64]  # with `places` a hash table, made by `table_of`
    places: NDArray[np.int32]

    @classmethod
    def of(cls, texts: Texts) -> TaskNgrams:
        """Those of some texts."""
        distinct, counts = np.unique(np.concatenate(_ngrams_by_order(texts)), return_counts=True)
        return cls(counts, *table_of(distinct))

    def seen_in(self, texts: Texts) -> NDArray[np.bool_]:
        """Which of the n-grams occur in these texts, bool [n]."""
        seen = np.zeros(len(self.times), np.bool_)
        for ids in _ngrams_by_order(texts):
            places = find_each(self.keys, self.places, ids)
            seen[places[places >= 0]] = True
        return seen

    def share(self, seen: NDArray[np.bool_]) -> float:
        """Share of the task's n-gram occurrences whose n-gram was seen."""
        return float(self.times[seen].sum() / max(1, self.times.sum()))


def _ngrams_by_order(texts: Texts) -> list[NDArray[np.uint64]]:
    """Ids of the n-grams of texts, uint64 [m], for each order from 1."""
    return [ngrams(texts, order)[0] for order in range(1, ORDER + 1)]


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
        """Whether it is more than noise explains."""
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
    # `general` text, a sample of the corpus
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
            task = p.losses["task"]
            general = p.losses["general"]
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


@dataclass(frozen=True)
class Forecast:
    """Predictors of the gain of adapting a model.

    Attributes:
        model: the model.
        objective: of the losses: `causal` or `mlm`, as the model is.
        length: most tokens per sequence of the losses.
        prospects: one per selection, in the order of the inputs.
        words: the result in sentences.
    """

    model: str
    objective: str
    length: int
    prospects: list[GainPredictors]
    words: list[str]


def forecast(
    *,
    data: str | PathLike[str] | Sequence[str],
    model: str | PathLike[str],
    length: int = 128,
    seed: int = 0,
) -> Forecast:
    """Compute predictors of the gain from selections; trains nothing and writes nothing.

    It compares the n-grams of the task, of a sample of the corpus and of the selected text, and
    measures the model's loss on the first two.

    Reference: Xie et al. (2023), section 4; TADPOLE, Figures 2 and 3.

    Args:
        data: folders of `select`, or what it returned.
        model: a masked or causal language model: a model folder or a Hugging Face hub id.
        length: most tokens of a sequence; a longer one has a lower loss.
        seed: of the sequences and masks of the loss.

    Returns:
        For each selection the KL reduction, the loss of the model on the task's text before
        training, and the conclusions in sentences.
    """
    selections = [_Selection(name) for name in listed("`data`", data)]
    samples: dict[str, list[str]] = {}  # the first stored sample of each corpus
    for selection in selections:
        if "corpus" in selection.samples:
            samples.setdefault(selection.corpus, selection.samples["corpus"])
    for selection in selections:
        if selection.corpus not in samples:
            raise InputError(
                f"`data={selection.name}` keeps no sample of its corpus to compare with. Add a "
                "selection from the same corpus by a method that reads text."
            )

    # the losses depend on task and corpus alone: measure them once for each pair
    measured = _Losses(str(model), length, seed)
    losses: dict[tuple[str, str], dict[str, float]] = {}
    for selection in selections:
        key = selection.task, selection.corpus
        if key not in losses:
            kinds = {"task": selection.samples["target"], "general": samples[selection.corpus]}
            losses[key] = {kind: measured.mean(texts) for kind, texts in kinds.items()}

    # count the n-grams of the task, of the corpus [PARTS, LAYERS, buckets] and of the selection
    counts = []
    for selection in selections:
        general = as_texts(samples[selection.corpus])
        parts = [layers(general.take(np.arange(k, len(general), PARTS))) for k in range(PARTS)]
        target = count(as_texts(selection.samples["target"]))
        counts.append((target, np.stack(parts), *_counted(selection)))

    # compare samples of equal size: of the smallest corpus sample or selection
    size = min(int(c.sum()) for _, parts, selected, _ in counts for c in (parts, selected))
    prospects = [
        GainPredictors(
            selection.name,
            selection.run.manifest["method"]["name"],
            selection.task,
            len(selection.run),
            reduction(target, parts, selected, covered, size),
            losses[selection.task, selection.corpus],
        )
        for selection, (target, parts, selected, covered) in zip(selections, counts, strict=True)
    ]
    name = str(model)
    objective = "causal" if measured.causal else "mlm"
    return Forecast(name, objective, measured.length, prospects, describe(prospects, name))


class _Losses:
    """A language model whose loss on texts is measured."""

    def __init__(self, name: str, length: int, seed: int) -> None:
        folder, self.causal = language_model_folder(name, MODEL)
        tokenizer, model = open_language_model(
            folder, self.causal, MODEL, seed=seed, user="corpusfit forecast"
        )
        device = resolve(EmbedPlan()).device
        self._predictor = Predictor(model.eval().requires_grad_(False).to(device))
        self._budget = batch_tokens(device)
        self.length = min(length, position_limit(model))
        self._tokenizer = tokenizer
        self._fill = padding(tokenizer)
        self._seed = seed
        self._special = list(tokenizer.all_special_ids)
        self._ordinary = np.setdiff1d(list(tokenizer.get_vocab().values()), self._special)

    def mean(self, texts: Sequence[str]) -> float:
        """Mean loss per predicted token in nats on random sequences of some texts."""
        import torch

        rng = np.random.default_rng(self._seed)
        sequences = [ids for text in texts for ids in self._sequences(text)]
        sampled = np.sort(rng.permutation(len(sequences))[:SEQUENCES])
        rows = [self._row(sequences[i], rng) for i in sampled]
        rows = [row for row in rows if len(row.labels)]
        lengths = np.array([len(row.ids) for row in rows], np.int64)
        total = 0.0
        with torch.inference_mode():
            for batch in token_batches(lengths, self._budget):
                losses = row_losses(self._predictor, [rows[i] for i in batch], self._fill)
                total += float(losses.double().sum())
        return total / max(1, sum(len(row.labels) for row in rows))

    def _sequences(self, text: str) -> Iterator[NDArray[np.int64]]:
        """The token ids of a text, in sequences of at most `length`."""
        end = self._tokenizer.eos_token_id if self.causal else None
        backend = self._tokenizer.backend_tokenizer
        backend.enable_truncation(self.length - (end is not None))
        backend.no_padding()
        encoding = backend.encode(text)
        parts = [list(part.ids) for part in (encoding, *encoding.overflowing)]
        if end is not None:
            parts[-1].append(end)
        yield from (np.array(ids, np.int64) for ids in parts)

    def _row(self, ids: NDArray[np.int64], rng: np.random.Generator) -> Row:
        """What a model predicts of a sequence: all that follows, or 15 % of the tokens as BERT."""
        if self.causal:
            at = np.arange(len(ids) - 1)
            return Row(0, ids, at, ids[1:])
        at = np.flatnonzero(~np.isin(ids, self._special) & (rng.random(len(ids)) < MASKED))
        hidden = ids.copy()
        fate = rng.random(len(at))
        hidden[at[fate < 0.8]] = self._tokenizer.mask_token_id
        other = at[(fate >= 0.8) & (fate < 0.9)]
        hidden[other] = rng.choice(self._ordinary, len(other))
        return Row(0, hidden, at, ids[at])


class _Selection:
    """A selection, and what tells whether another one is for the same task and corpus."""

    def __init__(self, name: str) -> None:
        run = corpusfit.open(name)
        if not isinstance(run, corpusfit.Selection):
            cure = "Run corpusfit select first; forecast needs the target and corpus sample it has."
            raise bad_setting("`data`", "the folder of a corpusfit select", name, cure)
        self.name = name
        self.run = run
        self.samples = run.samples()
        self.task = _digest(self.samples["target"])
        self.corpus = _digest([(s["name"], s["fingerprint"]) for s in run.manifest["corpus"]])


def _digest(values: Sequence[object]) -> str:
    return hashlib.blake2b(json.dumps(values).encode(), digest_size=16).hexdigest()


def _counted(selection: _Selection) -> tuple[NDArray[np.float64], float]:
    """The n-grams of a selection by layers, and the share of the task's n-grams it contains."""
    weighted = selection.run.manifest["plan"]["choose"]["policy"] == "continuous"
    task_ngrams = TaskNgrams.of(as_texts(selection.samples["target"]))
    counts = np.zeros((LAYERS, BUCKETS))
    seen = np.zeros(len(task_ngrams.times), np.bool_)
    selected = iter(selection.run)
    number = 0
    while some := list(islice(selected, _TEXTS)):
        texts = as_texts([text["text"] for text in some])
        weights = None
        if weighted:
            weights = np.array([text["weight"] for text in some], np.float32).astype(np.float64)
        counts += layers(texts, weights, stream=number)
        number += 1
        seen |= task_ngrams.seen_in(texts)
    return counts, task_ngrams.share(seen)
