"""The plan of an adaptation: every setting with its default and its check, in groups."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from corpusfit.errors import UsageError, bad_setting
from corpusfit.plan import ReadPlan
from corpusfit.settings import Settings, finite, one_of, positive, seed_below

TASK = "task"
"""What --data may be instead of inputs: the task's own texts."""


@dataclass(frozen=True)
class ModelPlan:
    """The model to adapt.

    Attributes:
        name: base model: a model folder or a Hugging Face hub id (default: none; `model.name` or
            `model.init` is required).
        init: size of an untrained model in place of `model.name`, with a tokenizer trained on the
            data: `tiny`, `mini` or `small` (default: none).
        new_head: add a new head if the model lacks the objective's (default: False).
        vocabulary: tokens of a new tokenizer; 0 is 8,192, 16,384 or 30,522, by size (default: 0).
    """

    name: str = ""
    init: str = ""
    new_head: bool = False
    vocabulary: int = 0

    def check(self) -> None:
        """Raise `UsageError` for a value that is not allowed."""
        if bool(self.name) == bool(self.init):
            came = f"--model {self.name} --init {self.init}" if self.name else "neither"
            cure = "For example --model bert-base-uncased, or --init tiny."
            raise bad_setting("The model", "given by --model or by --init", came, cure)
        one_of("--init", self.init, ("", "tiny", "mini", "small"))
        if self.vocabulary and not self.init:
            cure = "Add --init tiny, or leave out model.vocabulary."
            raise bad_setting("model.vocabulary", "left out without --init", self.vocabulary, cure)
        if self.vocabulary and self.vocabulary < 300:
            allowed = "0, or 300 or more, as every character needs a token"
            cure = "For example --set model.vocabulary=8192."
            raise bad_setting("model.vocabulary", allowed, self.vocabulary, cure)


@dataclass(frozen=True)
class ObjectivePlan:
    """The training objective.

    Attributes:
        name: `mlm` (masked tokens), `mlm+nsp` (also next sentence prediction; the loss is the sum
            of both, as in TADPOLE, section 4) or `causal` (the next token) (default: mlm).
        mask: share of the tokens to predict; of these, 80 % are masked, 10 % replaced by a random
            token and 10 % unchanged (Devlin et al. 2019) (default: 0.15).
        whole_word: mask whole words (default: False).
    """

    name: str = "mlm"
    mask: float = 0.15
    whole_word: bool = False

    def check(self) -> None:
        """Raise `UsageError` for a value that is not allowed."""
        one_of("--objective", self.name, ("mlm", "mlm+nsp", "causal"))
        if not 0 < self.mask < 1:
            raise bad_setting("objective.mask", "between 0 and 1", self.mask)
        if self.whole_word and self.name == "causal":
            cure = "Leave out --whole-word, or --objective."
            raise bad_setting("--whole-word", "left out with --objective causal", True, cure)


@dataclass(frozen=True)
class WeightsPlan:
    """The use of relevance weights (TADPOLE, equation 1 and appendix E).

    Attributes:
        policy: `off`, `lambda` (the loss of every segment times its weight), `resample` (segments
            drawn in proportion to their weight) or `mask+lambda` (the loss of selected segments
            times their weight); `lambda` and `resample` need a selection with every segment
            (default: off).
        c: steepness C of lambda (default: that of the selection).
        alpha: midpoint of lambda, in standard deviations (default: that of the selection).
    """

    policy: str = "off"
    c: float | None = None
    alpha: float | None = None

    def check(self) -> None:
        """Raise `UsageError` for a value that is not allowed."""
        one_of("--weights", self.policy, ("off", "lambda", "resample", "mask+lambda"))
        for name in ("c", "alpha"):
            if getattr(self, name) is not None:
                finite(f"weights.{name}", getattr(self, name))
            if getattr(self, name) is not None and self.policy == "off":
                cure = "For example --weights lambda."
                raise bad_setting(
                    f"weights.{name}", "left out with --weights off", getattr(self, name), cure
                )
        if self.c is not None and self.c < 0:
            raise bad_setting("weights.c", "0 or more", self.c)


@dataclass(frozen=True)
class MixPlan:
    """The replay of general text, and the held-out texts.

    Attributes:
        replay_share: replay tokens as a fraction of all training tokens, with --replay (default:
            0.05).
        heldout: held-out sequences of each kind of text, to measure the loss on (default: 256).
        task_heldout: held-out share of the task's texts, with --data task or --then-task (default:
            0.1).
    """

    replay_share: float = 0.05
    heldout: int = 256
    task_heldout: float = 0.1

    def check(self) -> None:
        """Raise `UsageError` for a value that is not allowed."""
        if not 0 < self.replay_share < 1:
            raise bad_setting("--replay-share", "between 0 and 1", self.replay_share)
        positive("mix.heldout", self.heldout)
        if not 0 < self.task_heldout < 1:
            raise bad_setting("mix.task_heldout", "between 0 and 1", self.task_heldout)


@dataclass(frozen=True)
class TrainPlan:
    """The training; `adapt/presets.py` sets what is left out, by the data and the machine.

    Attributes:
        steps: training steps (default: 3 passes over the data, at least 50 steps and at most 2,000
            on a CPU or 50,000 on a GPU).
        epochs: passes over the data (default: set by `train.steps`).
        batch: sequences per step (default: 16 on a CPU, 256 on a GPU).
        length: tokens per sequence, special tokens included (default: 128 on a CPU, 512 on a GPU,
            or the model's limit).
        rate: highest learning rate of AdamW (default: 1e-3 with --init, 3e-4 below 50 million
            weights, else 1e-4).
        warmup: share of the steps over which the learning rate rises (default: 0.01).
        schedule: learning rate after the warm-up: `linear`, `cosine` or `constant` (default:
            linear).
        decay: weight decay, except of biases and norms (default: 0.01).
        clip: largest norm of the gradient; larger gradients are scaled down (default: 1.0).
        keep: model to keep: `last`, or `best` by the loss on held-out texts of the task (default:
            last).
        evaluations: number of measurements of the held-out losses during training (default: 5).
        micro_tokens: most tokens per forward pass; 0 is 4,096 on a CPU and 16,384 on a GPU. Fewer
            need less memory; the result differs by rounding and dropout only (default: 0).
        precision: number format: `auto` (bf16 where the hardware supports it), `bf16` or `fp32`;
            weights are always fp32 (default: auto).
        device: device to run on: `auto`, `cpu` or `cuda` (default: auto).
        checkpoint_minutes: minutes between checkpoints (default: 10.0).
        checkpoints: number of checkpoints to keep (default: 2).
    """

    steps: int | None = None
    epochs: float | None = None
    batch: int | None = None
    length: int | None = None
    rate: float | None = None
    warmup: float = 0.01
    schedule: str = "linear"
    decay: float = 0.01
    clip: float = 1.0
    keep: str = "last"
    evaluations: int = 5
    micro_tokens: int = 0
    precision: str = "auto"
    device: str = "auto"
    checkpoint_minutes: float = 10.0
    checkpoints: int = 2

    def check(self) -> None:
        """Raise `UsageError` for a value that is not allowed."""
        if self.steps is not None and self.epochs is not None:
            raise UsageError(
                f"--steps {self.steps} and --epochs {self.epochs:g} exclude each other. Pass one."
            )
        for name in ("steps", "epochs", "batch", "rate"):
            if getattr(self, name) is not None:
                positive(f"--{name}", getattr(self, name))
        if self.length is not None and self.length < 8:
            raise bad_setting("--length", "8 or more", self.length)
        for name in ("clip", "evaluations", "checkpoint_minutes", "checkpoints"):
            positive(f"train.{name}", getattr(self, name))
        for name in ("micro_tokens", "decay"):
            if getattr(self, name) < 0:
                raise bad_setting(f"train.{name}", "0 or more", getattr(self, name))
        if not 0 <= self.warmup <= 1:
            raise bad_setting("train.warmup", "in [0, 1]", self.warmup)
        one_of("train.schedule", self.schedule, ("linear", "cosine", "constant"))
        one_of("train.keep", self.keep, ("last", "best"))
        one_of("train.precision", self.precision, ("auto", "bf16", "fp32"))
        one_of("train.device", self.device, ("auto", "cpu", "cuda"))


@dataclass(frozen=True)
class AdapterPlan:
    """The adapter to train in place of the model's weights.

    Attributes:
        kind: `pfeiffer` (a bottleneck after each feed-forward layer; mDAPT, appendix D) or `lora`
            (default: none).
        reduction: width of the model divided by the width of a bottleneck (default: 2).
        rank: rank of LoRA's matrices (default: 8).
        alpha: LoRA's scale times its rank (default: 16).
        save: what to save: `apart` (the adapter alone) or `merged` (one folder with the model)
            (default: apart).
    """

    kind: str = ""
    reduction: int = 2
    rank: int = 8
    alpha: int = 16
    save: str = "apart"

    def check(self) -> None:
        """Raise `UsageError` for a value that is not allowed."""
        one_of("--adapter", self.kind, ("", "pfeiffer", "lora"))
        one_of("adapter.save", self.save, ("apart", "merged"))
        for name in ("reduction", "rank", "alpha"):
            positive(f"adapter.{name}", getattr(self, name))


@dataclass(frozen=True)
class ThenTaskPlan:
    """The second phase: continued training on the task's own texts (`--then-task`).

    Settings that are not listed are those of the first phase.

    Reference: Gururangan et al. (2020), Don't Stop Pretraining, section 5.

    Attributes:
        on: train on the texts of --task after those of --data (default: False).
        steps: training steps (default: 100 passes over the task's texts, at least 50 steps and at
            most 2,000 on a CPU or 50,000 on a GPU).
        epochs: passes over the task's texts (default: set by `then_task.steps`).
        batch: sequences per step (default: 8,192 tokens per step, such as 64 sequences of 128).
        rate: highest learning rate of AdamW (default: 0.0001).
        keep: model to keep: `last`, or `best` by the loss on held-out texts of the task (default:
            best).
        evaluations: number of measurements of the held-out losses (default: 20).
    """

    on: bool = False
    steps: int | None = None
    epochs: float | None = None
    batch: int | None = None
    rate: float = 1e-4
    keep: str = "best"
    evaluations: int = 20

    def check(self) -> None:
        """Raise `UsageError` for a value that is not allowed."""
        if not self.on:
            for setting, plain in vars(ThenTaskPlan()).items():
                if (came := getattr(self, setting)) != plain:
                    allowed, cure = "left out without --then-task", "Add --then-task."
                    raise bad_setting(f"then_task.{setting}", allowed, came, cure)
        if self.steps is not None and self.epochs is not None:
            allowed = "left out with then_task.epochs"
            raise bad_setting("then_task.steps", allowed, self.steps, "Set one of them.")
        for name in ("steps", "epochs", "batch", "rate", "evaluations"):
            if getattr(self, name) is not None:
                positive(f"then_task.{name}", getattr(self, name))
        one_of("then_task.keep", self.keep, ("last", "best"))


FREE = (
    ("model", "name"),
    ("read", "strict"),
    ("train", "micro_tokens"),
    ("train", "checkpoint_minutes"),
    ("train", "checkpoints"),
)
"""Settings that do not decide the weights: paths, and those that change rounding only."""


@dataclass(frozen=True)
class AdaptPlan(Settings):
    """Every setting of an adaptation that can change the model that comes out."""

    model: ModelPlan = ModelPlan()
    read: ReadPlan = field(default_factory=ReadPlan)
    objective: ObjectivePlan = ObjectivePlan()
    weights: WeightsPlan = WeightsPlan()
    mix: MixPlan = MixPlan()
    train: TrainPlan = TrainPlan()
    adapter: AdapterPlan = AdapterPlan()
    then_task: ThenTaskPlan = ThenTaskPlan()
    seed: int = 0

    def decisive(self) -> dict[str, Any]:
        """The settings that decide the weights: all but paths and those that change rounding."""
        settings = self.as_dict()
        for group, name in FREE:
            del settings[group][name]
        if not self.then_task.on:
            del settings["then_task"]  # as in the digests of runs of one phase
        return settings

    def check(self) -> AdaptPlan:
        """The plan itself, after every group is checked.

        Raises:
            UsageError: names the setting, what is allowed, what came, and the cure.
        """
        groups = (self.model, self.read, self.objective, self.weights, self.mix)
        for group in (*groups, self.train, self.adapter, self.then_task):
            group.check()
        if self.model.init and self.adapter.kind:
            cure = "Leave out one of them; an untrained model needs all weights trained."
            raise bad_setting("--adapter", "left out with --init", self.adapter.kind, cure)
        if self.model.new_head and self.adapter.kind:
            cure = "Leave out one of them; with an adapter, a new head would stay untrained."
            raise bad_setting("--adapter", "left out with --new-head", self.adapter.kind, cure)
        merged = not self.adapter.kind or (self.adapter.kind, self.adapter.save) == (
            "lora",
            "merged",
        )
        if self.then_task.on and not merged:
            cure = "Or merge the adapter: --adapter lora --set adapter.save=merged."
            raise bad_setting("--then-task", "left out with --adapter", self.adapter.kind, cure)
        seed_below("--seed", self.seed)
        return self
