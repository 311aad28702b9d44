"""The plan of an adaptation: every setting with its default and its check, in groups."""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from corpusfit.core.errors import UsageError, bad_setting
from corpusfit.core.options import Option
from corpusfit.core.plan import PRECISIONS, Device, ReadPlan, kind_of
from corpusfit.core.settings import SEED, Group, Settings, own_settings
from corpusfit.training import adapters
from corpusfit.training.adapters import ADAPTERS
from corpusfit.training.objectives import OBJECTIVES, load

if TYPE_CHECKING:
    from corpusfit.training.contract import Objective

TASK = "task"
"""What --data may be instead of inputs: the task's own texts."""
ALL = "all"
ASSISTANT = "assistant"
COMPLETION = "completion"
"""What the loss of a causal model is on: `objective.loss_on`."""
WEIGHTS = ("off", "lambda", "resample", "mask+lambda")
OF_SOME = (
    *("objective.mask", "objective.whole_word", "objective.delete", "objective.loss_on"),
    *("model.add_tokens", "model.pooling", "adapter.kind", "train.shard"),
)
"""Settings that go with some objectives only: those whose `Objective.takes` has them."""


def _left_out(setting: str, where: str, got: object, cure: str) -> UsageError:
    return bad_setting(f"`{setting}`", f"left out {where}", got, cure)


WeightDecay = Annotated[float, Option("Weight decay, except on biases and norms", minimum=0)]
_CHARACTERS = 10_000_000  # a vocabulary hardly changes with more of the same text
WARMUP = "Steps over which the learning rate rises; below 1, their share of all steps"


@dataclass(frozen=True)
class ModelPlan(Group, group="model"):
    """The model to adapt."""

    name: Annotated[
        str,
        Option(
            "Base model: a model folder, a Hugging Face hub id (`OWNER/NAME[@REVISION]`) or "
            "`minilm`",
            "model",
            default="none; `model.name` or `model.init` is required",
            metavar="MODEL",
        ),
    ] = ""
    init: Annotated[
        str,
        Option(
            "Size of an untrained model to start from instead of `model.name`; its tokenizer is "
            "trained on the data",
            "init",
            default="none",
            allowed=("tiny", "mini", "small", "base"),
        ),
    ] = ""
    new_head: Annotated[
        bool,
        Option("Add a new head if the model lacks the one that the objective needs", "new_head"),
    ] = False
    vocabulary: Annotated[
        int,
        Option(
            "Tokens of a new tokenizer; 0 means 8,192, 16,384 or 30,522, depending on the "
            "model's size",
            minimum=0,
        ),
    ] = 0
    tokenizer_characters: Annotated[
        int,
        Option(
            "Characters of the data to learn a new tokenizer or `model.add_tokens` from; 0 means "
            "all",
            minimum=0,
        ),
    ] = _CHARACTERS
    add_tokens: Annotated[
        int,
        Option(
            "Number of frequent words of the data to add to the vocabulary; each starts as the "
            "mean of its pieces",
            "add_tokens",
            minimum=0,
        ),
    ] = 0
    dropout: Annotated[
        float | None,
        Option(
            "Dropout, including in attention and after activations",
            default="the model's own",
            minimum=0,
            below=1,
        ),
    ] = None
    pooling: Annotated[
        str,
        Option(
            "Embedding of a text with `tsdae`: `mean` of the last hidden states, or `cls`",
            default="as in the model's folder, else mean",
            allowed=("mean", "cls"),
        ),
    ] = ""

    def _check_together(self) -> None:
        if bool(self.name) == bool(self.init):
            both = f"`model.name={self.name}` `model.init={self.init}`"
            cure = "For example `model.name=bert-base-uncased`, or `model.init=tiny`."
            allowed = "given by `model.name` or by `model.init`"
            raise bad_setting("The model", allowed, both if self.name else "neither", cure)
        if self.vocabulary and not self.init:
            cure = "Add `model.init=tiny`, or leave out `model.vocabulary`."
            raise _left_out("model.vocabulary", "without `model.init`", self.vocabulary, cure)
        if self.vocabulary and self.vocabulary < 300:
            allowed = "0, or 300 or more, as every character needs a token"
            cure = "For example `model.vocabulary=8192`."
            raise bad_setting("`model.vocabulary`", allowed, self.vocabulary, cure)
        if self.tokenizer_characters != _CHARACTERS and not (self.init or self.add_tokens):
            allowed = "left out without `model.init` or `model.add_tokens`"
            got = self.tokenizer_characters
            raise bad_setting("`model.tokenizer_characters`", allowed, got, "Leave it out.")
        if self.add_tokens and self.init:
            raise _left_out(
                "model.add_tokens",
                "with `model.init`, whose vocabulary is of the data",
                self.add_tokens,
                "Leave it out.",
            )


@dataclass(frozen=True)
class ObjectivePlan(Group, group="objective"):
    """The training objective."""

    name: Annotated[
        str,
        Option(
            "Training objective",
            "objective",
            more="`mlm` masks tokens. `mlm+nsp` also predicts the next sentence and adds up "
            "both losses (TADPOLE, section 4). `causal` predicts the next token. `tsdae` trains "
            "a sentence encoder: it rebuilds a text with deleted words from its embedding",
            registry=OBJECTIVES,
        ),
    ] = "mlm"
    mask: Annotated[
        float,
        Option(
            "Share of the tokens to predict; of these, 80 % are masked, 10 % replaced by a random "
            "token and 10 % unchanged (Devlin et al. 2019)",
            above=0,
            below=1,
        ),
    ] = 0.15
    whole_word: Annotated[bool, Option("Mask whole words", "whole_word")] = False
    delete: Annotated[
        float, Option("Share of a text's words that `tsdae` deletes", above=0, below=1)
    ] = 0.6
    loss_on: Annotated[
        str,
        Option(
            "Tokens that a `causal` model learns to predict: `all`, those of the `assistant` in "
            "conversations, or those of a `completion`",
            "loss_on",
            more="A completion is the last turn of the assistant, or the last field of a template "
            "such as '{prompt}{completion}'",
            allowed=(ALL, ASSISTANT, COMPLETION),
        ),
    ] = ALL

    options: Annotated[
        Mapping[str, Any],
        Option("Settings of an objective of another package, by name", default="none"),
    ] = field(default_factory=dict)

    @property
    def kind(self) -> type[Objective]:
        """The class of the objective."""
        return load(self.name)

    @property
    def own(self) -> Any:
        """The objective's own settings, checked."""
        return own_settings(self.kind.settings, self.options, type(self))

    def _check_together(self) -> None:
        """Raise `UsageError` for a setting that the objective does not have."""
        if self.options:
            _ = self.own


@dataclass(frozen=True)
class WeightsPlan(Group, group="weights"):
    """The use of relevance weights (TADPOLE, equation 1 and appendix E)."""

    policy: Annotated[
        str,
        Option(
            "How relevance counts in training: `off` (not at all), `lambda` (the loss of a "
            "relevant segment counts more), `resample` (a relevant segment is read more often) "
            "or `mask+lambda` (like lambda, but of the selected segments among themselves)",
            "weights",
            more="`lambda` and `resample` need a selection made with `select --policy continuous`",
            metavar="POLICY",
            allowed=WEIGHTS,
        ),
    ] = "off"


@dataclass(frozen=True)
class MixPlan(Group, group="mix"):
    """The replay of general text, and the held-out texts."""

    replay_share: Annotated[
        float,
        Option(
            "Replay tokens as a fraction of all training tokens; with 0, the loss on the text of "
            "`replay` is measured and nothing of it is mixed in",
            "replay_share",
            more="Only with `replay`",
            minimum=0,
            below=1,
        ),
    ] = 0.05
    heldout: Annotated[
        int, Option("Held-out sequences of each kind of text for measuring the loss", above=0)
    ] = 256
    task_sequences: Annotated[
        int | None,
        Option(
            "Held-out sequences of the task for measuring the loss",
            default="set by `mix.heldout`",
            above=0,
        ),
    ] = None


@dataclass(frozen=True)
class TrainPlan(Group, group="train"):
    """The training; `training/defaults.py` sets what is left out, by the data and the machine."""

    max_steps: Annotated[
        int | None,
        Option(
            "Training steps",
            "max_steps",
            default="3 passes over the data, at most 2,000 steps on a CPU and 50,000 on a GPU",
            more="The default is at least 50 steps",
            above=0,
        ),
    ] = None
    epochs: Annotated[
        float | None,
        Option("Passes over the data", "epochs", default="set by `train.max_steps`", above=0),
    ] = None
    batch: Annotated[
        int | None,
        Option(
            "Sequences per step, over all devices and micro-batches",
            "batch",
            default="16 on a CPU and 256 on a GPU; for a sentence encoder, 16 and 64; with "
            "`data=task`, enough for 256 texts, of which a long one that is cut counts as several",
            above=0,
        ),
    ] = None
    length: Annotated[
        int | None,
        Option(
            "Tokens per sequence",
            "length",
            default="128 on a CPU, 512 on a GPU, 128 for a sentence encoder, and at most the "
            "model's limit",
            more="Includes special tokens",
            minimum=8,
        ),
    ] = None
    learning_rate: Annotated[
        float | None,
        Option(
            "Highest learning rate",
            "learning_rate",
            default="1e-3 with `model.init`, 3e-5 for a sentence encoder, 3e-4 below 50 million "
            "weights, else 1e-4",
            more="The optimizer is AdamW",
            above=0,
        ),
    ] = None
    warmup_steps: Annotated[float, Option(WARMUP, minimum=0)] = 0.01
    lr_scheduler_type: Annotated[
        str,
        Option(
            "Learning rate after the warm-up: `linear`, `cosine`, `constant_with_warmup` or "
            "`inverse_sqrt`",
            allowed=("linear", "cosine", "constant_with_warmup", "inverse_sqrt"),
        ),
    ] = "linear"
    adam_beta2: Annotated[
        float, Option("Decay of AdamW's mean of squared gradients", minimum=0, below=1)
    ] = 0.999
    weight_decay: WeightDecay = 0.01
    max_grad_norm: Annotated[
        float, Option("Largest norm of the gradient; larger gradients are scaled down", above=0)
    ] = 1.0
    keep: Annotated[
        str,
        Option(
            "Model to keep: `last`, `best` by the loss on held-out texts (those of the task, if "
            "there are any), or `auto`: the last, unless the loss on the task's text has risen; "
            "then the training stops early and the best is kept",
            allowed=("auto", "last", "best"),
        ),
    ] = "auto"
    evaluations: Annotated[
        int, Option("Number of measurements of the held-out losses during training", above=0)
    ] = 5
    patience: Annotated[
        int,
        Option(
            "Stop after this many measurements without a lower held-out loss; 0 means never",
            minimum=0,
        ),
    ] = 0
    micro_tokens: Annotated[
        int,
        Option(
            "Most tokens per forward pass; 0 means 4,096 on a CPU and 16,384 on a GPU. Fewer "
            "tokens need less memory; the result differs only by rounding and dropout",
            minimum=0,
        ),
    ] = 0
    checkpointing: Annotated[
        str,
        Option(
            "Activations: `off` keeps them for the backward pass; `on` computes them again, "
            "which needs less memory and more time; `auto` does so only if a language model "
            "would not fit otherwise. The result is the same except for rounding",
            allowed=("auto", "on", "off"),
        ),
    ] = "auto"
    precision: Annotated[
        str,
        Option(
            "Number format: `auto` (bf16 where the hardware supports it, fp16 on other CUDA "
            "devices), `bf16`, `fp16` (with scaled losses) or `fp32` (TF32 on CUDA); weights are "
            "always fp32",
            allowed=(*PRECISIONS, "fp16"),
        ),
    ] = "auto"
    device: Device = "auto"
    shard: Annotated[
        bool,
        Option(
            "Divide weights, gradients and optimizer among the processes that train together "
            "(FSDP2), for models that do not fit on one GPU. `accelerate launch --use_fsdp` "
            "turns this on. Only for `objective.name` mlm and causal"
        ),
    ] = False
    checkpoint_minutes: Annotated[float, Option("Minutes between checkpoints", above=0)] = 10.0
    checkpoints: Annotated[int, Option("Number of checkpoints to keep", above=0)] = 2

    def _check_together(self) -> None:
        if self.max_steps is not None and self.epochs is not None:
            both = f"`train.max_steps={self.max_steps}` and `train.epochs={self.epochs:g}`"
            raise UsageError(f"{both} exclude each other. Pass one.")


@dataclass(frozen=True)
class AdapterPlan(Group, group="adapter"):
    """The adapter to train in place of the model's weights."""

    kind: Annotated[
        str,
        Option(
            "Adapter to train in place of the model's weights",
            "adapter",
            default="none",
            registry=ADAPTERS,
        ),
    ] = ""
    rank: Annotated[int, Option("Rank of LoRA's matrices", above=0)] = 8
    alpha: Annotated[int, Option("LoRA's scale times its rank", above=0)] = 16
    save: Annotated[
        str,
        Option(
            "What to save: `apart` (the adapter alone) or `merged` (one folder with the model)",
            allowed=("apart", "merged"),
        ),
    ] = "apart"


@dataclass(frozen=True)
class ThenTaskPlan(Group, group="then_task"):
    """The second phase: continued training on the task's own texts (`--then-task`).

    Settings that are not listed are those of the first phase.

    Reference: Gururangan et al. (2020), Don't Stop Pretraining, section 5.
    """

    on: Annotated[
        bool,
        Option(
            "After training on `data`, train on the texts of `task` in a second phase. Only the "
            "train split of a task's folder is used; its dev and test texts are kept out of "
            "both phases",
            "then_task",
        ),
    ] = False
    max_steps: Annotated[
        int | None,
        Option(
            "Training steps",
            default="100 passes over the task's texts, at least 50 steps and at most 2,000 on a "
            "CPU or 50,000 on a GPU",
            above=0,
        ),
    ] = None
    learning_rate: Annotated[float, Option("Highest learning rate of AdamW", above=0)] = 1e-4

    def _check_together(self) -> None:
        if not self.on:
            for setting, plain in vars(ThenTaskPlan()).items():
                if (got := getattr(self, setting)) != plain:
                    allowed = "left out without `then_task.on`"
                    cure = "Add `then_task.on=true`."
                    raise bad_setting(f"`then_task.{setting}`", allowed, got, cure)


_OF_TRAINER = {
    "adam_beta1": (float, 0.0, 1.0),
    "adam_epsilon": (float, 0.0, math.inf),
    "ddp_broadcast_buffers": (bool, None, None),
    "ddp_bucket_cap_mb": (int, 0, math.inf),
    "neftune_noise_alpha": (float, 0.0, math.inf),
    "project": (str, None, None),
    "run_name": (str, None, None),
}
"""Arguments of transformers' `TrainingArguments` that `adapt` hands on: type, above, below."""

_INSTEAD = {
    "bf16": "train.precision",
    "fp16": "train.precision",
    "deepspeed": "train.shard=true",
    "fsdp": "train.shard=true",
    "fsdp_config": "train.shard=true",
    "eval_steps": "train.evaluations",
    "gradient_accumulation_steps": "train.micro_tokens",
    "gradient_checkpointing": "train.checkpointing",
    "activation_checkpointing": "train.checkpointing",
    "load_best_model_at_end": "train.keep",
    "metric_for_best_model": "train.keep",
    "num_train_epochs": "train.epochs",
    "output_dir": "out",
    "per_device_train_batch_size": "train.batch",
    "report_to": "track",
    "save_steps": "train.checkpoint_minutes",
    "save_total_limit": "train.checkpoints",
    "seed": "seed",
    "use_cpu": "train.device",
}
"""Settings of `adapt` in place of arguments of `TrainingArguments` that have another name."""


@dataclass(frozen=True)
class TrainerPlan(Group, group="trainer"):
    """Arguments of transformers' Trainer that have no setting in `train`."""

    options: Annotated[
        Mapping[str, Any],
        Option(
            f"Arguments of transformers' `TrainingArguments`, by name: {', '.join(_OF_TRAINER)}",
            default="those of transformers",
        ),
    ] = field(default_factory=dict)

    def check(self) -> None:
        """Raise `UsageError` for an argument that `adapt` does not hand on, or of another type."""
        for name, value in self.options.items():
            setting = f"`trainer.{name}`"
            own = f"train.{name}" if name in vars(TrainPlan()) else ""
            if instead := _INSTEAD.get(name, own):
                cure = f"Set `{instead}` instead."
                raise bad_setting(setting, "left out, as `adapt` decides it", value, cure)
            if name not in _OF_TRAINER:
                near = difflib.get_close_matches(name, _OF_TRAINER, n=1)
                cure = f"Did you mean `trainer.{near[0]}`?" if near else ""
                allowed = f"an argument that is handed on: {', '.join(_OF_TRAINER)}"
                raise bad_setting(setting, allowed, value, cure)
            kind, above, below = _OF_TRAINER[name]
            number = kind is float and type(value) is int
            if not (number or type(value) is kind):
                raise bad_setting(setting, f"a value of type {kind.__name__}", value)
            if above is not None and below is not None and not above < value < below:
                allowed = f"above {above:g}" + (f" and below {below:g}" if below == 1 else "")
                raise bad_setting(setting, allowed, value)


FREE = (
    ("model", "name"),
    ("read", "strict"),
    ("train", "micro_tokens"),
    ("train", "checkpointing"),
    ("train", "shard"),
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
    trainer: TrainerPlan = TrainerPlan()
    seed: Annotated[int, SEED] = 0

    def decisive(self) -> dict[str, Any]:
        """The settings that decide the weights: all but paths and those that change rounding."""
        settings = self.as_dict()
        for group, name in FREE:
            del settings[group][name]
        settings["train"]["device"] = kind_of(self.train.device)
        settings["objective"]["options"] = dataclasses.asdict(self.objective.own)
        both = self.objective.kind.columns == 2  # whichever side is read first
        settings["read"] = (self.read.sides()[0] if both else self.read).identity()
        return settings

    def _check_together(self) -> None:
        self._check_objective()
        if self.train.shard and self.train.precision == "fp16":
            raise _left_out("train.shard", "with `train.precision=fp16`", True, "Take fp32.")
        if kind := self.adapter.kind:
            self._check_adapter(kind)

    def _check_adapter(self, kind: str) -> None:
        """Raise `UsageError` for settings that do not suit the adapter."""
        adapter = adapters.load(kind)
        where = f"with `adapter.kind={kind}`"
        if self.train.shard and not adapter.divides:
            raise _left_out("train.shard", where, True, "Take lora.")
        if self.adapter.save == "merged" and not adapter.merges:
            cure = "Its weights cannot be added to those of the model."
            raise bad_setting("`adapter.save`", f"apart {where}", "merged", cure)
        reasons = {
            "init": "an untrained model needs all weights trained",
            "new_head": "with an adapter, a new head would stay untrained",
            "add_tokens": "with an adapter, new tokens would stay untrained",
        }
        for other, why in reasons.items():
            if given := getattr(self.model, other):
                cure = f"Leave out one of them; {why}."
                raise bad_setting(f"`model.{other}`", f"left out {where}", given, cure)
        if self.then_task.on and self.adapter.save != "merged":
            cure = "Or merge the adapter: `adapter.kind=lora` `adapter.save=merged`."
            raise _left_out("then_task.on", "with `adapter.kind`", kind, cure)

    def _check_objective(self) -> None:
        """Raise `UsageError` for settings that do not suit the objective."""
        kind = self.objective.kind
        where = f"with `objective.name={self.objective.name}`"
        plain = type(self)()
        for path in OF_SOME:
            group, name = path.split(".")
            got = getattr(getattr(self, group), name)
            if path not in kind.takes and got != getattr(getattr(plain, group), name):
                able = (other for other in OBJECTIVES.built_in() if path in load(other).takes)
                others = " or ".join(f"`objective.name={other}`" for other in able)
                cure = f"Leave it out, or set {others}."
                raise _left_out(path, where, got, cure)
        init = self.model.init
        sizes = kind.sizes
        if init and not sizes:
            cure = "Name a trained model by `model.name`."
            raise _left_out("model.init", where, init, cure)
        if init and init not in sizes:
            cure = "For example `model.init=small`."
            raise bad_setting("`model.init`", f"{' or '.join(sizes)} {where}", init, cure)
