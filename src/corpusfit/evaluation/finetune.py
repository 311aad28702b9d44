"""Evaluate a model with one seed: fine-tuned, or without training."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.engine import report
from corpusfit.core.errors import TrainingError
from corpusfit.core.plan import size_for
from corpusfit.embed.folders import ModelSetting
from corpusfit.embed.hardware import BATCH_TOKENS, Hardware, resolve, seeded
from corpusfit.embed.transformer import token_batches
from corpusfit.evaluation.answered import AnsweredTaskType, load_answered
from corpusfit.evaluation.encoding import (
    NOWHERE,
    Batch,
    Encoded,
    TaskVocabulary,
    encode,
    packed_rows,
    to_batch,
)
from corpusfit.evaluation.learned import load_learned
from corpusfit.evaluation.network import MODEL_TO_EVALUATE, HeadedModel, open_with_head
from corpusfit.evaluation.plan import EvaluatePlan
from corpusfit.evaluation.probing import open_encoder
from corpusfit.evaluation.task import Examples, Outcome, Task, load_task
from corpusfit.evaluation.tasks import load
from corpusfit.kernels.chance import place_keys
from corpusfit.training.adapter import trainable_parameters
from corpusfit.training.plan import TrainPlan
from corpusfit.training.schedule import Updates, kept_memory, naming_memory_errors

if TYPE_CHECKING:
    import torch

_ORDER, _DROPOUT = range(2)  # streams of random numbers
_EVALUATED_AT_ONCE = 4_096  # tokens in a batch of predictions
_OTHER_RATES = (3.0, 1 / 3)  # factors of a rate with which a fine-tuning failed
_TRAINING = 3  # cost of a training step in forward passes


def finetune(
    task: Task,
    plan: EvaluatePlan,
    seed: int,
    *,
    setting: ModelSetting = MODEL_TO_EVALUATE,
    on_share: Callable[[float], None] | None = None,
) -> Outcome:
    """Fine-tune and evaluate a model with one seed.

    Reference: TADPOLE, section 4; mDAPT, sections 4.1 and 4.2.
    """
    # The result is a function of model, task, plan and seed. There are no checkpoints, because a
    # fine-tuning takes minutes; the weights of the best epoch are kept in memory.
    began = time.perf_counter()
    processor = time.process_time()
    hardware = resolve(plan.finetune, "finetune")
    headed = open_with_head(plan.model, task.kind, task.learnable, hardware, seed, setting)
    task_type = load_learned(task.kind)
    plan = task_type.settled(plan, adapter=headed.adapter, max_length=headed.max_length)
    out_of_memory = TrainingError(
        f"Out of memory with batches of {plan.finetune.batch} texts of up to "
        f"{plan.finetune.length} tokens. Set a smaller `finetune.batch` or `finetune.length`."
    )
    with seeded(seed), kept_memory(), naming_memory_errors(out_of_memory):
        tuning = _FineTuning(task, plan, seed, headed, hardware, on_share)
        answers = tuning.run()
    splits = {"dev": task.dev, "test": task.test}
    measure = task_type.measure
    return Outcome(
        size=len(task.train),
        seed=seed,
        scores={s: measure(task.labels, splits[s], answered) for s, answered in answers.items()},
        predicted={split: answered.tolist() for split, answered in answers.items()},
        history=tuning.history,
        best=tuning.best,
        tune={**dataclasses.asdict(plan.finetune), **hardware._asdict(), "adapter": headed.adapter},
        truncated=tuning.truncated,
        seconds=round(time.perf_counter() - began, 3),
        cpu_seconds=round(time.process_time() - processor, 3),
        examples_per_second=round(tuning.learned / max(tuning.spent, 1e-9), 3),
    )


class _FineTuning:
    """State of a running fine-tuning."""

    def __init__(
        self,
        task: Task,
        plan: EvaluatePlan,
        seed: int,
        headed: HeadedModel,
        hardware: Hardware,
        on_share: Callable[[float], None] | None = None,
    ) -> None:
        self.on_share = on_share
        self.task = task
        self.plan = plan
        self.seed = seed
        self.headed = headed
        self.type = load_learned(task.kind)
        self.network = headed.network
        self.model = headed.network.predictor.model
        self.at_once = max(_EVALUATED_AT_ONCE, size_for(hardware.device, BATCH_TOKENS))
        self.history: list[dict[str, Any]] = []
        self.truncated: dict[str, int] = {}
        self.best = 0  # the best epoch so far
        self.learned = 0
        self.spent = 0.0
        self.passed = 0
        self.passes = 1

    def run(self) -> dict[str, NDArray[Any]]:
        """Train until the last epoch or early stopping; the answers of the best epoch, by split."""
        settings = self.plan.finetune
        assert settings.epochs and settings.batch and settings.patience is not None  # noqa: S101, PT018
        train = self._encoded("train", self.task.train)
        dev = self._encoded("dev", self.task.dev)
        # train the embeddings of train's tokens only: the others would just decay
        self.words = TaskVocabulary(self.model, np.concatenate(train.ids), self.headed.special.pad)
        parameters = trainable_parameters(self.model)
        self.passes = settings.epochs * (_TRAINING * len(train) + len(dev)) + len(self.task.test)
        train_plan = TrainPlan(
            max_steps=settings.epochs * math.ceil(len(train) / settings.batch),
            learning_rate=settings.learning_rate,
            warmup_steps=settings.warmup_steps or 0.0,
            weight_decay=settings.weight_decay,
        )
        updates = Updates(parameters, train_plan)
        self._report(0)
        best = -math.inf
        for epoch in range(1, settings.epochs + 1):
            loss = self._epoch(epoch, train, train_plan, updates)
            answers = self._answers(dev)
            measured = self.type.measure(self.task.labels, self.task.dev, answers)
            score = measured[self.plan.task.metric]
            self.history.append({"epoch": epoch, "loss": round(loss, 6), "dev": round(score, 6)})
            if score > best:
                best = score
                self.best = epoch
                of_dev = answers
                decay_factor = self.words.decay_factor
                weights = {name: p.detach().clone() for name, p in parameters.items()}
            elif settings.patience and epoch - self.best >= settings.patience:
                break
        # answer test once, with the weights that were best on dev
        self.words.decay_factor = decay_factor
        for name, parameter in parameters.items():
            parameter.data.copy_(weights[name])
        return {"dev": of_dev, "test": self._answers(self._encoded("test", self.task.test))}

    def _report(self, examples: int) -> None:
        """Report that n examples went through the model once."""
        self.passed += examples
        if self.on_share is not None:
            self.on_share(self.passed / self.passes)

    def _encoded(self, name: str, examples: Examples) -> Encoded:
        assert self.plan.finetune.length is not None  # noqa: S101
        tokenizer = self.headed.tokenizer
        special = self.headed.special
        encoded = encode(examples, self.task.kind, tokenizer, special, self.plan.finetune.length)
        self.truncated[name] = int(encoded.truncated.sum())
        return encoded

    def _epoch(self, epoch: int, train: Encoded, train_plan: TrainPlan, updates: Updates) -> float:
        batch = self.plan.finetune.batch or 1
        n = len(train)
        began = time.perf_counter()
        self.model.train()
        order = np.argsort(place_keys(self.seed, 2 * epoch + _ORDER, n), kind="stable")
        total: Any = 0.0
        labeled = 0

        def diverged(steps: int) -> TrainingError:
            return TrainingError(
                f"Fine-tuning diverged: the loss of step {steps:,} is not finite. Set "
                f"`finetune.learning_rate` below {self.plan.finetune.learning_rate:g}."
            )

        for number, first in enumerate(range(0, n, batch)):
            step = (epoch - 1) * math.ceil(n / batch) + number
            numbers = order[first : first + batch]
            rows = self._batch(train, numbers, self.headed.widest)
            self._report(_TRAINING * len(numbers))
            if not len(rows.targets):
                continue  # no word of the batch has a token
            # dropout depends on seed and step alone, whatever came before
            key = place_keys(self.seed, 2 * step + _DROPOUT, 1)[0]
            loss = updates.make(step, key, partial(self._gradient, rows), diverged)
            total += loss * len(rows.targets)
            labeled += len(rows.targets)
            self.words.decay_factor *= 1.0 - updates.rate(step) * train_plan.weight_decay
        self.learned += n
        self.spent += time.perf_counter() - began
        return float(total) / max(1, labeled)

    def _gradient(self, batch: Batch) -> torch.Tensor:
        import torch

        with self.network.scope():
            logits = self._logits(batch)
        targets = batch.targets
        # mps has no float64
        if (logits.device.type, targets.dtype) != ("mps", torch.float64):
            targets = targets.to(logits.device)
        loss = self.type.loss(logits.float(), targets, self.task)
        torch.autograd.backward(loss)
        return loss.detach()

    def _logits(self, batch: Batch) -> torch.Tensor:
        """Float [m, C]: logits of every piece that has a token."""
        device = self.model.device
        ids, chunk, at = (t.to(device) for t in (batch.ids, batch.chunk, batch.at))
        network = self.network
        return network.predictor.logits(network.call, network.inputs(ids, chunk), at)

    def _batch(self, encoded: Encoded, numbers: NDArray[np.int64], widest: int = 0) -> Batch:
        """A batch of examples, packed if the model supports packing."""
        # A row has at most `widest` tokens; 0 suits examples of similar length.
        lengths = encoded.lengths[numbers]
        rows = [[i] for i in range(len(numbers))]
        if self.network.packing is not None:
            rows = packed_rows(lengths, widest)
        return to_batch(encoded, numbers, rows, self.words)

    def _answers(self, encoded: Encoded) -> NDArray[Any]:
        """[pieces of all examples, …]: the type's answers."""
        import torch

        self.model.eval()
        counts = np.fromiter(map(len, encoded.places), np.int64, len(encoded))
        begins = np.cumsum(counts) - counts
        whole: NDArray[Any] | None = None
        with torch.no_grad(), self.network.scope(), self.words.whole():
            for numbers in token_batches(encoded.lengths, self.at_once):
                logits = self._logits(self._batch(encoded, numbers))
                answers = self.type.answers(logits, self.task)
                if whole is None:
                    whole = np.zeros((counts.sum(), *answers.shape[1:]), answers.dtype)
                at = [np.flatnonzero(encoded.places[n] != NOWHERE) + begins[n] for n in numbers]
                whole[np.concatenate(at)] = answers
                self._report(len(numbers))
        assert whole is not None  # noqa: S101
        return whole


@dataclass(frozen=True)
class FineTuning:
    """One fine-tuning to run."""

    task: Path  # written by `store_task`
    plan: EvaluatePlan
    size: int  # number of training examples, sampled with the plan's seed; 0 for all
    seed: int  # of the fine-tuning
    out: Path
    setting: ModelSetting = MODEL_TO_EVALUATE  # that names the model, for messages


def fine_tune(piece: FineTuning) -> Path:
    """Fine-tune and evaluate a model, or only evaluate it; returns the file of the outcome."""
    task = load_task(piece.task)
    seed = piece.seed
    if isinstance(load(task.kind), AnsweredTaskType):
        outcome = answer_task(task, piece.plan, seed, setting=piece.setting, on_share=report)
        outcome.write(piece.out)
        return piece.out
    if piece.size:
        task = task.first(piece.size, piece.plan.seed)
    tune = partial(finetune, task, seed=seed, setting=piece.setting, on_share=report)
    outcome = tune(plan=piece.plan)
    # A fine-tuning that gives one answer to everything has failed. Where the rate is ours to
    # choose, a higher one is tried, then a lower one.
    # Dev shows whether it has, because test must not decide on a training.
    first = rate = outcome.tune["learning_rate"]
    failed = []
    tried = [outcome]
    of_one_class = len(np.unique(task.dev.flat)) == 1
    for factor in () if piece.plan.finetune.learning_rate or of_one_class else _OTHER_RATES:
        if not outcome.one_answer_on("dev"):
            break
        failed.append(rate)
        rate = float(f"{first * factor:.2g}")
        plan = piece.plan.with_value("finetune.learning_rate", rate)
        tried.append(tune(plan=plan))
        outcome = outcome if tried[-1].one_answer_on("dev") else tried[-1]
    if failed:
        outcome = dataclasses.replace(
            outcome,
            tune={**outcome.tune, "failed_rates": failed},
            seconds=round(sum(o.seconds for o in tried), 3),
            cpu_seconds=round(sum(o.cpu_seconds for o in tried), 3),
        )
    outcome.write(piece.out)
    return piece.out


def require_models(
    task: Task, plans: Iterable[EvaluatePlan], setting: ModelSetting = MODEL_TO_EVALUATE
) -> None:
    """Check that the plans' models can be opened, one at a time on the CPU."""
    # Takes seconds per model. Otherwise a broken model would fail only after the models before it
    # have been fine-tuned.
    task_type = load(task.kind)
    for plan in {plan.model: plan for plan in plans}.values():
        cpu_plan = plan.with_value("finetune.device", "cpu")
        if isinstance(task_type, AnsweredTaskType):
            task_type.open_model(task, cpu_plan, task_type.hardware(cpu_plan), setting)
        elif plan.model.frozen:
            open_encoder(cpu_plan, setting)
        else:
            hardware = resolve(cpu_plan.finetune, "finetune")
            outputs = task.learnable
            open_with_head(plan.model, task.kind, outputs, hardware, plan.seed, setting)


def answer_task(
    task: Task,
    plan: EvaluatePlan,
    seed: int,
    *,
    setting: ModelSetting = MODEL_TO_EVALUATE,
    on_share: Callable[[float], None] | None = None,
) -> Outcome:
    """Evaluate a model on dev and test without training it."""
    started = time.perf_counter()
    cpu_started = time.process_time()
    task_type = load_answered(task.kind)
    hardware = task_type.hardware(plan)
    answer = task_type.open_model(task, plan, hardware, setting)
    splits = {split: getattr(task, split) for split in task_type.answered}
    splits = {split: examples for split, examples in splits.items() if len(examples)}
    total = sum(map(len, splits.values()))
    count = _counter(total, on_share)
    predicted: dict[str, list[Any]] = {}
    scores: dict[str, dict[str, float]] = {}
    # tallies of each example, which the significance tests resample
    sums: dict[str, list[Any]] = {}
    truncated: dict[str, int] = {}
    with kept_memory():
        for split, examples in splits.items():
            predicted[split], truncated[split] = answer(examples, count)
            tally = task_type.tally(task.labels, examples, np.asarray(predicted[split]))
            sums[split] = tally.tolist()
            values = {
                name: float(task_type.score(name, tally.sum(0)))
                for name in task_type.metrics_of(task.labels)
            }
            scores[split] = {name: value for name, value in values.items() if math.isfinite(value)}
    seconds = time.perf_counter() - started
    how = dataclasses.asdict(getattr(plan, task_type.group)) if task_type.group else {}
    return Outcome(
        size=0,
        seed=seed,
        scores=scores,
        predicted=predicted,
        history=[],
        best=0,
        tune={**how, **dataclasses.asdict(plan.task.own), **hardware._asdict()},
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
