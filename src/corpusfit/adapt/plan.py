"""The plan of an adaptation: one frozen dataclass for each thing that is decided.

What: every setting that can change the adapted model, with its default and its check.
Why: a training is resumed only under the same plan, and repeated from it.
Trade-off: a setting left out is settled once the data and the model are known
(`adapt/presets.py`), so the plan that was asked for and the settled one are both written down.
Reference: TADPOLE, section 4; mDAPT, section 3.3; Gururangan et al. (2020), Don't Stop Pretraining.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from corpusfit.errors import bad_setting
from corpusfit.plan import ReadPlan
from corpusfit.settings import Settings, finite, one_of, positive, seed_below

TASK = "task"
"""What --data may be instead of inputs: the task's own texts."""


@dataclass(frozen=True)
class ModelPlan:
    """Which model is adapted.

    Attributes:
        name: a model folder or a Hugging Face hub id.
        init: instead of a name: `tiny`, `mini` or `small`, an untrained model of that size, with a
            tokenizer trained on the data.
        new_head: give a model that lacks the head an objective needs a new one.
        vocabulary: tokens of a new tokenizer; 0 takes 8,192, 16,384 or 30,522, by size.
    """

    name: str = ""
    init: str = ""
    new_head: bool = False
    vocabulary: int = 0

    def check(self) -> None:
        """Raise `UsageError` for a value that is not allowed."""
        if bool(self.name) == bool(self.init):
            came = f"{self.name} and {self.init}" if self.name else "neither"
            cure = "Name a model folder or a hub id, or say --init tiny."
            raise bad_setting("The model", "given by --model or by --init", came, cure)
        one_of("--init", self.init, ("", "tiny", "mini", "small"))
        if self.vocabulary and not self.init:
            raise bad_setting("model.vocabulary", "left out without --init", self.vocabulary)
        if self.vocabulary and self.vocabulary < 300:
            allowed = "0, or 300 and more: every character needs a token"
            raise bad_setting("model.vocabulary", allowed, self.vocabulary)


@dataclass(frozen=True)
class ObjectivePlan:
    """What the model learns to predict.

    Attributes:
        name: `mlm` (masked tokens), `mlm+nsp` (and whether two texts follow each other, the sum of
            both, as TADPOLE's section 4) or `causal` (the next token).
        mask: share of the tokens that are predicted; of these 80 % are masked, 10 % replaced by
            another and 10 % left (Devlin et al. 2019).
        whole_word: all tokens of a word are predicted together.
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
            raise bad_setting("--whole-word", "left out with --objective causal", True)


@dataclass(frozen=True)
class WeighPlan:
    """What relevance weights do (TADPOLE, equation 1 and appendix E).

    Attributes:
        policy: `off`; `lambda` (an instance's loss times its weight) or `resample` (instances drawn
            in proportion to their weight, plain loss), over a selection that holds every segment;
            `mask+lambda` (the loss of chosen segments times their weight).
        c: steepness C of lambda; the selection's when left out.
        alpha: midpoint of lambda, in standard deviations; the selection's when left out.
    """

    policy: str = "off"
    c: float | None = None
    alpha: float | None = None

    def check(self) -> None:
        """Raise `UsageError` for a value that is not allowed."""
        one_of("--weights", self.policy, ("off", "lambda", "resample", "mask+lambda"))
        for name in ("c", "alpha"):
            if getattr(self, name) is not None:
                finite(f"weigh.{name}", getattr(self, name))
            if getattr(self, name) is not None and self.policy == "off":
                cure = "Say --weights lambda, resample or mask+lambda."
                raise bad_setting(
                    f"weigh.{name}", "left out without weights", getattr(self, name), cure
                )
        if self.c is not None and self.c < 0:
            raise bad_setting("weigh.c", "0 or more", self.c)


@dataclass(frozen=True)
class MixPlan:
    """What is trained on beside the data, and what is kept back to measure on.

    Attributes:
        replay_share: share of the tokens that are general text, with --replay.
        heldout: sequences of each kind of text that the loss is measured on.
        task_heldout: with --data task, the share of the task's texts kept back.
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
    """How it is trained; what is left out is settled by the data and the machine.

    Attributes:
        steps: updates of the weights.
        epochs: or passes over the data.
        batch: sequences in a step.
        length: tokens in a sequence, special ones included.
        rate: the highest learning rate of AdamW.
        warmup: share of the steps over which the rate rises.
        schedule: how it falls after that: `linear`, `cosine` or `constant`.
        decay: weight decay, not of biases and norms.
        clip: gradients longer than this are scaled down to it.
        keep: `last`, or `best`, the model with the lowest loss on held-out text of the task.
        evaluations: how often held-out losses are measured on the way, and the best is sought.
        micro_tokens: tokens that go through the model together; 0 takes 4,096 on a CPU and 16,384
            on a GPU. Less needs less memory, and gives the same but for rounding and what dropout
            draws.
        precision: `auto` (bf16 where the hardware has it), `bf16` or `fp32`; weights are fp32.
        device: `auto`, `cpu` or `cuda`.
        checkpoint_minutes: time between checkpoints.
        checkpoints: how many are kept.
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
            came = f"--steps {self.steps} and --epochs {self.epochs:g}"
            raise bad_setting("The length of training", "given once", came, "Keep one of them.")
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
    """Whether a few new weights are trained in place of the model's own.

    Attributes:
        kind: `pfeiffer` (a bottleneck after each feed-forward layer; mDAPT, appendix D), `lora`, or
            none when left out.
        reduction: how many times narrower than the model a bottleneck is.
        rank: of LoRA's matrices.
        alpha: LoRA's scale times its rank.
        save: `apart` (the adapter alone) or `merged` (one folder with the model).
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


_FREE = (
    ("model", "name"),
    ("read", "strict"),
    ("train", "micro_tokens"),
    ("train", "checkpoint_minutes"),
    ("train", "checkpoints"),
)


@dataclass(frozen=True)
class AdaptPlan(Settings):
    """Every setting of an adaptation that can change the model that comes out."""

    model: ModelPlan = ModelPlan()
    read: ReadPlan = field(default_factory=ReadPlan)
    objective: ObjectivePlan = ObjectivePlan()
    weigh: WeighPlan = WeighPlan()
    mix: MixPlan = MixPlan()
    train: TrainPlan = TrainPlan()
    adapter: AdapterPlan = AdapterPlan()
    seed: int = 0

    def decisive(self) -> dict[str, Any]:
        """What decides the weights: not where the model lies, and what changes at most rounding."""
        settings = self.as_dict()
        for group, name in _FREE:
            del settings[group][name]
        return settings

    def check(self) -> AdaptPlan:
        """The plan itself, after every group was checked.

        Raises:
            UsageError: names the setting, what is allowed, what came, and the cure.
        """
        groups = (self.model, self.read, self.objective, self.weigh, self.mix)
        for group in (*groups, self.train, self.adapter):
            group.check()
        if self.model.init and self.adapter.kind:
            cure = "An untrained model has to be trained whole: leave out one of the two."
            raise bad_setting("--adapter", "left out with --init", self.adapter.kind, cure)
        if self.model.new_head and self.adapter.kind:
            cure = "A new head has to be trained, and with an adapter nothing else is."
            raise bad_setting("--adapter", "left out with --new-head", self.adapter.kind, cure)
        seed_below("--seed", self.seed)
        return self
