"""Evaluate a model with one seed: fine-tuned, frozen with a classifier, or without training."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.engine import PlainJob, report
from corpusfit.core.errors import CorpusfitError
from corpusfit.core.plan import EmbedPlan
from corpusfit.embed.folders import find, read_pooling
from corpusfit.embed.hardware import Hardware, resolve
from corpusfit.embed.transformer import TransformerEncoder, load_transformer
from corpusfit.evaluation.encoding import encode
from corpusfit.evaluation.finetune import finetune
from corpusfit.evaluation.network import MODEL_TO_EVALUATE, open_with_head
from corpusfit.evaluation.plan import EvaluatePlan, metric_of
from corpusfit.evaluation.registry import load
from corpusfit.evaluation.task import Examples, Outcome, Task, load_examples, load_task
from corpusfit.training.schedule import kept_memory
from corpusfit.training.special_tokens import SpecialTokens, backend_tokenizer, special_tokens_of

# inverse strengths C of the classifier's L2 penalty; the best on dev is used
_C_VALUES = (0.1, 1.0, 10.0, 100.0, 1000.0)
_MAX_ITERATIONS = 1_000


@dataclass(frozen=True)
class FineTuning:
    """One fine-tuning to run."""

    task: Path  # written by `store_task`
    plan: EvaluatePlan
    size: int  # number of training examples, drawn with the plan's seed; 0 for all
    seed: int  # of the fine-tuning
    extra: Path | None  # augmented examples, written by `store_examples`
    out: Path


@dataclass(frozen=True)
class FineTune(PlainJob[FineTuning, Path]):
    """Fine-tune and evaluate a model, or only evaluate it; returns the file of the outcome."""

    encodes = True  # a network is trained

    def _work(self, piece: FineTuning) -> Path:
        task = load_task(piece.task)
        if not load(task.kind).learns:
            answer_task(task, piece.plan, piece.seed, on_share=report).write(piece.out)
            return piece.out
        if piece.size:
            task = task.first(piece.size, piece.plan.seed)
        extra = None if piece.extra is None else load_examples(piece.extra)
        evaluate = classify_frozen if piece.plan.model.frozen else finetune
        evaluate(task, piece.plan, piece.seed, extra, on_share=report).write(piece.out)
        return piece.out


def require_models(
    task: Task, plans: Iterable[EvaluatePlan], setting: str = "`model.name`"
) -> None:
    """Check that the models of some plans can be opened, one at a time on the CPU."""
    # Takes seconds per model. Otherwise a broken model would fail only after the models before it
    # have been fine-tuned.
    task_type = load(task.kind)
    for plan in {plan.model: plan for plan in plans}.values():
        cpu_plan = plan.with_value("finetune.device", "cpu")
        try:
            if not task_type.learns:
                hardware = answering_hardware(cpu_plan, task.kind)
                task_type.open_model(task, cpu_plan, plan.seed, hardware)
            elif plan.model.frozen:
                _open_encoder(cpu_plan)
            else:
                hardware = resolve(cpu_plan.finetune, "finetune")
                open_with_head(plan.model, task.kind, task.learnable, hardware, plan.seed)
        except CorpusfitError as e:
            e.args = (e.args[0].replace("`model.name`", setting), *e.args[1:])
            raise


def answering_hardware(plan: EvaluatePlan, kind: str) -> Hardware:
    """Device and precision of a model that is evaluated without training."""
    precision = getattr(plan, load(kind).group).precision
    hardware = resolve(dataclasses.replace(plan.finetune, precision=precision), "finetune")
    if precision == "auto" and hardware.device == "cpu":
        return hardware._replace(precision="fp32")  # fewer answers tie
    return hardware


def answer_task(
    task: Task, plan: EvaluatePlan, seed: int, *, on_share: Callable[[float], None] | None = None
) -> Outcome:
    """Evaluate a model on dev and test without training it."""
    started = time.perf_counter()
    cpu_started = time.process_time()
    hardware = answering_hardware(plan, task.kind)
    task_type = load(task.kind)
    answer = task_type.open_model(task, plan, seed, hardware)
    splits = {"dev": task.dev, "test": task.test}
    if task_type.group == "decode":
        splits = {split: splits[split] for split in plan.decode.splits.split(",")}
    splits = {split: examples for split, examples in splits.items() if len(examples)}
    total = sum(map(len, splits.values()))
    count = _counter(total, on_share)
    predicted: dict[str, list[Any]] = {}
    scores: dict[str, dict[str, float]] = {}
    sums: dict[str, list[Any]] = {}  # of each example, which significance tests resample
    truncated: dict[str, int] = {}
    with kept_memory():
        for split, examples in splits.items():
            predicted[split], truncated[split] = answer(examples, count)
            dtype = object if task_type.parallel else None
            tally = task_type.tally(task.labels, examples, np.asarray(predicted[split], dtype))
            sums[split] = tally.tolist()
            values = {
                name: float(task_type.score(name, tally.sum(0)))
                for name in task_type.metrics_of(task.labels)
            }
            scores[split] = {name: value for name, value in values.items() if math.isfinite(value)}
    seconds = time.perf_counter() - started
    return Outcome(
        size=0,
        seed=seed,
        scores=scores,
        predicted=predicted,
        history=[],
        best=0,
        tune={**dataclasses.asdict(getattr(plan, task_type.group)), **hardware._asdict()},
        truncated=truncated,
        seconds=round(seconds, 3),
        cpu_seconds=round(time.process_time() - cpu_started, 3),
        examples_per_second=round(total / max(seconds, 1e-9), 3),
        sums=sums,
    )


def _counter(total: int, on_share: Callable[[float], None] | None) -> Callable[[float], None]:
    """A callback that adds up finished examples and reports their share of the total."""
    done = 0.0

    def count(examples: float) -> None:
        nonlocal done
        done += examples
        if on_share is not None:
            on_share(min(1.0, done / total))

    return count


def classify_frozen(
    task: Task,
    plan: EvaluatePlan,
    seed: int,
    extra: Examples | None = None,
    *,
    on_share: Callable[[float], None] | None = None,
) -> Outcome:
    """Embed all texts with the frozen model, and classify them by logistic regression.

    Reference: Conneau and Kiela (2018), SentEval.
    """
    started = time.perf_counter()
    cpu_started = time.process_time()
    from sklearn.dummy import DummyClassifier
    from sklearn.linear_model import LogisticRegression

    task_type = load(task.kind)
    encoder, special, length = _open_encoder(plan)
    encoding_started = time.perf_counter()
    train = task.train if extra is None else task.train.followed_by(extra)
    splits = {"train": train, "dev": task.dev, "test": task.test}
    total = sum(map(len, splits.values()))
    count = _counter(total, on_share)
    backend = backend_tokenizer(encoder.tokenizer, encoder.name)
    vectors = {}
    truncated = {}
    for split, examples in splits.items():
        encoded = encode(examples, task.kind, backend, special, length)
        vectors[split] = encoder.encode_ids([ids.tolist() for ids in encoded.ids], count)
        truncated[split] = int(encoded.truncated.sum())
    encoding_seconds = time.perf_counter() - encoding_started
    metric = metric_of(plan.task, task.kind)
    history: list[dict[str, Any]] = []
    predictions: list[dict[str, NDArray[np.int32]]] = []
    # embeddings of models differ in scale, so no single strength suits all
    for c in _C_VALUES:
        classifier = LogisticRegression(C=c, max_iter=_MAX_ITERATIONS)
        if len(np.unique(train.flat)) == 1:  # a few training examples can share one label
            classifier = DummyClassifier()
        classifier.fit(vectors["train"], train.flat)
        predictions.append(
            {s: classifier.predict(vectors[s]).astype(np.int32) for s in ("dev", "test")}
        )
        scores = task_type.measure(task.labels, task.dev, predictions[-1]["dev"])
        history.append({"c": c, "dev": round(scores[metric], 6)})
    # of equal scores the first, with the strongest penalty
    best = max(range(len(history)), key=lambda i: history[i]["dev"])
    predicted = predictions[best]
    return Outcome(
        size=len(task.train),
        seed=seed,
        scores={
            split: task_type.measure(task.labels, splits[split], answers)
            for split, answers in predicted.items()
        },
        predicted={split: answers.tolist() for split, answers in predicted.items()},
        history=history,
        best=best + 1,
        tune={"length": length, **resolve(plan.finetune, "finetune")._asdict()},
        truncated=truncated,
        seconds=round(time.perf_counter() - started, 3),
        cpu_seconds=round(time.process_time() - cpu_started, 3),
        examples_per_second=round(total / max(encoding_seconds, 1e-9), 3),
    )


def _open_encoder(plan: EvaluatePlan) -> tuple[TransformerEncoder, SpecialTokens, int]:
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
