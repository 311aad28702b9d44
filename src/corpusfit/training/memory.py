"""The memory of a training step, counted on a model without numbers.

What: the bytes of weights, gradients, AdamW's moments, activations and logits.
Why: whether a model fits is known before its weights are read, and decides whether activations are
kept or computed again in the backward pass.
How: the model is built from its configuration on torch's device `meta`; its forward pass runs on
fake tensors, and what autograd keeps of it is summed, each storage once.
Trade-off: a formula, such as s b h (34 + 5 a s / h) bytes in a layer of GPT in 16 bits (Korthikanti
et al. 2022, equation 1), is for one architecture; a count holds for any, with its adapter,
precision and attention. Gaps between allocations are a measured share of the temporary tensors. It
leaves out what an operation needs while it runs, the program itself, and that a GPU's kernels may
keep other tensors than a CPU's.
Reference: Rajbhandari et al. (2020), ZeRO, section 3 (states of a model); Korthikanti et al.
(2022), Reducing Activation Recomputation in Large Transformer Models; Chen et al. (2016), Training
Deep Nets with Sublinear Memory Cost (layers that keep their inputs alone).
"""

from __future__ import annotations

import inspect
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from corpusfit.core.errors import ModelError
from corpusfit.embed.hardware import Hardware, memory, seeded
from corpusfit.embed.losses import head_rows
from corpusfit.embed.transformer import position_limit, quiet
from corpusfit.training.adapters import add_adapter, hold_in_bf16
from corpusfit.training.models import AUTO
from corpusfit.training.packing import Packing
from corpusfit.training.plan import AdapterPlan, AdaptPlan
from corpusfit.training.presets import length_of
from corpusfit.training.schedule import glibc

_USABLE = 0.7  # share of the memory that a count may reach; the rest is for what it leaves out
_MOMENTS = 2  # AdamW's, in float32 as the trained weights
# bytes of a logit and its gradients on a GPU, where torch keeps the log-probabilities in float32
_ON_GPU = 12
# settings of models whose logits are capped (Gemma) or scaled (Cohere, Granite)
_MORE_THAN_A_PRODUCT = ("final_logit_softcapping", "logit_scale", "logits_scaling")
# share of the temporary tensors of a forward pass that stays as gaps on a CPU, measured with glibc
# 2.36 (benchmarks/training_memory.py). torch takes memory by `posix_memalign`, for which glibc
# looks for about 100 bytes more than are used in the end; so the place of a freed tensor is too
# small for the next of its size if a small object lies beside it (glibc's bugs 14581 and 30723).
_GAPS = 0.4


@dataclass(frozen=True)
class Memory:
    """Bytes that a training step needs."""

    weights: int  # of the model and its adapter
    gradients: int  # of the trained weights
    optimizer: int  # AdamW's moments of the trained weights
    activations: int  # what is kept for the backward pass, copies of weights in bf16 included
    logits: int  # of the predicted tokens, with their gradient
    # what glibc cannot use again of the memory of tensors that are freed in the forward pass
    gaps: int = 0

    @property
    def states(self) -> int:
        """Bytes that do not depend on how much text goes through the model at a time."""
        return self.weights + self.gradients + self.optimizer

    @property
    def total(self) -> int:
        """The sum of all parts."""
        return self.states + self.activations + self.logits + self.gaps

    def as_dict(self) -> dict[str, int]:
        """The parts and their sum, by name."""
        return {**asdict(self), "total": self.total}

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {size / 1e9:.2f}" for name, size in asdict(self).items())
        return f"{self.total / 1e9:.2f} GB ({parts})"


@dataclass(frozen=True)
class Pass:
    """A forward pass."""

    rows: int  # sequences
    length: int  # tokens of a sequence
    predicted: float  # share of the tokens that are predicted
    causal: bool
    hardware: Hardware
    recomputes: bool = False  # whether activations are computed again in the backward pass
    processes: int = 1  # those that weights, gradients and moments are divided among

    @classmethod
    def of(cls, plan: AdaptPlan, rows: int, length: int, hardware: Hardware) -> Pass:
        """A forward pass of a language model's training."""
        causal = plan.objective.name == "causal"
        predicted = 1.0 if causal else plan.objective.mask
        return cls(rows, length, predicted, causal, hardware)


def require_memory(plan: AdaptPlan, hardware: Hardware, config: Any) -> None:
    """Raise `ModelError` if a model cannot be trained in this memory, however little text it reads.

    Args:
        plan: the plan.
        hardware: resolved device and precision.
        config: the configuration of the model that the plan names.
    """
    import transformers

    auto = getattr(transformers, AUTO[plan.objective.name])
    room = memory(hardware.device)
    model = outline(partial(auto.from_config, config), plan.adapter)
    # before they are read, the weights are taken to be those of the format that is written there
    if model is not None and plan.adapter.kind and hardware.precision == "bf16":
        published = str(config.dtype).endswith("bfloat16")
        hold_in_bf16(model, merged=plan.adapter.save == "merged", exact=lambda _: published)
    if model is None or room is None or plan.train.shard:  # its weights are divided later
        return
    needed = states(model)
    if needed.total <= room:
        return
    length = length_of(plan, position_limit(model), hardware.device)
    whole = step_memory(model, Pass.of(plan, 1, length, hardware)) or needed
    cure = "Name a smaller model"
    if not plan.adapter.kind:
        cure = "Train fewer weights with `adapter=lora`, or name a smaller model"
    where = "this GPU has free" if hardware.kind == "cuda" else "this machine has"
    raise ModelError(
        f"`model.name`: training {plan.model.name} needs about {whole} with one sequence at a "
        f"time; {where} {room / 1e9:.2f} GB. {cure}."
    )


class Choice(NamedTuple):
    """How a step's text goes through a model."""

    memory: Memory | None  # what a step needs, if that can be counted
    recomputes: bool
    rows: int  # sequences of a forward pass
    note: str  # why this was chosen; empty where nothing had to be


def choose(
    plan: AdaptPlan,
    model: Any,
    most: int,
    length: int,
    hardware: Hardware,
    room: int | None,
    processes: int = 1,
) -> Choice:
    """Fit a step into the memory: recompute activations, then take fewer sequences at a time.

    Args:
        plan: the plan; what it sets stays.
        model: an outline of the model; None if there is none.
        most: sequences of a forward pass where memory allows.
        length: tokens of a sequence.
        hardware: resolved device and precision.
        room: bytes of memory, if known.
        processes: those that train together.
    """
    wanted = plan.train.checkpointing
    work = Pass.of(plan, most, length, hardware)
    among = processes if plan.train.shard else 1
    work = replace(work, recomputes=wanted == "on", processes=among)
    memory = None if model is None else step_memory(model, work)
    if memory is None or room is None or memory.total <= _USABLE * room:
        return Choice(memory, work.recomputes, most, "")
    kept = memory
    said = []
    if wanted == "auto" and can_recompute(model):
        work = replace(work, recomputes=True)
        memory = step_memory(model, work) or memory
        said.append("activations are computed again in the backward pass")
    while memory.total > _USABLE * room and work.rows > 1 and not plan.train.micro_tokens:
        work = replace(work, rows=(work.rows + 1) // 2)
        memory = step_memory(model, work) or memory
    if work.rows < most:
        said.append(f"a forward pass takes {work.rows * length:,} tokens")
    if not said:
        return Choice(memory, work.recomputes, most, "")
    reason = f"To fit into {room / 1e9:.1f} GB of memory, {' and '.join(said)}"
    note = f"{reason}: a step then needs {memory}, not {kept.total / 1e9:.2f} GB."
    return Choice(memory, work.recomputes, work.rows, note)


def _layers(model: Any) -> list[Any]:
    """The layers of a model whose activations can be computed again."""
    from transformers.modeling_layers import GradientCheckpointingLayer

    return [m for m in model.modules() if isinstance(m, GradientCheckpointingLayer)]


def can_recompute(model: Any) -> bool:
    """Whether a model has layers whose activations can be computed again."""
    return len(_layers(model)) > 1


def recompute(model: Any) -> None:
    """Keep no activations within layers in training: the backward pass computes them again."""
    # With the random state of the forward pass, so dropout is the same. The last layer keeps its
    # activations: it would be computed again first, when they are all that was given up, and hooks
    # in it (`Predictor`) know the forward pass alone. The attributes are those that transformers'
    # `gradient_checkpointing_enable` sets; it also asks for gradients of embeddings, which only
    # checkpoints with `use_reentrant` need, and has another name in version 6.
    # Reference: Chen et al. (2016), Training Deep Nets with Sublinear Memory Cost.
    from torch.utils.checkpoint import checkpoint

    for layer in _layers(model)[:-1]:
        layer._gradient_checkpointing_func = partial(checkpoint, use_reentrant=False)
        layer.gradient_checkpointing = True


def outline(build: Callable[[], Any], adapter: AdapterPlan) -> Any:
    """The model that `build` makes, on torch's device `meta`, with its adapter if it gets one.

    None for a model that needs numbers when it is built.
    """
    import torch

    try:
        with seeded(0), quiet(), torch.device("meta"):
            model = build()
        if adapter.kind:
            add_adapter(model, adapter, 0)
    except Exception:  # models raise many kinds of exceptions; opening the model names its faults
        return None
    return model.train()


def states(model: Any) -> Memory:
    """The memory of a model's weights, gradients and moments; a shared weight counts once."""
    weights = trained = 0
    for p in model.parameters():
        size = p.numel() * p.element_size()
        weights += size
        trained += size if p.requires_grad else 0
    return Memory(weights, trained, _MOMENTS * trained, 0, 0)


def step_memory(model: Any, work: Pass) -> Memory | None:
    """The memory of a training step of an outline; None if its activations cannot be counted."""
    # ways to call the model, the likely ones first: with the masks of packed rows if it takes them
    ways = [
        *(
            Packing(first, form, work.causal, 0)
            for form in ("boolean", "additive", "pairs")
            for first in (0, None)
        ),
        None,
    ]
    before = getattr(model.config, "_attn_implementation", None)
    if work.causal and work.hardware.cpu_bf16 and before == "eager":
        model.config._attn_implementation = "sdpa"  # which keeps as little as blocks do
    kept = next(filter(None, (_kept(model, work, packing) for packing in ways)), None)
    model.config._attn_implementation = before  # the model that is trained has the same config
    if kept is None:
        return None
    by_layer, into_layers, logits, width, temporary = kept
    outside = by_layer.pop(None, 0)
    activations = outside + sum(by_layer.values())
    if work.recomputes:
        # all layers keep their inputs, and the one that the backward pass has reached the rest
        activations = outside + into_layers + max(by_layer.values(), default=0)
    size = logits * (_ON_GPU if work.hardware.kind != "cpu" else 2 * width)
    if work.causal and _head_is_matrix(model):
        head = model.get_output_embeddings().weight
        rows = min(round(work.rows * work.length), head_rows(len(head)))
        size = rows * len(head) * (width if work.hardware.kind == "cpu" else width + 4)
        if head.requires_grad:  # its gradient, beside the one that is accumulated
            size += head.numel() * (4 if width == 4 else 4 + width)
    whole = states(model)
    weights, gradients = whole.weights // work.processes, whole.gradients // work.processes
    if work.processes > 1:
        # what is put together: weights outside of layers for the whole step, those of a layer
        # while it is computed, beside those of the next, and gradients until they are summed
        layers = [states(layer) for layer in _layers(model)]
        weights += whole.weights - sum(layer.weights for layer in layers)
        weights += 2 * max((layer.weights for layer in layers), default=0)
        gradients += whole.gradients - sum(layer.gradients for layer in layers)
        gradients += max((layer.gradients for layer in layers), default=0)
    return Memory(
        weights,
        gradients,
        whole.optimizer // work.processes,
        activations,
        size,
        round(_GAPS * temporary) if work.hardware.kind == "cpu" and glibc() else 0,
    )


def _head_is_matrix(model: Any) -> bool:
    """Whether the head of an outline is one matrix, as `Predictor.matrix` finds out by trial."""
    import torch

    more = (getattr(model.config, name, None) for name in _MORE_THAN_A_PRODUCT)
    plain = type(model.get_output_embeddings()) is torch.nn.Linear
    return plain and all(factor in (None, 1.0) for factor in more)


def _kept(
    model: Any, work: Pass, packing: Packing | None
) -> tuple[Counter[int | None], int, int, int, int] | None:
    """Bytes kept in each layer and outside (None), of the layers' inputs; the logits, their width.

    The last number is the bytes of temporary tensors. None if the model cannot be called so.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    kept: Counter[int | None] = Counter()
    storages: dict[int, Any] = {}  # kept alive, so that no address is used again
    made, watch = _watched()
    inside: list[int | None] = [None]
    entered: list[int] = []
    places = max(1, round(work.predicted * work.rows * work.length))

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in storages:
            storages[storage._cdata] = storage
            kept[inside[-1]] += storage.nbytes()
        return tensor

    def enter(layer: Any, args: tuple[Any, ...], more: dict[str, Any]) -> None:
        hidden = next(iter([*args, *more.values()]))
        entered.append(hidden.numel() * hidden.element_size())
        inside.append(id(layer))

    def leave(*_: Any) -> None:
        inside.pop()

    def select(_module: Any, _args: Any, out: Any) -> Any:
        # only predicted positions go through the head
        out.last_hidden_state = out[0].flatten(0, 1)[:places][None]
        return out

    hooks = [model.base_model.register_forward_hook(select)]
    for layer in _layers(model):
        hooks.append(layer.register_forward_pre_hook(enter, with_kwargs=True))
        hooks.append(layer.register_forward_hook(leave))
    for module in model.modules():
        # unlike a CPU's, the attention of a GPU keeps no probabilities where it has dropout
        if work.hardware.kind != "cpu" and "Attention" in type(module).__name__:
            module.training = False
    takes = inspect.signature(model.forward).parameters
    more: dict[str, Any] = {"use_cache": False} if "use_cache" in takes else {}
    bf16 = work.hardware.precision == "bf16"
    log = logging.getLogger("torch._subclasses.fake_tensor")
    log.disabled = True  # it would write what each failed way to call the model raised
    try:
        with FakeTensorMode():
            _materialize(model)
            for p in model.parameters():
                storages[p.untyped_storage()._cdata] = None
            ids = torch.zeros(work.rows, work.length, dtype=torch.long)
            if packing is not None:
                more |= packing.inputs(ids, ids, torch.bfloat16 if bf16 else torch.float32)
            with (
                quiet(),
                torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
                torch.autocast("cpu", torch.bfloat16, enabled=bf16),
                watch,
            ):
                out = model(**{"input_ids": ids, **more})
            logits = out["logits"] if "logits" in out else out["prediction_logits"]
            made.pop(logits.untyped_storage()._cdata, None)  # the loss keeps them
            temporary = sum(made[address].nbytes() for address in made.keys() - storages.keys())
            logit = logits.element_size()
            return kept, sum(entered), places * logits.shape[-1], logit, temporary
    except Exception:  # models raise many kinds of exceptions where they need numbers
        return None
    finally:
        for hook in hooks:
            hook.remove()
        log.disabled = False


def _watched() -> tuple[dict[int, Any], Any]:
    """Storages by address, and the context in which those of all results join them."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    made: dict[int, Any] = {}  # kept alive, so that no address is used again

    class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(
            self, op: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            out = op(*args, **(kwargs or {}))
            for tensor in tree_leaves(out):
                if isinstance(tensor, torch.Tensor):
                    storage = tensor.untyped_storage()
                    made[storage._cdata] = storage
            return out

    return made, Watch()  # type: ignore[no-untyped-call]


def _materialize(model: Any) -> None:
    """Replace tensors of the device `meta` by fake ones of the CPU; shared ones stay shared."""
    import torch

    made: dict[int, Any] = {}
    for module in model.modules():
        for name, p in module._parameters.items():
            if p is not None:
                empty = torch.empty(p.shape, dtype=p.dtype)
                fake = torch.nn.Parameter(empty, requires_grad=p.requires_grad)
                module._parameters[name] = made.setdefault(id(p), fake)
        for name, buffer in module._buffers.items():
            if buffer is not None:
                empty = torch.empty(buffer.shape, dtype=buffer.dtype)
                module._buffers[name] = made.setdefault(id(buffer), empty)
