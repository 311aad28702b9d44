"""Pfeiffer adapters: a bottleneck after the feed-forward block of every layer."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from corpusfit.contracts import Adapter, ModelError

if TYPE_CHECKING:
    import torch

MARK = "pfeiffer"
"""Name of the bottleneck inside the norm or matrix that it is attached to."""

_SPREAD = 0.02  # standard deviation of a new bottleneck's weights

# the norm after the feed-forward block, by its name in a layer: BERT and its kin, DistilBERT,
# ALBERT, Gemma 2 and OLMo 2
_NORMS = (
    *("output.LayerNorm", "output_layer_norm"),
    *("full_layer_layer_norm", "post_feedforward_layernorm"),
)
# the last matrix of the block where no norm follows: GPT-2, Llama and its kin, ModernBERT,
# GPT-NeoX and BLOOM, Phi
_LAST_MATRICES = ("mlp.c_proj", "mlp.down_proj", "mlp.Wo", "mlp.dense_4h_to_h", "mlp.fc2")


@dataclass(frozen=True)
class Pfeiffer(Adapter):
    """A bottleneck in every layer; U starts at zero.

    Reference: mDAPT, section 3.3 and appendix D; Pfeiffer et al. (2020), MAD-X, section 3.
    """

    reduction: int = 2  # width of the model divided by that of a bottleneck

    def insert(self, model: Any, seed: int, stored: Collection[str] = ()) -> None:
        """See `Adapter.insert`."""
        # With r the output of the feed-forward block and h the norm of r plus the residual, r
        # becomes r + U(ReLU(D(h))), before the same norm: the norm's input s becomes s +
        # U(ReLU(D(norm(s)))), so the norm is computed twice. A pre-norm layer (GPT-2, Llama,
        # ModernBERT) has no norm after the block: there h is r. Where the norm reads r without
        # the residual (Gemma 2, OLMo 2), s is r.
        import torch
        from torch import nn

        del stored  # every layer has a bottleneck
        generator = torch.Generator().manual_seed(seed)  # torch's global one is not used
        width = int(model.base_model.config.hidden_size)
        narrow = max(1, width // self.reduction)
        for module, norm in spots(model.base_model):
            down = nn.Linear(width, narrow, device="meta").to_empty(device="cpu")
            up = nn.Linear(narrow, width, device="meta").to_empty(device="cpu")
            nn.init.normal_(down.weight, std=_SPREAD, generator=generator)
            for zero in (down.bias, up.weight, up.bias):
                nn.init.zeros_(zero)
            bottleneck = nn.Sequential(OrderedDict(down=down, relu=nn.ReLU(), up=up))
            module.add_module(MARK, bottleneck.to(module.weight.device, module.weight.dtype))
            if norm:
                module.register_forward_pre_hook(_before_norm)
            else:
                module.register_forward_hook(_after_block)

    def weights(self, model: Any) -> dict[str, torch.nn.Parameter]:
        """See `Adapter.weights`."""
        return {n: p for n, p in model.base_model.named_parameters() if f".{MARK}." in n}


def _before_norm(norm: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    # `forward` is called directly, so hooks do not run for h
    return (args[0] + norm.pfeiffer(norm.forward(*args)), *args[1:])


def _after_block(block: Any, args: tuple[Any, ...], out: Any) -> Any:
    return out + block.pfeiffer(out)


def spots(base: Any) -> list[tuple[Any, bool]]:
    """The modules to attach bottlenecks to, layer by layer, and whether they are norms."""
    from torch import nn

    width = int(base.config.hidden_size)
    stacks = [m for m in base.modules() if isinstance(m, nn.ModuleList) and len(m)]
    for path, stack in product((*_NORMS, *_LAST_MATRICES), stacks):
        layers = [m for m in base.modules() if type(m) is type(stack[0])]
        modules = [dict(layer.named_modules()).get(path) for layer in layers]
        # a stack whose layers differ has experts in some of them
        if None in modules or any(type(layer) is not type(stack[0]) for layer in stack):
            continue
        is_norm = path in _NORMS
        if not is_norm or all(tuple(m.weight.shape) == (width,) for m in modules):  # type: ignore[union-attr]
            return [(module, is_norm) for module in modules]
    raise ModelError(
        "`adapter` must be lora for this model; got 'pfeiffer', and the feed-forward blocks of "
        f"{type(base).__name__} cannot be found. Use `adapter=lora`."
    )
