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
from corpusfit.embed.folders import find, read_pooling
from corpusfit.embed.hardware import resolve
from corpusfit.embed.transformer import TransformerEncoder, load_transformer, token_batches
from corpusfit.evaluation.encoding import NOWHERE, Encoded, encode
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
    size: int  # number of training examples, drawn with the plan's seed; 0 for all
    # the outcome's file of each draw of the training examples; draw `WHOLE` is of all of them
    outs: dict[int, Path]


WHOLE = -1


def run_probes(piece: Probes) -> Path:
    """Probe a model on one or several samples of the training examples."""
    task = load_task(piece.task)
    if piece.size:
        task = task.first(piece.size, piece.plan.seed)
    outcomes = probe(task, piece.plan, list(piece.outs), on_share=report)
    for out, outcome in zip(piece.outs.values(), outcomes, strict=True):
        outcome.write(out)
    return next(iter(piece.outs.values()))


def probe(
    task: Task,
    plan: EvaluatePlan,
    draws: list[int],
    *,
    on_share: Callable[[float], None] | None = None,
) -> list[Outcome]:
    """Probe a frozen model, once for each draw of the training examples.

    Args:
        task: the task.
        plan: the model, and the length, precision and device of `finetune`.
        draws: numbers of bootstrap samples of the training examples; `WHOLE` is all of them.
        on_share: called with the share of the work that is done.

    Returns:
        The outcome of each draw.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    started = time.perf_counter()
    cpu_started = time.process_time()
    task_type = load(task.kind)
    encoder, special, length = open_encoder(plan)
    # the first pass loads kernels and allocates, which the measured speed must not include
    encoder.encode(task.train.take([0]).texts())
    encoding_started = time.perf_counter()
    train = task.train.take(learned_from(task.train, plan.seed))

    splits = {"train": train, "dev": task.dev, "test": task.test}
    total = sum(map(len, splits.values()))
    done = 0.0

    def count(examples: float) -> None:
        nonlocal done
        done += examples
        if on_share is not None:
            on_share(min(1.0, done / total) * (1 - _FITTING))

    backend = backend_tokenizer(encoder.tokenizer, encoder.name)
    states: dict[str, Vectors] = {}
    truncated: dict[str, int] = {}
    for split, examples in splits.items():
        encoded = encode(examples, task.kind, backend, special, length)
        truncated[split] = int(encoded.truncated.sum())
        if task_type.probes == "text":
            states[split] = encoder.encode_ids([ids.tolist() for ids in encoded.ids], count)
        else:
            states[split] = _word_states(encoder, encoded, count)
    encoding_seconds = time.perf_counter() - encoding_started
    # a word without a token, such as one behind the length, is not learned from
    placed = {split: ~np.isnan(x[:, 0]) for split, x in states.items()}
    # models differ in the scale of their states, and the optimizer needs features of one scale
    mean, deviation = (of(states["train"][placed["train"]], 0) for of in (np.mean, np.std))
    scaled = {
        split: np.nan_to_num((x - mean) / np.maximum(deviation, 1e-6))
        for split, x in states.items()
    }
    scaled["train"] = scaled["train"].astype(np.float64)
    gold = {split: examples.flat for split, examples in splits.items()}
    example_of_piece = np.repeat(np.arange(len(train)), train.lengths)

    def fitted(strength: float, times: NDArray[np.int64] | None) -> Any:
        """A classifier of the training examples, each counted so many times."""
        weights = None if times is None else times[example_of_piece]
        kept = placed["train"] if weights is None else placed["train"] & (weights > 0)
        labels = gold["train"][kept]
        if len(np.unique(labels)) == 1:  # a few training examples can share one label
            from sklearn.dummy import DummyClassifier

            return DummyClassifier().fit(scaled["train"][kept], labels)
        model = LogisticRegression(C=strength, max_iter=_MAX_ITERATIONS)
        with warnings.catch_warnings():
            # the optimizer's last step is still the best model that it has found
            warnings.simplefilter("ignore", ConvergenceWarning)
            return model.fit(
                scaled["train"][kept], labels, None if weights is None else weights[kept]
            )

    def likelihoods(model: Any, split: str) -> NDArray[np.float64]:
        """float64 [pieces, labels]: how likely each label is."""
        whole = np.full((len(gold[split]), len(task.labels)), _LIKELIHOOD_FLOOR)
        whole[:, model.classes_] = np.maximum(_LIKELIHOOD_FLOOR, model.predict_proba(scaled[split]))
        return whole

    # The penalty with the lowest loss on dev, which varies less than a score. It is chosen once,
    # with all training examples, so that the draws differ by their examples alone.
    history: list[dict[str, Any]] = []
    lowest = np.inf
    rises = 0
    whole: Any = None
    for strength in _STRENGTHS:
        model = fitted(strength, None)
        of_dev = likelihoods(model, "dev")
        of_gold = of_dev[placed["dev"], gold["dev"][placed["dev"]]]
        loss = float(-np.log(of_gold).mean())
        history.append({"c": strength, "dev_loss": round(loss, 6)})
        if loss < lowest:
            lowest = loss
            rises = 0
            whole = model
            best = len(history)
        elif (rises := rises + 1) == 2:
            break

    shared = time.perf_counter() - started
    cpu_shared = time.process_time() - cpu_started
    outcomes = []
    for number, draw in enumerate(draws, 1):
        model = whole
        began = time.perf_counter()
        cpu_began = time.process_time()
        if draw != WHOLE:
            rng = np.random.default_rng([plan.seed, draw])
            times = np.bincount(rng.integers(0, len(train), len(train)), minlength=len(train))
            model = fitted(history[best - 1]["c"], times)
        answers = {  # a piece without a token has the answer that fine-tuning gives it
            split: np.where(placed[split], likelihoods(model, split).argmax(1), 0).astype(np.int32)
            for split in ("dev", "test")
        }
        outcomes.append(
            Outcome(
                size=len(task.train),
                seed=max(draw, 0),
                scores={
                    split: task_type.measure(task.labels, splits[split], answered)
                    for split, answered in answers.items()
                },
                predicted={split: answered.tolist() for split, answered in answers.items()},
                history=history,
                best=best,
                tune={
                    "length": length,
                    "examples": len(train),
                    "bootstrap": draw != WHOLE,
                    **resolve(plan.finetune, "finetune")._asdict(),
                },
                truncated=truncated,
                # each has its part of the time of the states, and its own
                seconds=round(shared / len(draws) + time.perf_counter() - began, 3),
                cpu_seconds=round(cpu_shared / len(draws) + time.process_time() - cpu_began, 3),
                examples_per_second=round(total / max(encoding_seconds, 1e-9), 3),
            )
        )
        if on_share is not None:
            on_share(1 - _FITTING * (1 - number / len(draws)))
    return outcomes


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


def open_encoder(plan: EvaluatePlan) -> tuple[TransformerEncoder, SpecialTokens, int]:
    """The encoder of a plan, its special tokens, and the maximum number of tokens of a text."""
    name = plan.model.name
    settings = plan.finetune
    folder = find(name, setting=MODEL_TO_EVALUATE)
    pooling = read_pooling(folder, "", MODEL_TO_EVALUATE)
    embed = EmbedPlan(name, pooling.mode, precision=settings.precision, device=settings.device)
    encoder = load_transformer(folder, embed, name)
    vocabulary_size = encoder.model.get_input_embeddings().weight.shape[0]
    special = special_tokens_of(encoder.tokenizer, encoder.name, vocabulary_size)
    length = min(settings.length or encoder.max_length, encoder.max_length)
    return encoder, special, length
