"""The memory of a training step, counted on a model without numbers.

Why: a model that cannot fit is refused before its weights and hours of text are read.
How: its forward pass runs on fake tensors, and what autograd keeps is summed, each storage once.
Trade-off: a formula for GPT is shorter (Korthikanti et al. 2022, Reducing Activation Recomputation,
equation 1); a count holds for any architecture. It leaves out the program itself, and what an
operation needs while it runs.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from corpusfit.core.errors import ModelError, UsageError
from corpusfit.embed.hardware import Hardware, dtype_of, memory, seeded
from corpusfit.embed.losses import head_rows
from corpusfit.embed.transformer import position_limit, quiet
from corpusfit.training.adapter import add_adapter, hold_in_bf16
from corpusfit.training.defaults import length_of
from corpusfit.training.models import recomputable
from corpusfit.training.plan import AdapterPlan, AdaptPlan
from corpusfit.training.schedule import glibc

_USABLE = 0.7  # share of the memory that a count may reach; the rest is for what it leaves out
# share of the kept bytes that glibc 2.36 cannot use again: torch aligns its memory, and the place
# of a freed tensor is too small for the next if a small object lies beside it (glibc's bug 14581)
_GAPS = 0.25


def require_memory(plan: AdaptPlan, hardware: Hardware, config: Any) -> None:
    """Raise `ModelError` if a model of a configuration cannot be trained in this memory at all."""
    import transformers

    room = memory(hardware.device)
    if room is None or plan.train.shard:  # its weights are divided later
        return
    auto = getattr(transformers, plan.objective.kind.auto)
    build = partial(auto.from_config, config, dtype="float32")

    def least(plan: AdaptPlan) -> tuple[int, int]:
        model = outline(build, plan.adapter)
        if model is None:
            return 0, 0
        # before they are read, the weights are taken to be those of the format written there
        if plan.adapter.kind and hardware.precision != "fp32":
            published = str(config.dtype).endswith("float16")
            merged = plan.adapter.save == "merged" or hardware.precision == "fp16"
            hold_in_bf16(model, merged=merged, exact=lambda _: published)
        length = length_of(plan, position_limit(model), hardware.device)
        return choose(plan, model, 1, length, hardware, room)[0]["total"], length

    needed, length = least(plan)
    if needed <= room:
        return
    cure = "Name a smaller model"
    ways = [("train.checkpointing", "on"), ("adapter.kind", "lora"), ("train.length", length // 4)]
    for setting, value in ways:
        changed = plan.with_value(setting, value)
        try:
            changed.check()
        except UsageError:  # it does not go with the other settings
            continue
        lower, _ = least(changed)
        if 0 < lower <= room:
            cure = f"Set `{setting}={value}`, which needs {lower / 1e9:.2f} GB"
            break
    raise ModelError(
        f"`model.name`: training {plan.model.name} needs about {needed / 1e9:.2f} GB with one "
        f"sequence of {length:,} tokens at a time; there are {room / 1e9:.2f} GB. {cure}."
    )


def choose(
    plan: AdaptPlan, model: Any, rows: int, length: int, hardware: Hardware, room: int | None
) -> tuple[dict[str, int], bool, int]:
    """Fit a step: bytes by part, whether activations are computed again, sequences at a time."""
    count = cache(partial(_of_step, plan, model, length, hardware))
    most = float("inf") if room is None else _USABLE * room
    again = plan.train.checkpointing == "on"
    if plan.train.checkpointing == "auto" and count(rows, again)["total"] > most:
        again = bool(recomputable(model))
    while count(rows, again)["total"] > most and rows > 1 and not plan.train.micro_tokens:
        rows = (rows + 1) // 2
    return count(rows, again), again, rows


def outline(build: Callable[[], Any], adapter: AdapterPlan) -> Any:
    """The model that `build` makes, without weights, and its adapter; None if it needs numbers."""
    import torch

    try:
        with seeded(0), quiet(), torch.device("meta"):
            model = build()
        if adapter.kind:
            add_adapter(model, adapter, 0)
    except Exception:  # models raise many kinds of exceptions; opening the model names its faults
        return None
    return model.train()


def _of_step(
    plan: AdaptPlan, model: Any, length: int, hardware: Hardware, rows: int, again: bool
) -> dict[str, int]:
    """Bytes of a step by part, without activations if the model's forward pass needs numbers."""
    weights = sum(p.nbytes for p in model.parameters())  # a shared one counts once
    trained = sum(p.nbytes for p in model.parameters() if p.requires_grad)
    # AdamW has two moments of each trained weight
    parts = {"weights": weights, "gradients": trained, "optimizer": 2 * trained}
    kept, vocabulary = _kept(model, rows, length, hardware.precision)
    if kept:
        predicted = plan.objective.mask * rows * length  # logits, with gradients, in float32
        if plan.objective.kind.causal:  # a piece at a time
            predicted = min(rows * length, head_rows(vocabulary))
        more = _GAPS * kept if hardware.kind == "cpu" and glibc() else 0
        layers = len(recomputable(model))
        if again and layers:  # all layers keep their inputs, one of them the rest
            width = model.config.get_text_config().hidden_size
            kept = 4 * layers * rows * length * width + kept // layers
        parts["activations"] = round(kept + more + 8 * predicted * vocabulary)
    return {**parts, "total": sum(parts.values())}


def _kept(model: Any, rows: int, length: int, precision: str) -> tuple[int, int]:
    """Bytes that autograd keeps of a forward pass, and the size of the vocabulary."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    storages: dict[int, Any] = {}  # by address, and kept alive so that none is used again

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storages[tensor.untyped_storage()._cdata] = tensor.untyped_storage()
        return tensor

    fake = copy.deepcopy(model)
    log = logging.getLogger("torch._subclasses.fake_tensor")
    log.disabled = True  # it would write what a model raises
    try:
        with FakeTensorMode(allow_non_fake_inputs=True), quiet():
            fake.to_empty(device="cpu")
            own = {p.untyped_storage()._cdata for p in fake.parameters()}
            ids = torch.zeros(rows, length, dtype=torch.long)
            with (
                torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
                torch.autocast("cpu", dtype_of(precision), enabled=precision != "fp32"),
            ):
                logits = fake(input_ids=ids, attention_mask=torch.ones_like(ids))[0]
            return sum(s.nbytes() for at, s in storages.items() if at not in own), logits.shape[-1]
    except Exception:  # models raise many kinds of exceptions
        return 0, 0
    finally:
        log.disabled = False
