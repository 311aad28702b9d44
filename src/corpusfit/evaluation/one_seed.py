"""Evaluate a model with one seed: fine-tuned, frozen with a classifier, or as it is."""

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
from corpusfit.training.memory import kept_memory
from corpusfit.training.special_tokens import SpecialTokens, backend_tokenizer, special_tokens_of

_STRENGTHS = (0.1, 1.0, 10.0, 100.0, 1000.0)  # inverse, of the L2 penalty; the best on dev is used
_ITERATIONS = 1_000


@dataclass(frozen=True)
class FineTuning:
    """One fine-tuning to run."""

    task: Path  # as `store_task` wrote it
    plan: EvaluatePlan
    size: int  # number of training examples, drawn by the plan's seed; 0 for all
    seed: int  # of the fine-tuning
    extra: Path | None  # augmented examples, as `store_examples` wrote them
    out: Path


@dataclass(frozen=True)
class FineTune(PlainJob[FineTuning, Path]):
    """Fine-tune a model, or let it answer as it is; returns the file of the outcome."""

    encodes = True  # a network is trained

    def _work(self, piece: FineTuning) -> Path:
        task = load_task(piece.task)
        if not load(task.kind).learns:
            answer_task(task, piece.plan, piece.seed, on_share=report).write(piece.out)
            return piece.out
        if piece.size:
            task = task.first(piece.size, piece.plan.seed)
        extra = None if piece.extra is None else load_examples(piece.extra)
        learn = classify_frozen if piece.plan.model.frozen else finetune
        learn(task, piece.plan, piece.seed, extra, on_share=report).write(piece.out)
        return piece.out


def require_models(
    task: Task, plans: Iterable[EvaluatePlan], setting: str = "`model.name`"
) -> None:
    """Open the models of some plans one after another, on the CPU, and let go of each."""
    # Takes seconds for each model; a model with a fault would be found only when its turn comes,
    # after the fine-tunings of the others.
    task_type = load(task.kind)
    for asked in {plan.model: plan for plan in plans}.values():
        plan = asked.with_value("finetune.device", "cpu")
        try:
            if not task_type.learns:
                task_type.open_model(task, plan, plan.seed, answering_hardware(plan, task.kind))
            elif plan.model.frozen:
                _open_encoder(plan)
            else:
                hardware = resolve(plan.finetune, "finetune")
                open_with_head(plan.model, task.kind, task.learnable, hardware, plan.seed)
        except CorpusfitError as e:
            e.args = (e.args[0].replace("`model.name`", setting), *e.args[1:])
            raise


def answering_hardware(plan: EvaluatePlan, kind: str) -> Hardware:
    """Device and precision of a model that answers as it is."""
    precision = getattr(plan, load(kind).group).precision
    hardware = resolve(dataclasses.replace(plan.finetune, precision=precision), "finetune")
    if precision == "auto" and hardware.device == "cpu":
        return hardware._replace(precision="fp32")  # so that ties stay rare
    return hardware


def answer_task(
    task: Task, plan: EvaluatePlan, seed: int, *, on_share: Callable[[float], None] | None = None
) -> Outcome:
    """Answer dev and test, and score the answers."""
    began, processor = time.perf_counter(), time.process_time()
    hardware, task_type = answering_hardware(plan, task.kind), load(task.kind)
    answering = task_type.open_model(task, plan, seed, hardware)
    splits = {"dev": task.dev, "test": task.test}
    if task_type.group == "decode":
        splits = {split: splits[split] for split in plan.decode.splits.split(",")}
    splits = {split: examples for split, examples in splits.items() if len(examples)}
    total = sum(map(len, splits.values()))
    count = _counter(total, on_share)
    predicted: dict[str, list[Any]] = {}
    scores: dict[str, dict[str, float]] = {}
    sums: dict[str, list[Any]] = {}  # so that no test needs to count them again
    truncated: dict[str, int] = {}
    with kept_memory():
        for split, examples in splits.items():
            predicted[split], truncated[split] = answering(examples, count)
            kept = object if task_type.parallel else None
            tally = task_type.tally(task.labels, examples, np.asarray(predicted[split], kept))
            sums[split] = tally.tolist()
            every = {
                name: float(task_type.score(name, tally.sum(0)))
                for name in task_type.metrics_of(task.labels)
            }
            scores[split] = {name: value for name, value in every.items() if math.isfinite(value)}
    seconds = time.perf_counter() - began
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
        cpu_seconds=round(time.process_time() - processor, 3),
        examples_per_second=round(total / max(seconds, 1e-9), 3),
        sums=sums,
    )


def _counter(total: int, on_share: Callable[[float], None] | None) -> Callable[[float], None]:
    """A function that adds up examples and reports their share of all."""
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
    """Embed all texts with a model as it is, and classify them by logistic regression.

    Reference: Conneau and Kiela (2018), SentEval.
    """
    began, processor = time.perf_counter(), time.process_time()
    task_type = load(task.kind)
    from sklearn.dummy import DummyClassifier
    from sklearn.linear_model import LogisticRegression

    encoder, special, length = _open_encoder(plan)
    opened = time.perf_counter()
    train = task.train if extra is None else task.train.followed_by(extra)
    splits = {"train": train, "dev": task.dev, "test": task.test}
    total = sum(map(len, splits.values()))
    count = _counter(total, on_share)
    backend = backend_tokenizer(encoder.tokenizer, encoder.name)
    vectors, truncated = {}, {}
    for split, examples in splits.items():
        encoded = encode(examples, task.kind, backend, special, length)
        vectors[split] = encoder.encode_ids([ids.tolist() for ids in encoded.ids], count)
        truncated[split] = int(encoded.truncated.sum())
    embedded = time.perf_counter() - opened
    metric, history = metric_of(plan.task, task.kind), list[dict[str, Any]]()
    answers: list[dict[str, NDArray[np.int32]]] = []
    # embeddings of models differ in scale, so no single strength suits all
    for strength in _STRENGTHS:
        model = LogisticRegression(C=strength, max_iter=_ITERATIONS)
        if len(np.unique(train.flat)) == 1:  # of a few training examples
            model = DummyClassifier()
        model.fit(vectors["train"], train.flat)
        answers.append({s: model.predict(vectors[s]).astype(np.int32) for s in ("dev", "test")})
        scores = task_type.measure(task.labels, task.dev, answers[-1]["dev"])
        history.append({"c": strength, "dev": round(scores[metric], 6)})
    best = max(range(len(history)), key=lambda i: history[i]["dev"])  # of equals the strongest
    chosen = answers[best]
    return Outcome(
        size=len(task.train),
        seed=seed,
        scores={s: task_type.measure(task.labels, splits[s], a) for s, a in chosen.items()},
        predicted={split: answered.tolist() for split, answered in chosen.items()},
        history=history,
        best=best + 1,
        tune={"length": length, **resolve(plan.finetune, "finetune")._asdict()},
        truncated=truncated,
        seconds=round(time.perf_counter() - began, 3),
        cpu_seconds=round(time.process_time() - processor, 3),
        examples_per_second=round(total / max(embedded, 1e-9), 3),
    )


def _open_encoder(plan: EvaluatePlan) -> tuple[TransformerEncoder, SpecialTokens, int]:
    """The encoder of a plan, with the pooling of its folder; its special tokens; most of a text."""
    name, hardware = plan.model.name, plan.finetune
    folder = find(name, setting=MODEL_TO_EVALUATE)
    pooling = read_pooling(folder, "", MODEL_TO_EVALUATE)
    embed = EmbedPlan(name, pooling.mode, precision=hardware.precision, device=hardware.device)
    encoder = load_transformer(folder, embed, name)
    rows = encoder.model.get_input_embeddings().weight.shape[0]
    special = special_tokens_of(encoder.tokenizer, encoder.name, rows)
    length = min(hardware.length or encoder.max_length, encoder.max_length)
    return encoder, special, length
