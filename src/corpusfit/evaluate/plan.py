"""The plan of an evaluation: how a model is fine-tuned on a task and what is looked at.

What: every setting that can change the scores, with its default and its check.
Why: a score is only compared with another that came about in the same way.
Trade-off: what is left out is settled by the kind of task (`settled`), as the papers do it; so the
plan that was asked for and the settled one are both written down.
Reference: TADPOLE, section 4; mDAPT, sections 4.1 and 4.2.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from corpusfit.errors import bad_setting
from corpusfit.settings import Settings, finite, one_of, positive, seed_below

KINDS = ("classification", "tagging")
METRICS = (
    *("accuracy", "micro_f1", "macro_f1", "weighted_f1"),
    *("micro_precision", "micro_recall", "macro_precision", "macro_recall"),
)


@dataclass(frozen=True)
class HeadPlan:
    """Which model is fine-tuned, and what of it.

    Attributes:
        name: a model folder, a hub id, or an adapter's folder as `corpusfit adapt` writes it.
        adapter: train a new adapter and the head alone: `pfeiffer` or `lora`; all weights when left
            out, but an adapter's folder trains its adapter.
        reduction: how many times narrower than the model a new Pfeiffer bottleneck is.
        rank: of a new LoRA's matrices.
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
    """How a task is read, and what counts.

    Attributes:
        kind: `classification` of texts or `tagging` of their words; `auto` goes by the format.
        metric: the score that dev picks by and that is compared; `auto` is micro F1 of spans for
            tagging, and macro F1 of classes for classification. All others are stored too.
        text_field: the field with the text.
        label_field: the field with its class.
        dev_share: of the training examples, where the task has no dev split.
        test_share: of the training examples, where the task has no test split.
        dev_size: examples of dev that are looked at, drawn by the seed; 0 takes all.
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
        one_of("--metric", self.metric, ("auto", *METRICS))
        for name in ("dev_share", "test_share"):
            if not 0 < getattr(self, name) < 1:
                raise bad_setting(f"task.{name}", "between 0 and 1", getattr(self, name))
        if self.dev_size < 0:
            raise bad_setting("task.dev_size", "0 or more", self.dev_size)


@dataclass(frozen=True)
class TunePlan:
    """How it is fine-tuned; what is left out goes by the kind of task.

    Attributes:
        epochs: passes over the training examples, at most.
        rate: the highest learning rate of AdamW; it falls linearly to 0.
        batch: examples in a step.
        length: tokens of an example, special ones included; longer ones are cut off.
        warmup: share of the steps over which the rate rises.
        patience: stop after so many epochs without a better dev score; 0 never does.
        decay: weight decay, not of biases and norms.
        clip: gradients longer than this are scaled down to it.
        precision: `auto` (bf16 where the hardware has it), `bf16` or `fp32`; weights are fp32.
        device: `auto`, `cpu` or `cuda`.
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
            raise bad_setting("tune.warmup", "in [0, 1]", self.warmup)
        if self.patience is not None and self.patience < 0:
            raise bad_setting("tune.patience", "0 or more", self.patience)
        if self.decay < 0:
            raise bad_setting("tune.decay", "0 or more", self.decay)
        positive("tune.clip", self.clip)
        one_of("tune.precision", self.precision, ("auto", "bf16", "fp32"))
        one_of("tune.device", self.device, ("auto", "cpu", "cuda"))


@dataclass(frozen=True)
class AugmentPlan:
    """Whether training examples get companions with the same label (Xie et al. 2019).

    Attributes:
        kind: `tfidf` (uninformative words replaced), `backtranslate`, or none when left out.
        copies: companions of each example.
        share: of a text's words that are replaced by tfidf, on average.
        mt: sequence-to-sequence model into another language, for backtranslate.
        mt_back: and back.
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
        given = bool(self.mt) + bool(self.mt_back)
        if given != (2 if self.kind == "backtranslate" else 0):
            allowed = "both given with --augment backtranslate, and left out without it"
            came = f"--mt {self.mt or 'left out'}, --mt-back {self.mt_back or 'left out'}"
            raise bad_setting("--mt and --mt-back", allowed, came)


@dataclass(frozen=True)
class EvaluatePlan(Settings):
    """Every setting of an evaluation that can change its scores; how many seeds is said apart."""

    model: HeadPlan = HeadPlan()
    task: TaskPlan = TaskPlan()
    tune: TunePlan = TunePlan()
    augment: AugmentPlan = AugmentPlan()
    seed: int = 0

    def check(self) -> EvaluatePlan:
        """The plan itself, after every group was checked.

        Raises:
            UsageError: names the setting, what is allowed, what came, and the cure.
        """
        for group in (self.model, self.task, self.tune, self.augment):
            group.check()
        finite("--seed", self.seed)
        seed_below("--seed", self.seed, 31)
        return self


_PAPERS = {
    "classification": TunePlan(epochs=5, rate=3e-5, batch=8, warmup=0.1, patience=0),
    "tagging": TunePlan(epochs=100, rate=2e-5, batch=32, length=128, warmup=0.0, patience=25),
}
"""By the kind of task: TADPOLE, section 4; mDAPT, section 4.1."""


def metric_of(plan: TaskPlan, kind: str) -> str:
    """The score that is compared for a kind of task."""
    if plan.metric != "auto":
        return plan.metric
    return "micro_f1" if kind == "tagging" else "macro_f1"


def settled(plan: EvaluatePlan, kind: str, *, adapter: bool, longest: int) -> EvaluatePlan:
    """The plan with nothing left open.

    Args:
        plan: as asked for.
        kind: of the task.
        adapter: whether an adapter is trained and not the model.
        longest: tokens that the model takes.
    """
    start = _PAPERS[kind]
    if adapter and kind == "tagging":  # mDAPT, section 4.1
        start = dataclasses.replace(start, epochs=30, rate=1e-4, patience=0)
    tune = plan.tune
    for entry in dataclasses.fields(TunePlan):
        if getattr(tune, entry.name) is None:
            given: Any = {entry.name: getattr(start, entry.name)}
            tune = dataclasses.replace(tune, **given)
    tune = dataclasses.replace(tune, length=min(tune.length or longest, longest))
    task = dataclasses.replace(plan.task, kind=kind, metric=metric_of(plan.task, kind))
    return dataclasses.replace(plan, tune=tune, task=task)
