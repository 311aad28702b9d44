"""LoRA: low-rank matrices beside the linear layers, in peft's form."""

from __future__ import annotations

import dataclasses
import json
import re
import warnings
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from corpusfit.core.artifacts import write_bytes
from corpusfit.core.errors import MissingDependencyError, ModelError
from corpusfit.core.hub import HubName
from corpusfit.embed.hardware import multiplied_in, seeded
from corpusfit.training.contract import Adapter, Base

if TYPE_CHECKING:
    import torch

_PEFT_NAME = "default"  # peft's name for an unnamed adapter


@dataclass(frozen=True)
class LoRA(Adapter):
    """Matrices A and B beside every linear layer; B starts at zero.

    Reference: Hu et al. (2021), LoRA, section 4.1.
    """

    rank: int
    alpha: int
    prefix: str = ""  # of the names in peft's file

    file: ClassVar[str] = "adapter_model.safetensors"
    merges: ClassVar[bool] = True
    divides: ClassVar[bool] = True
    narrow: ClassVar[bool] = True

    def insert(self, model: Any, seed: int, stored: Collection[str] = ()) -> None:
        """See `Adapter.insert`."""
        try:
            from peft import inject_adapter_in_model
            from peft.tuners.lora import LoraLayer
            from torch import nn
        except ImportError as e:
            raise MissingDependencyError("`adapter=lora`", "train") from e
        base = model.base_model
        layers = linear_layers(base)
        if all(name.startswith("pooler.") for name in layers):  # SqueezeBert's others convolve
            layers = []
        why = "it has no linear layers to adapt"
        adapted: dict[str, Any] = {}
        try:
            with seeded(seed), warnings.catch_warnings():
                # of settings that peft adds itself for layers of experts
                warnings.simplefilter("ignore", RuntimeWarning)
                if layers:
                    inject_adapter_in_model(self._config(base, layers), base)
                    adapted = {n: m for n, m in base.named_modules() if isinstance(m, LoraLayer)}
        except ValueError as e:
            why = str(e).rstrip(".")
        if not adapted:
            raise ModelError(
                f"`adapter` must be left out for this model; got 'lora', and {type(base).__name__} "
                f"cannot be adapted with LoRA: {why}. Train all weights, or name another model."
            )
        # a model may have a pooler that it had not in training
        for name in adapted if stored else ():
            if f"{self.prefix}{name}.lora_A.weight" not in stored:
                base.set_submodule(name, adapted[name].get_base_layer())
        # of a base in half precision, only what is multiplied may stay so
        multiplied = set[int]()
        for module in adapted.values():
            module.cast_input_dtype_enabled = False  # to float32, where autocast casts it back
            layer = module.get_base_layer()
            if type(layer) is nn.Linear and layer.weight.itemsize == 2:
                layer.forward = partial(_product, layer)  # type: ignore[method-assign]
                multiplied.add(id(layer.weight))
        for p in model.parameters():
            p.data = p.data if id(p) in multiplied else p.data.float()

    def weights(self, model: Any) -> dict[str, torch.nn.Parameter]:
        """See `Adapter.weights`; A and B of every layer as peft names them."""
        end = f".{_PEFT_NAME}.weight"
        return {
            f"{self.prefix}{name.removesuffix(end)}.weight": parameter
            for name, parameter in model.base_model.named_parameters()
            if ".lora_" in name
        }

    def under(self, model: Any) -> LoRA:
        """See `Adapter.under`."""
        # The file of a masked model is for `AutoModel`, where fine-tuning starts; that of a
        # causal model is for `AutoModelForCausalLM`, as inference servers read it.
        before = f"{model.base_model_prefix}." if _is_causal(model) else ""
        return dataclasses.replace(self, prefix=f"base_model.model.{before}")

    def write(self, model: Any, base: Base, folder: Path) -> None:
        """See `Adapter.write`; the configuration with which peft opens the folder."""
        hub_name = None if Path(base.name).is_dir() else HubName.parsed(base.name)
        settings = self._config(
            model.base_model,
            linear_layers(model.base_model),
            task_type="CAUSAL_LM" if _is_causal(model) else "FEATURE_EXTRACTION",
            base_model_name_or_path=hub_name.repository if hub_name else base.name,
            revision=(hub_name.revision or None) if hub_name else None,
            inference_mode=True,
        )
        text = json.dumps(settings.to_dict(), default=sorted, indent=2, sort_keys=True)
        write_bytes(folder / "adapter_config.json", text.encode())

    def merged(self, model: Any) -> dict[str, torch.Tensor]:
        """See `Adapter.merged`."""
        from peft.tuners.lora import LoraLayer

        state = {
            n.replace("base_layer.", ""): tensor
            for n, tensor in model.state_dict().items()
            if ".lora_" not in n
        }
        for n, module in model.named_modules():
            if isinstance(module, LoraLayer):
                own = getattr(module, "parameter_name", "weight")  # experts have several
                name = f"{n}.{own}".replace("base_layer.", "")
                state[name] = state[name] + module.get_delta_weight(_PEFT_NAME).detach()
        return state

    def _config(self, base: Any, names: Collection[str], **more: Any) -> Any:
        from peft import LoraConfig
        from torch import nn

        modules = [base.get_submodule(name) for name in names]
        plain = [isinstance(getattr(m, "base_layer", m), nn.Linear) for m in modules]
        # the names with any prefix and any layer number, as a regular expression: peft would
        # shorten a list of names to suffixes, which match more layers in a model with a head
        kinds = sorted({re.sub(r"(?<=\.)\d+(?=\\?\.)", r"\\d+", re.escape(name)) for name in names})
        return LoraConfig(
            r=self.rank,
            lora_alpha=self.alpha,
            target_modules=rf"(.*\.)?({'|'.join(kinds)})",
            fan_in_fan_out=not all(plain),  # GPT-2's matrices are transposed
            **more,
        )


def _is_causal(model: Any) -> bool:
    """Whether a model is a causal one, with its head."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    name = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(model.config.model_type)
    return bool(type(model).__name__ == name)


def linear_layers(base: Any) -> list[str]:
    """Names of a transformer's linear layers, including those with an adapter."""
    from torch import nn
    from transformers.pytorch_utils import Conv1D

    kinds = (nn.Linear, Conv1D)
    modules = {
        name: getattr(module, "base_layer", module)
        for name, module in base.named_modules()
        if "lora_" not in name and not name.endswith(".base_layer")
    }
    return [n for n, m in modules.items() if isinstance(m, kinds) and not _routes(m)]


def _routes(layer: Any) -> bool:
    """Whether a layer chooses experts (Llama 4, Phi-MoE): it returns more than the product."""
    import torch
    from torch import nn

    if not isinstance(layer, nn.Linear) or type(layer).forward is nn.Linear.forward:
        return False
    states = layer.weight.new_zeros(1, layer.in_features)
    with seeded(0), torch.no_grad():
        return not isinstance(layer(states), torch.Tensor)


def _product(layer: Any, x: torch.Tensor) -> torch.Tensor:
    """What a linear layer computes, outside of autocast in the width of the states."""
    from torch.nn.functional import linear

    return linear(x, layer.weight.to(multiplied_in(x)), layer.bias)
