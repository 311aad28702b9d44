"""LoRA by peft: insert low-rank matrices, name them as peft does, merge them."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from corpusfit.core.errors import MissingDependencyError, ModelError
from corpusfit.embed.hardware import seeded

if TYPE_CHECKING:
    import torch

_NAME = "default"
"""peft's name for an unnamed adapter."""


def linear(base: Any) -> list[str]:
    """Names of a transformer's linear layers, including those with an adapter."""
    from torch import nn
    from transformers.pytorch_utils import Conv1D

    kinds = (nn.Linear, Conv1D)
    named = {name: module for name, module in base.named_modules() if "lora_" not in name}
    return [
        name
        for name, module in named.items()
        if not name.endswith(".base_layer")
        and isinstance(getattr(module, "base_layer", module), kinds)
    ]


def insert(base: Any, rank: int, alpha: int, names: Collection[str], seed: int) -> None:
    """Add matrices A and B to linear layers; B starts at zero, so outputs do not change.

    Expert matrices (mixture of experts) are not linear layers and get none.

    Reference: Hu et al. (2021), LoRA, section 4.1.
    """
    try:
        from peft import inject_adapter_in_model
        from peft.tuners.lora import LoraLayer
    except ImportError as e:
        raise MissingDependencyError("`adapter=lora`", "train") from e
    there, why = set(linear(base)) & set(names), "it has no linear layers to adapt"
    try:
        with seeded(seed), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of names; they are checked below
            if there:
                inject_adapter_in_model(_config(base, rank, alpha, there), base)
                why = "peft adapts other layers than named"
    except ValueError as e:
        why = str(e).rstrip(".")
    adapted = {name for name, module in base.named_modules() if isinstance(module, LoraLayer)}
    if not there or adapted != there:
        raise ModelError(
            f"`adapter` must be left out for this model; got 'lora', and {type(base).__name__} "
            f"cannot be adapted with LoRA: {why}. Train all weights, or name another model."
        )


def _config(base: Any, rank: int, alpha: int, names: Collection[str], **more: Any) -> Any:
    from peft import LoraConfig
    from torch import nn

    modules = [base.get_submodule(name) for name in names]
    plain = [isinstance(getattr(m, "base_layer", m), nn.Linear) for m in modules]
    # the names with any prefix and any layer number, as a regular expression: peft would shorten a
    # list of names to suffixes, which match more layers in a model with a head
    kinds = sorted({re.sub(r"(?<=\.)\d+(?=\\?\.)", r"\\d+", re.escape(name)) for name in names})
    return LoraConfig(
        r=rank,
        lora_alpha=alpha,
        target_modules=rf"(.*\.)?({'|'.join(kinds)})",
        fan_in_fan_out=not all(plain),  # GPT-2's matrices are transposed
        **more,
    )


def prefix(model: Any) -> str:
    """Prefix of weight names in peft's files, before the names inside `model.base_model`.

    The file of a masked model is for `AutoModel`, where fine-tuning starts; that of a causal model
    is for `AutoModelForCausalLM`, as inference servers read it.
    """
    inner = f"{model.base_model_prefix}." if _is_causal(model) else ""
    return f"base_model.model.{inner}"


def _is_causal(model: Any) -> bool:
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    causal = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(model.config.model_type)
    return bool(type(model).__name__ == causal)


def config(model: Any, rank: int, alpha: int, name: str) -> bytes:
    """The contents of peft's `adapter_config.json`."""
    base = model.base_model
    task = "CAUSAL_LM" if _is_causal(model) else "FEATURE_EXTRACTION"
    settings = _config(
        base,
        rank,
        alpha,
        linear(base),
        task_type=task,
        base_model_name_or_path=name,
        inference_mode=True,
    )
    return json.dumps(settings.to_dict(), default=sorted, indent=2, sort_keys=True).encode()


def weights(model: Any, before: str) -> dict[str, torch.nn.Parameter]:
    """A and B of every layer by their names in peft's file, which start with `before`."""
    end = f".{_NAME}.weight"
    return {
        f"{before}{name.removesuffix(end)}.weight": parameter
        for name, parameter in model.base_model.named_parameters()
        if ".lora_" in name
    }


def merged_state(model: Any) -> dict[str, torch.Tensor]:
    """The model's `state_dict` with the adapter merged in; the model is not changed."""
    from peft.tuners.lora import LoraLayer

    state = {
        name.replace(".base_layer.", "."): tensor
        for name, tensor in model.state_dict().items()
        if ".lora_" not in name
    }
    for name, module in model.named_modules():
        if isinstance(module, LoraLayer):
            delta = module.get_delta_weight(_NAME).detach()
            state[f"{name}.weight"] = module.get_base_layer().weight.detach() + delta
    return state
