"""Probe a frozen model: logistic regression on its states.

What: a text is the mean of its last states, a word of a tagged sentence the state of its first
token; a multinomial logistic regression learns their labels.
Why: nothing of the model is trained, so a score takes seconds and varies little: most of what a
fine-tuning's seeds change (head, order, dropout) is not there. What is left is which examples the
task happens to have; several probes of one model learn from bootstrap samples of them.
Trade-off: a probe can only use what the states already show; fine-tuning can change them.
Reference: Conneau and Kiela (2018), SentEval; Efron (1979), bootstrap.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.engine import report
from corpusfit.core.plan import EmbedPlan
from corpusfit.core.types import Vectors
from corpusfit.embed.folders import ModelSetting, find, read_pooling
from corpusfit.embed.hardware import resolve
from corpusfit.embed.transformer import TransformerEncoder, load_transformer, token_batches
from corpusfit.evaluation.encoding import NOWHERE, Encoded, encode
from corpusfit.evaluation.learned import load_learned
from corpusfit.evaluation.network import MODEL_TO_EVALUATE
from corpusfit.evaluation.plan import EvaluatePlan
from corpusfit.evaluation.task import Examples, Outcome, Task, load_task
from corpusfit.evaluation.tasks import load
from corpusfit.training.special_tokens import SpecialTokens, backend_tokenizer, special_tokens_of

# Inverse strengths C of the L2 penalty, on features of variance 1; from the strongest penalty
# until the loss on dev has risen twice.
_STRENGTHS = tuple(10.0 ** (e / 2) for e in range(-9, 5))
_MAX_ITERATIONS = 5_000
_MOST_PIECES = 20_000  # training texts or words; more hardly change a probe, and cost time
_LIKELIHOOD_FLOOR = 1e-6  # of a label, which may not be among those of train
_FITTING = 0.3  # share of the progress that is left when all texts are encoded


@dataclass(frozen=True)
class Probes:
    """The probes of one model."""

    task: Path  # written by `store_task`
    plan: EvaluatePlan
    size: int  # number of training examples, sampled with the plan's seed; 0 for all
    # the outcome's file of each bootstrap sample of the training examples; sample `WHOLE` is all
    outs: dict[int, Path]
    setting: ModelSetting = MODEL_TO_EVALUATE  # that names the model, for messages


WHOLE = -1


def run_probes(piece: Probes) -> Path:
    """Probe a model on one or several samples of the training examples."""
    task = load_task(piece.task)
    if piece.size:
        task = task.first(piece.size, piece.plan.seed)
    resamples = list(piece.outs)
    outcomes = probe(task, piece.plan, resamples, setting=piece.setting, on_share=report)
    for out, outcome in zip(piece.outs.values(), outcomes, strict=True):
        outcome.write(out)
    return next(iter(piece.outs.values()))


def probe(
    task: Task,
    plan: EvaluatePlan,
    resamples: list[int],
    *,
    setting: ModelSetting = MODEL_TO_EVALUATE,
    on_share: Callable[[float], None] = lambda _: None,
) -> list[Outcome]:
    """Probe a frozen model, once for each bootstrap sample of the training examples.

    Args:
        task: the task.
        plan: the model, and the length, precision and device of `finetune`.
        resamples: numbers of bootstrap samples of the training examples; `WHOLE` is all of them.
        setting: how errors name the setting of the model.
        on_share: called with the share of the work that is done.

    Returns:
        The outcome of each sample.
    """
    started = time.perf_counter()
    cpu_started = time.process_time()
    features = Features.of(task, plan, setting, on_share)
    # chosen once, with all training examples, so that the samples differ by their examples alone
    history, best, whole = choose_strength(features)
    shared = time.perf_counter() - started
    cpu_shared = time.process_time() - cpu_started
    measure = load(task.kind).measure
    train = features.splits["train"]
    outcomes = []
    for number, resample in enumerate(resamples, 1):
        model = whole
        began = time.perf_counter()
        cpu_began = time.process_time()
        if resample != WHOLE:
            rng = np.random.default_rng([plan.seed, resample])
            times = np.bincount(rng.integers(0, len(train), len(train)), minlength=len(train))
            model = features.fitted(history[best - 1]["c"], times)
        answers = {split: features.answers(model, split) for split in ("dev", "test")}
        outcomes.append(
            Outcome(
                size=len(task.train),
                seed=max(resample, 0),
                scores={
                    split: measure(task.labels, features.splits[split], answered)
                    for split, answered in answers.items()
                },
                predicted={split: answered.tolist() for split, answered in answers.items()},
                history=history,
                best=best,
                tune={
                    "length": features.length,
                    "examples": len(train),
                    "bootstrap": resample != WHOLE,
                    **resolve(plan.finetune, "finetune")._asdict(),
                },
                truncated=features.truncated,
                # each has its part of the time of the states, and its own
                seconds=round(shared / len(resamples) + time.perf_counter() - began, 3),
                cpu_seconds=round(cpu_shared / len(resamples) + time.process_time() - cpu_began, 3),
                examples_per_second=features.examples_per_second,
            )
        )
        on_share(1 - _FITTING * (1 - number / len(resamples)))
    return outcomes


@dataclass(frozen=True, eq=False)
class Features:
    """The states of a frozen model for the n texts or words of each split, with their labels."""

    splits: dict[str, Examples]  # of train, those that a probe learns from
    states: dict[str, NDArray[Any]]  # [n, width], of one scale; 0 without a token
    placed: dict[str, NDArray[np.bool_]]  # bool [n], which have a token
    labels: int  # number of labels of the task
    truncated: dict[str, int]  # number of truncated examples
    length: int  # most tokens of a text
    examples_per_second: float

    @classmethod
    def of(
        cls,
        task: Task,
        plan: EvaluatePlan,
        setting: ModelSetting = MODEL_TO_EVALUATE,
        on_share: Callable[[float], None] = lambda _: None,
    ) -> Features:
        """Open the model and encode all texts."""
        kind = load_learned(task.kind)
        encoder, special, length = open_encoder(plan, setting)
        # the first pass loads kernels and allocates, which the measured speed must not include
        encoder.encode(task.train.take([0]).texts())
        started = time.perf_counter()
        train = task.train.take(learned_from(task.train, plan.seed))
        splits = {"train": train, "dev": task.dev, "test": task.test}
        total = sum(map(len, splits.values()))
        done = 0.0

        def count(examples: float) -> None:
            nonlocal done
            done += examples
            on_share(min(1.0, done / total) * (1 - _FITTING))

        backend = backend_tokenizer(encoder.tokenizer, encoder.name, setting.name)
        states: dict[str, Vectors] = {}
        truncated: dict[str, int] = {}
        for split, examples in splits.items():
            encoded = encode(examples, task.kind, backend, special, length)
            truncated[split] = int(encoded.truncated.sum())
            if kind.probes == "text":
                states[split] = encoder.encode_ids([ids.tolist() for ids in encoded.ids], count)
            else:
                states[split] = _word_states(encoder, encoded, count)
        seconds = time.perf_counter() - started
        # a word without a token, such as one behind the length, is not learned from
        placed = {split: ~np.isnan(x[:, 0]) for split, x in states.items()}
        # models differ in the scale of their states, and the optimizer needs features of one scale
        mean, deviation = (of(states["train"][placed["train"]], 0) for of in (np.mean, np.std))
        scaled: dict[str, NDArray[Any]] = {
            split: np.nan_to_num((x - mean) / np.maximum(deviation, 1e-6))
            for split, x in states.items()
        }
        scaled["train"] = scaled["train"].astype(np.float64)
        speed = round(total / max(seconds, 1e-9), 3)
        return cls(splits, scaled, placed, len(task.labels), truncated, length, speed)

    def fitted(self, strength: float, times: NDArray[np.int64] | None = None) -> Any:
        """A classifier of the training examples, each counted once or `times` [examples]."""
        from sklearn.dummy import DummyClassifier
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression

        train = self.splits["train"]
        weights = None if times is None else np.repeat(times, train.lengths)
        kept = self.placed["train"] if weights is None else self.placed["train"] & (weights > 0)
        labels = train.flat[kept]
        if len(np.unique(labels)) == 1:  # a few training examples can share one label
            return DummyClassifier().fit(self.states["train"][kept], labels)
        model = LogisticRegression(C=strength, max_iter=_MAX_ITERATIONS)
        with warnings.catch_warnings():
            # the optimizer's last step is still the best model that it has found
            warnings.simplefilter("ignore", ConvergenceWarning)
            return model.fit(
                self.states["train"][kept], labels, None if weights is None else weights[kept]
            )

    def likelihoods(self, model: Any, split: str) -> NDArray[np.float64]:
        """float64 [n, labels]: how likely each label is by a classifier."""
        states = self.states[split]
        whole = np.full((len(states), self.labels), _LIKELIHOOD_FLOOR)
        whole[:, model.classes_] = np.maximum(_LIKELIHOOD_FLOOR, model.predict_proba(states))
        return whole

    def answers(self, model: Any, split: str) -> NDArray[np.int32]:
        """int32 [n]: a classifier's labels; those without a token have that of fine-tuning."""
        likeliest = self.likelihoods(model, split).argmax(1)
        return np.where(self.placed[split], likeliest, 0).astype(np.int32)

    def dev_loss(self, model: Any) -> float:
        """The mean negative log-likelihood of the labels of dev, in nats."""
        placed = self.placed["dev"]
        of_gold = self.likelihoods(model, "dev")[placed, self.splits["dev"].flat[placed]]
        return float(-np.log(of_gold).mean())


def choose_strength(features: Features) -> tuple[list[dict[str, float]], int, Any]:
    """The penalties that were tried, the number of the best from 1, and its classifier."""
    # by the loss on dev, which varies less than a score
    history: list[dict[str, float]] = []
    best = 0
    whole: Any = None
    lowest = np.inf
    rises = 0
    for strength in _STRENGTHS:
        model = features.fitted(strength)
        loss = features.dev_loss(model)
        history.append({"c": strength, "dev_loss": round(loss, 6)})
        if loss < lowest:
            lowest = loss
            rises = 0
            whole = model
            best = len(history)
        elif (rises := rises + 1) == 2:
            break
    return history, best, whole


def learned_from(train: Examples, seed: int) -> list[int]:
    """The training examples that a probe learns from: a sample of all, if they are many."""
    order = np.random.default_rng(seed).permutation(len(train))
    used = np.cumsum(train.lengths[order]) <= max(_MOST_PIECES, train.lengths[order[0]])
    return [int(i) for i in np.sort(order[used])]


def _word_states(
    encoder: TransformerEncoder, encoded: Encoded, count: Callable[[float], None]
) -> Vectors:
    """float32 [words, width]: the last state of each word's first token; NaN without a token."""
    import torch

    width = int(encoder.dim)
    states: list[Vectors] = [np.empty((0, width), np.float32)] * len(encoded)
    for batch in token_batches(encoded.lengths, encoder.batch_tokens, pads=encoder.pads):
        rows = [torch.from_numpy(encoded.ids[i].astype(np.int64)) for i in batch]
        tokens = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        real = torch.from_numpy(encoded.lengths[batch])[:, None]
        mask = (torch.arange(tokens.shape[1]) < real).long()
        device = encoder.model.device
        with torch.inference_mode():
            output = encoder.model(input_ids=tokens.to(device), attention_mask=mask.to(device))
        last = output.last_hidden_state.float().cpu().numpy()
        for row, number in enumerate(batch):
            places = encoded.places[number]
            states[number] = np.where((places == NOWHERE)[:, None], np.nan, last[row, places])
        count(len(batch))
    return np.concatenate(states)


def open_encoder(
    plan: EvaluatePlan, setting: ModelSetting = MODEL_TO_EVALUATE
) -> tuple[TransformerEncoder, SpecialTokens, int]:
    """The encoder of a plan, its special tokens, and the maximum number of tokens of a text."""
    name = plan.model.name
    settings = plan.finetune
    folder = find(name, setting=setting)
    pooling = read_pooling(folder, "", setting)
    embed = EmbedPlan(name, pooling.mode, precision=settings.precision, device=settings.device)
    encoder = load_transformer(folder, embed, name)
    vocabulary_size = encoder.model.get_input_embeddings().weight.shape[0]
    special = special_tokens_of(encoder.tokenizer, name, vocabulary_size, setting.name)
    length = min(settings.length or encoder.max_length, encoder.max_length)
    return encoder, special, length
