"""The plan of an evaluation: every setting with its default and its check, in groups."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from corpusfit.errors import bad_setting
from corpusfit.evaluate.registry import load, metrics, names
from corpusfit.settings import Settings, finite, one_of, positive, seed_below

KINDS = names()


@dataclass(frozen=True)
class HeadPlan:
    """The model to fine-tune.

    Attributes:
        name: model folder, adapter's folder written by `corpusfit adapt`, or Hugging Face hub id
            (default: none; required).
        adapter: adapter to train with the head, in place of all weights: `pfeiffer` or `lora`; an
            adapter's folder trains its own adapter (default: none).
        reduction: width of the model divided by the width of a new Pfeiffer bottleneck (default:
            2).
        rank: rank of a new LoRA's matrices (default: 8).
    """

    name: str = ""
    adapter: str = ""
    reduction: int = 2
    rank: int = 8

    def check(self) -> None:
        """Raise `UsageError` for a value that is not allowed."""
        one_of("--adapter", self.adapter, ("", "pfeiffer", "lora"))
        for name in ("reduction", "rank"):
            positive(f"model.{name}", getattr(self, name))


@dataclass(frozen=True)
class TaskPlan:
    """The task and its metric.

    Attributes:
        kind: `classification` of texts, `multilabel` classification, `regression`, `tagging` of
            words, or `auto` (by the format and the labels) (default: auto).
        metric: metric to choose the best epoch and to compare models by; `auto` is macro F1 of
            classes for classification, micro F1 of labels for multilabel and of spans for tagging,
            and Pearson's correlation for regression; all are stored (default: auto).
        text_field: field with the text (default: text).
        label_field: field with the label (default: label).
        dev_share: share of the training examples that becomes dev if the task has none (default:
            0.1).
        test_share: share of the training examples that becomes test if the task has none (default:
            0.2).
        dev_size: number of dev examples to use, drawn by the seed; 0 uses all (default: 0).
    """

    kind: str = "auto"
    metric: str = "auto"
    text_field: str = "text"
    label_field: str = "label"
    dev_share: float = 0.1
    test_share: float = 0.2
    dev_size: int = 0

    def check(self) -> None:
        """Raise `UsageError` for a value that is not allowed."""
        one_of("task.kind", self.kind, ("auto", *KINDS))
        check_metric("--metric", self.metric, self.kind)
        for name in ("dev_share", "test_share"):
            if not 0 < getattr(self, name) < 1:
                raise bad_setting(f"task.{name}", "between 0 and 1", getattr(self, name))
        if self.dev_size < 0:
            raise bad_setting("task.dev_size", "0 or more", self.dev_size)


@dataclass(frozen=True)
class FinetunePlan:
    """The fine-tuning; `settled` sets what is left out, by the kind of task.

    Reference: TADPOLE, section 4, for classification; mDAPT, section 4.1, for tagging.

    Attributes:
        epochs: most passes over the training examples (default: 5 for classification, 100 for
            tagging, 30 for tagging with an adapter).
        rate: highest learning rate of AdamW, which falls linearly to 0 (default: 3e-5 for
            classification, 2e-5 for tagging, 1e-4 for tagging with an adapter).
        batch: examples per step (default: 8 for classification, 32 for tagging).
        length: most tokens per example, special tokens included; longer examples are truncated
            (default: the model's limit, and at most 128 for tagging).
        warmup: share of the steps over which the learning rate rises (default: 0.1 for
            classification, 0 for tagging).
        patience: number of epochs without a better dev score after which to stop; 0 never stops
            early (default: 0 for classification, 25 for tagging, 0 for tagging with an adapter).
        decay: weight decay, except of biases and norms (default: 0.01).
        clip: largest norm of the gradient; larger gradients are scaled down (default: 1.0).
        precision: number format: `auto` (bf16 where the hardware supports it), `bf16` or `fp32`;
            weights are always fp32 (default: auto).
        device: device to run on: `auto`, `cpu` or `cuda` (default: auto).
    """

    epochs: int | None = None
    rate: float | None = None
    batch: int | None = None
    length: int | None = None
    warmup: float | None = None
    patience: int | None = None
    decay: float = 0.01
    clip: float = 1.0
    precision: str = "auto"
    device: str = "auto"

    def check(self) -> None:
        """Raise `UsageError` for a value that is not allowed."""
        for name in ("epochs", "rate", "batch"):
            if getattr(self, name) is not None:
                positive(f"--{name}", getattr(self, name))
        if self.length is not None and self.length < 8:
            raise bad_setting("--length", "8 or more", self.length)
        if self.warmup is not None and not 0 <= self.warmup <= 1:
            raise bad_setting("finetune.warmup", "in [0, 1]", self.warmup)
        if self.patience is not None and self.patience < 0:
            raise bad_setting("finetune.patience", "0 or more", self.patience)
        if self.decay < 0:
            raise bad_setting("finetune.decay", "0 or more", self.decay)
        positive("finetune.clip", self.clip)
        one_of("finetune.precision", self.precision, ("auto", "bf16", "fp32"))
        one_of("finetune.device", self.device, ("auto", "cpu", "cuda"))


@dataclass(frozen=True)
class AugmentPlan:
    """The augmentation of training examples with the same label (Xie et al. 2019).

    Attributes:
        kind: `tfidf` (replaces uninformative words) or `backtranslate` (default: none).
        copies: number of augmented copies of each example (default: 1).
        share: mean share of a text's words that `tfidf` replaces (default: 0.3).
        mt: model that translates to another language, for `backtranslate` (default: none).
        mt_back: model that translates back to the source language, for `backtranslate` (default:
            none).
    """

    kind: str = ""
    copies: int = 1
    share: float = 0.3
    mt: str = ""
    mt_back: str = ""

    def check(self) -> None:
        """Raise `UsageError` for a value that is not allowed."""
        one_of("--augment", self.kind, ("", "tfidf", "backtranslate"))
        positive("augment.copies", self.copies)
        if not 0 < self.share < 1:
            raise bad_setting("augment.share", "between 0 and 1", self.share)
        models = bool(self.mt) + bool(self.mt_back)
        if models != (2 if self.kind == "backtranslate" else 0):
            allowed = "both given with --augment backtranslate, and left out without it"
            named = (("--augment", self.kind), ("--mt", self.mt), ("--mt-back", self.mt_back))
            came = " ".join(f"{option} {value}" for option, value in named if value)
            cure = "For example --augment backtranslate --mt EN_DE --mt-back DE_EN."
            raise bad_setting("--mt and --mt-back", allowed, came, cure)


@dataclass(frozen=True)
class EvaluatePlan(Settings):
    """Every setting of an evaluation that can change its scores, except the number of seeds."""

    model: HeadPlan = HeadPlan()
    task: TaskPlan = TaskPlan()
    finetune: FinetunePlan = FinetunePlan()
    augment: AugmentPlan = AugmentPlan()
    seed: int = 0

    def check(self) -> EvaluatePlan:
        """The plan itself, after every group is checked.

        Raises:
            UsageError: names the setting, what is allowed, what came, and the cure.
        """
        for group in (self.model, self.task, self.finetune, self.augment):
            group.check()
        finite("--seed", self.seed)
        seed_below("--seed", self.seed, 31)
        return self


def check_metric(setting: str, metric: str, kind: str = "auto") -> None:
    """Raise `UsageError` unless a metric is `auto` or one of a kind of task (`auto`: any)."""
    if metric != "auto":
        one_of(setting, metric, ("auto", *metrics(kind)))


def metric_of(plan: TaskPlan, kind: str) -> str:
    """The metric to compare by, for a kind of task; raises `UsageError` if the kind lacks it."""
    check_metric("--metric", plan.metric, kind)
    return load(kind).metric if plan.metric == "auto" else plan.metric


def settled(plan: EvaluatePlan, kind: str, *, adapter: bool, longest: int) -> EvaluatePlan:
    """The plan with every setting that was left out set by the kind of task.

    Args:
        plan: the plan of the user.
        kind: kind of the task.
        adapter: whether an adapter is trained in place of the model.
        longest: most tokens that the model takes.
    """
    task_type = load(kind)
    start = dataclasses.replace(task_type.finetuning, **(task_type.with_adapter if adapter else {}))
    finetune = plan.finetune
    for entry in dataclasses.fields(FinetunePlan):
        if getattr(finetune, entry.name) is None:
            value: Any = {entry.name: getattr(start, entry.name)}
            finetune = dataclasses.replace(finetune, **value)
    finetune = dataclasses.replace(finetune, length=min(finetune.length or longest, longest))
    task = dataclasses.replace(plan.task, kind=kind, metric=metric_of(plan.task, kind))
    return dataclasses.replace(plan, finetune=finetune, task=task)
