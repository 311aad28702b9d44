"""The plan of an evaluation: every setting with its default and its check, in groups."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from corpusfit.core.errors import bad_setting
from corpusfit.core.options import Option
from corpusfit.core.plan import (
    PRECISIONS,
    Columns,
    Device,
    Escape,
    Quote,
    ReadPlan,
    Separator,
    check_mark,
)
from corpusfit.core.settings import SEED, Group, NoSettings, Settings, one_of, own_settings
from corpusfit.evaluation.tasks import TASKS, load, metrics, names
from corpusfit.training.adapters import ADAPTERS
from corpusfit.training.plan import (
    ALL,
    ASSISTANT,
    COMPLETION,
    WARMUP,
    WeightDecay,
)


@dataclass(frozen=True)
class LikelihoodPlan(Group, group="likelihood"):
    """The likelihood of held-out text."""

    context: Annotated[
        int | None,
        Option(
            "Most tokens of a window of held-out text",
            default="the model's limit, but at most 2,048",
            minimum=8,
        ),
    ] = None
    precision: Annotated[
        str,
        Option(
            "Number format of the computation: `auto` (fp32 on a CPU, bf16 on a GPU that supports "
            "it), `bf16` or `fp32`",
            allowed=PRECISIONS,
        ),
    ] = "auto"


@dataclass(frozen=True)
class HeadPlan(Group, group="model"):
    """The model to fine-tune."""

    name: Annotated[
        str,
        Option(
            "Model to fine-tune: a model folder, an adapter's folder, a Hugging Face hub id "
            "(`OWNER/NAME[@REVISION]`) or `minilm`",
            "model",
            default="none; required",
            metavar="MODEL",
        ),
    ] = ""
    adapter: Annotated[
        str,
        Option(
            "Adapter to train with the head, in place of all weights",
            "adapter",
            default="none",
            more="An adapter's folder trains its own adapter",
            registry=ADAPTERS,
        ),
    ] = ""
    rank: Annotated[int, Option("Rank of a new LoRA's matrices", above=0)] = 8
    frozen: Annotated[
        bool,
        Option(
            "Leave the model as it is and classify its states with logistic regression; each "
            "seed learns from a bootstrap sample of the training examples",
            "frozen",
        ),
    ] = False

    def _check_together(self) -> None:
        if self.frozen and self.adapter:
            allowed = "left out with `model.frozen`"
            cure = "Nothing of the model is trained."
            raise bad_setting("`model.adapter`", allowed, self.adapter, cure)


@dataclass(frozen=True)
class TaskPlan(Group, group="task"):
    """The task and its metric."""

    kind: Annotated[
        str,
        Option(
            "Kind of task: `classification`, `language_modeling` (bits per byte of plain text), "
            "`multilabel` (several labels per text), `regression`, `tagging` (labels for words), "
            "or `auto` (decided by format and labels)",
            "kind",
            metavar="KIND",
            allowed=("auto",),
            registry=TASKS,
        ),
    ] = "auto"
    metric: Annotated[
        str,
        Option(
            "Metric to compare by, such as `accuracy`, `micro_f1`, `weighted_f1`, "
            "`macro_recall`, `binary_f1` (of one of two labels) or `spearman`; all metrics for "
            "the kind of task are stored",
            "metric",
            default="macro_f1 for classes, micro_f1 for several labels and for spans, pearson "
            "for numbers, neg_bits_per_byte for plain text",
            more="Also decides which epoch is best",
            metavar="NAME",
        ),
    ] = "auto"
    positive: Annotated[
        str,
        Option(
            "Which of two labels `binary_f1`, `binary_precision` and `binary_recall` measure",
            default="the second in order, such as 1 after 0, pos after neg, yes after no",
            metavar="LABEL",
        ),
    ] = ""
    text_field: Annotated[
        str, Option("Field or column with the text", "text_field", metavar="NAME")
    ] = "text"
    loss_on: Annotated[
        str,
        Option(
            "Measure conversations in the form of the model's chat template with `kind` "
            "`language_modeling`, on `all` tokens, those of the `assistant`, or those of a "
            "`completion`, as `adapt` trains",
            "loss_on",
            default="none: a conversation is plain text, a line for each message",
            allowed=(ALL, ASSISTANT, COMPLETION),
        ),
    ] = ""
    label_field: Annotated[str, Option("Field with the label", "label_field", metavar="NAME")] = (
        "label"
    )
    label_names: Annotated[
        str,
        Option(
            "Names of numbered labels, tags, or classes of a multi-label task, starting from "
            "number 0 and separated by commas; -1 is then the number of no label",
            default="from the Hugging Face dataset",
        ),
    ] = ""
    separator: Separator = ""
    quote: Quote = '"'
    escape: Escape = ""
    columns: Columns = ""
    dev_share: Annotated[
        float,
        Option(
            "Share of the training examples to use as dev if the task has none", above=0, below=1
        ),
    ] = 0.1
    test_share: Annotated[
        float,
        Option(
            "Share of the training examples to use as test if the task has none",
            above=0,
            below=1,
        ),
    ] = 0.2
    dev_size: Annotated[
        int, Option("Number of dev examples to use, sampled with the seed; 0 uses all", minimum=0)
    ] = 0
    test_size: Annotated[
        int, Option("Number of test examples to use, sampled with the seed; 0 uses all", minimum=0)
    ] = 0

    options: Annotated[
        Mapping[str, Any],
        Option("Settings of a kind of task of another package, by name", default="none"),
    ] = field(default_factory=dict)

    @property
    def own(self) -> Any:
        """The kind's own settings, checked; `auto` has none."""
        settings = NoSettings if self.kind == "auto" else load(self.kind).settings
        return own_settings(settings, self.options, type(self))

    def _check_together(self) -> None:
        """Raise `UsageError` for a metric that no kind, or not this kind, of task has."""
        if self.options:
            _ = self.own
        for name in ("separator", "quote", "escape"):
            check_mark(f"`task.{name}`", getattr(self, name))
        check_metric("`task.metric`", self.metric, self.kind)
        kinds = [n for n in (names() if self.loss_on else ()) if load(n).conversations]
        if self.loss_on and self.kind not in kinds:
            cure = f"Add `task.kind={kinds[0]}`, or leave it out."
            allowed = f"left out with `task.kind={self.kind}`"
            raise bad_setting("`task.loss_on`", allowed, self.loss_on, cure)


@dataclass(frozen=True)
class FinetunePlan(Group, group="finetune"):
    """The fine-tuning; the kind of task decides what is left out.

    Reference: TADPOLE, section 4, for texts; mDAPT, section 4.1, for tagging.
    """

    epochs: Annotated[
        int | None,
        Option(
            "Highest number of passes over the training examples",
            "epochs",
            default="5 for texts, 100 for tagging, 30 for tagging with an adapter",
            above=0,
        ),
    ] = None
    learning_rate: Annotated[
        float | None,
        Option(
            "Highest learning rate",
            "learning_rate",
            default="3e-5 for texts, 2e-5 for tagging, 1e-4 for tagging with an adapter",
            more="The optimizer is AdamW, and the rate falls linearly to 0",
            above=0,
        ),
    ] = None
    batch: Annotated[
        int | None,
        Option("Examples per step", "batch", default="8 for texts, 32 for tagging", above=0),
    ] = None
    length: Annotated[
        int | None,
        Option(
            "Most tokens per example; longer ones are truncated",
            "length",
            default="the model's limit, but at most 128 for tagging",
            more="Includes special tokens",
            minimum=8,
        ),
    ] = None
    warmup_steps: Annotated[
        float | None, Option(WARMUP, default="0.1 for texts, 0 for tagging", minimum=0)
    ] = None
    patience: Annotated[
        int | None,
        Option(
            "Stop after this many epochs without a better dev score; 0 never stops early",
            default="0 for texts, 25 for tagging, 0 for tagging with an adapter",
            minimum=0,
        ),
    ] = None
    weight_decay: WeightDecay = 0.01
    precision: Annotated[
        str,
        Option(
            "Number format: `auto` (bf16 where the hardware supports it), `bf16` or `fp32`; "
            "weights are always fp32",
            allowed=PRECISIONS,
        ),
    ] = "auto"
    device: Device = "auto"


@dataclass(frozen=True)
class EvaluatePlan(Settings):
    """Every setting of an evaluation that can change its scores, except the number of seeds."""

    model: HeadPlan = HeadPlan()
    task: TaskPlan = TaskPlan()
    finetune: FinetunePlan = FinetunePlan()
    likelihood: LikelihoodPlan = field(default_factory=LikelihoodPlan)
    seed: Annotated[int, dataclasses.replace(SEED, below=2**31)] = 0

    def _check_together(self) -> None:
        for name in ("epochs", "learning_rate", "batch", "warmup_steps", "patience"):
            value = getattr(self.finetune, name)
            if self.model.frozen and value is not None:
                allowed = "left out with `model.frozen`"
                cure = "Nothing of the model is trained."
                raise bad_setting(f"`finetune.{name}`", allowed, value, cure)


def check_metric(setting: str, metric: str, kind: str = "auto") -> None:
    """Raise `UsageError` unless a metric is `auto` or one of a kind of task (`auto`: any)."""
    if metric != "auto":
        one_of(setting, metric, ("auto", *metrics(kind)))


def metric_of(plan: TaskPlan, kind: str) -> str:
    """The metric to compare by, for a kind of task; raises `UsageError` if the kind lacks it."""
    check_metric("`task.metric`", plan.metric, kind)
    return load(kind).default_metric if plan.metric == "auto" else plan.metric


@dataclass(frozen=True)
class SizesPlan(Group, group="split"):
    """The sizes of dev and test, and what counts as a copy."""

    dev: Annotated[
        float,
        Option(
            "Number of rows in dev, or their share if below 1", "dev", metavar="ROWS", minimum=0
        ),
    ] = 0.0
    test: Annotated[
        float,
        Option(
            "Number of rows in test, or their share if below 1", "test", metavar="ROWS", minimum=0
        ),
    ] = 0.0
    near: Annotated[
        bool,
        Option(
            "Also drop near-duplicates from train: texts that contain at least 0.8 of the "
            "5-grams of a dev or test text",
            "near",
        ),
    ] = False

    def _check_together(self) -> None:
        for name, value in (("dev", self.dev), ("test", self.test)):
            if value >= 1 and value != int(value):
                allowed = "a whole number of rows or a share below 1"
                raise bad_setting(f"`split.{name}`", allowed, value)
        if not self.dev and not self.test:
            cure = (
                "For instance `split.dev=2000` `split.test=2000`, or `split.dev=0.1` "
                "`split.test=0.1`."
            )
            raise bad_setting("`split.dev` or `split.test`", "above 0", 0, cure)

    def wanted(self, rows: int) -> tuple[int, int]:
        """Number of rows of dev and of test, out of `rows`."""
        # a share is at least a row, as a split that was asked for is not empty
        sizes = (self.dev, self.test)
        dev, test = (max(1, round(v * rows)) if 0 < v < 1 else int(v) for v in sizes)
        if dev + test >= rows:
            raise bad_setting(
                "`split.dev` and `split.test`",
                f"fewer in sum than the {rows:,} rows that can be split",
                f"{dev:,} and {test:,}",
                "Lower one of them.",
            )
        return dev, test


@dataclass(frozen=True)
class SplitPlan(Settings):
    """Every setting of a split that can change its result."""

    read: ReadPlan = field(default_factory=ReadPlan)
    split: SizesPlan = SizesPlan()
    seed: Annotated[int, SEED] = 0
