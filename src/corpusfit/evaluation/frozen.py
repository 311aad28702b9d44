"""Classify the embeddings of a frozen model by logistic regression."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.plan import EmbedPlan
from corpusfit.embed.folders import find, read_pooling
from corpusfit.embed.hardware import resolve
from corpusfit.embed.transformer import TransformerEncoder, load_transformer
from corpusfit.evaluation.encoding import encode
from corpusfit.evaluation.network import MODEL_TO_EVALUATE
from corpusfit.evaluation.outcome import Outcome
from corpusfit.evaluation.plan import EvaluatePlan, metric_of
from corpusfit.evaluation.registry import load
from corpusfit.evaluation.task import Examples, Task
from corpusfit.training.special_tokens import SpecialTokens, backend_tokenizer, special_tokens_of

_STRENGTHS = (0.1, 1.0, 10.0, 100.0, 1000.0)
"""Inverse strengths of the L2 penalty, of which the best on dev is used."""
_ITERATIONS = 1_000


def classify_frozen(
    task: Task,
    plan: EvaluatePlan,
    seed: int,
    extra: Examples | None = None,
    *,
    on_share: Callable[[float], None] | None = None,
) -> Outcome:
    """Embed all texts with a model as it is, and classify them by logistic regression.

    The result is a function of model, task and plan; nothing is drawn. The strength of the L2
    penalty is the one with the best metric on dev.

    Reference: Conneau and Kiela (2018), SentEval.
    """
    began, processor = time.perf_counter(), time.process_time()
    task_type = load(task.kind)
    from sklearn.dummy import DummyClassifier
    from sklearn.linear_model import LogisticRegression

    encoder, special, length = open_encoder(plan)
    opened = time.perf_counter()
    train = task.train if extra is None else task.train.followed_by(extra)
    splits = {"train": train, "dev": task.dev, "test": task.test}
    total, done = sum(map(len, splits.values())), 0

    def count(texts: int) -> None:
        nonlocal done
        done += texts
        if on_share is not None:
            on_share(done / total)

    vectors, truncated = {}, {}
    for split, examples in splits.items():
        vectors[split], truncated[split] = _embedded(
            examples, task.kind, encoder, special, length, count
        )
    embedded = time.perf_counter() - opened
    metric, history = metric_of(plan.task, task.kind), list[dict[str, Any]]()
    answers: dict[float, dict[str, NDArray[np.int32]]] = {}
    for strength in _STRENGTHS:
        model = LogisticRegression(C=strength, max_iter=_ITERATIONS)
        if len(np.unique(train.flat)) == 1:  # of a few training examples
            model = DummyClassifier()
        model.fit(vectors["train"], train.flat)
        answers[strength] = {s: model.predict(vectors[s]).astype(np.int32) for s in ("dev", "test")}
        found = task_type.measure(task.labels, task.dev, answers[strength]["dev"])
        history.append({"c": strength, "dev": round(found[metric], 6)})
    best = max(range(len(history)), key=lambda i: history[i]["dev"])  # of equals the strongest
    chosen = answers[_STRENGTHS[best]]
    return Outcome(
        size=len(task.train),
        seed=seed,
        scores={s: task_type.measure(task.labels, splits[s], own) for s, own in chosen.items()},
        predicted={split: own.tolist() for split, own in chosen.items()},
        history=history,
        best=best + 1,
        tune={"length": length, **resolve(plan.finetune, "finetune")._asdict()},
        truncated=truncated,
        seconds=round(time.perf_counter() - began, 3),
        cpu_seconds=round(time.process_time() - processor, 3),
        examples_per_second=round(total / max(embedded, 1e-9), 3),
    )


def open_encoder(plan: EvaluatePlan) -> tuple[TransformerEncoder, SpecialTokens, int]:
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


def _embedded(
    examples: Examples,
    kind: str,
    encoder: TransformerEncoder,
    special: SpecialTokens,
    length: int,
    count: Callable[[int], None],
) -> tuple[NDArray[np.float32], int]:
    """float32 [n, dim]: embeddings of n texts; and the number of truncated texts."""
    backend = backend_tokenizer(encoder.tokenizer, encoder.name)
    found = encode(examples, kind, backend, special, length)
    vectors = encoder.encode_ids([ids.tolist() for ids in found.ids], count)
    return vectors, int(found.truncated.sum())
