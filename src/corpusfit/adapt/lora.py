"""LoRA: each matrix of a transformer gets a low-rank one beside it, by the library peft.

What: `insert` puts A and B beside every linear layer; `weights` names them as peft's files do, and
`merged` folds them into the model's own matrices.
Why: peft's files are what people load and serve, so an adapter kept apart is one of them.
Trade-off: a masked model's file is for `AutoModel`, because fine-tuning begins there; a causal
one's is for `AutoModelForCausalLM`, as inference servers read it. Matrices of experts, which are no
linear layers, get none. B begins at zero, so that training begins at the model as it was.
Reference: Hu et al. (2021), LoRA, section 4.1; the file format of peft.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from corpusfit.embed.hardware import seeded
from corpusfit.errors import MissingDependencyError, ModelError

if TYPE_CHECKING:
    import torch

_NAME = "default"
"""What peft calls an adapter that was given no name."""


def linear(base: Any) -> list[str]:
    """Names of a transformer's linear layers, those with an adapter included."""
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
    """Put A and B beside linear layers; the model gives what it gave.

    Args:
        base: a transformer without its head; changed in place, its own weights frozen.
        rank: of the new matrices.
        alpha: the scale times the rank.
        names: of linear layers of the base.
        seed: of A.

    Raises:
        ModelError: there is no such layer, or peft does not go by the names that it was given, as
            with layers of which some have experts and some do not.
        MissingDependencyError: peft is not installed.
    """
    try:
        from peft import inject_adapter_in_model
    except ImportError as e:
        raise MissingDependencyError("--adapter lora", "train") from e
    there, why = set(linear(base)) & set(names), "it has none of the linear layers to go beside"
    try:
        with seeded(seed), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of names; they are checked below
            if there:
                inject_adapter_in_model(_config(base, rank, alpha, there), base)
                why = "peft puts it elsewhere"
    except ValueError as e:
        why = str(e)
    if not there or _adapted(base) != there:
        raise ModelError(
            f"--adapter must be left out for this model; got 'lora', and {type(base).__name__} "
            f"does not suit it: {why}. Train all of the model, or name another."
        )


def _adapted(base: Any) -> set[str]:
    """Names of the layers that have A and B beside them."""
    from peft.tuners.lora import LoraLayer

    return {name for name, module in base.named_modules() if isinstance(module, LoraLayer)}


def _config(base: Any, rank: int, alpha: int, names: Collection[str], **more: Any) -> Any:
    from peft import LoraConfig
    from torch import nn

    modules = [base.get_submodule(name) for name in names]
    plain = [isinstance(getattr(m, "base_layer", m), nn.Linear) for m in modules]
    return LoraConfig(
        r=rank,
        lora_alpha=alpha,
        target_modules=_pattern(names),
        fan_in_fan_out=not all(plain),  # GPT-2's matrices lie the other way
        **more,
    )


def _pattern(names: Collection[str]) -> str:
    """A regular expression for these names, whatever comes before; a number stands for any.

    Names alone would be shortened by peft to endings, which match more in a model with a head.
    """
    kinds = sorted({re.sub(r"(?<=\.)\d+(?=\\?\.)", r"\\d+", re.escape(name)) for name in names})
    return rf"(.*\.)?({'|'.join(kinds)})"


def prefix(model: Any) -> str:
    """What peft's files put before the names of weights inside `model.base_model`."""
    inner = f"{model.base_model_prefix}." if _is_causal(model) else ""
    return f"base_model.model.{inner}"


def _is_causal(model: Any) -> bool:
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    causal = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(model.config.model_type)
    return bool(type(model).__name__ == causal)


def config(model: Any, rank: int, alpha: int, name: str) -> bytes:
    """The contents of peft's `adapter_config.json`.

    Args:
        model: with the adapter in place.
        rank: as it was inserted with.
        alpha: as it was inserted with.
        name: folder or hub id of the model that it was trained on.
    """
    base = model.base_model
    task = "CAUSAL_LM" if _is_causal(model) else "FEATURE_EXTRACTION"
    made = _config(
        base,
        rank,
        alpha,
        linear(base),
        task_type=task,
        base_model_name_or_path=name,
        inference_mode=True,
    )
    return json.dumps(made.to_dict(), default=sorted, indent=2, sort_keys=True).encode()


def weights(model: Any, before: str) -> dict[str, torch.nn.Parameter]:
    """A and B of every layer by their names in peft's file, which begin with `before`."""
    end = f".{_NAME}.weight"
    return {
        f"{before}{name.removesuffix(end)}.weight": parameter
        for name, parameter in model.base_model.named_parameters()
        if ".lora_" in name
    }


def merged(model: Any) -> dict[str, torch.Tensor]:
    """The model's `state_dict` with the adapter folded in; the model stays as it is."""
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
