"""Pfeiffer adapters: a bottleneck after the feed-forward block of each layer."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple

from corpusfit.core.errors import ModelError

if TYPE_CHECKING:
    import torch

MARK = "pfeiffer"
"""Name of the bottleneck inside the norm or matrix that it is attached to."""

TOKENS = 4
SPREAD = 0.02


class _Call(NamedTuple):
    """The observed call of a module that has a weight and no submodules.

    Attributes:
        name: name inside the layer.
        weight: the module's weight.
        inside: input width.
        outside: output width.
        mixed: its output for other tokens depends on the first token.
    """

    name: str
    weight: torch.Tensor
    inside: int
    outside: int
    mixed: bool


def insert(base: Any, reduction: int, seed: int) -> None:
    """Add an adapter to every layer; outputs do not change, bit for bit, because U starts at zero.

    With r the output of the feed-forward block and h the norm of r plus the residual, r becomes
    r + U(ReLU(D(h))), before the same norm: the norm's input s becomes s + U(ReLU(D(norm(s)))), so
    the norm is computed twice. A pre-norm layer (GPT-2, Llama, ModernBERT) has no norm after the
    block: there h is r. Where the norm reads r without the residual (Gemma 2, OLMo 2), s is r. The
    block is found by observing the first layer's calls, so no list of architectures is needed;
    layers with experts, and layers whose block is ambiguous, are refused.

    Reference: mDAPT, section 3.3 and appendix D; Pfeiffer et al. (2020), MAD-X, section 3.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)
    width = int(base.config.hidden_size)
    for module, norm in spots(base):
        like = module.weight
        bottleneck = _bottleneck(width, max(1, width // reduction), generator)
        module.add_module(MARK, bottleneck.to(like.device, like.dtype))
        if norm:
            module.register_forward_pre_hook(_before_norm)
        else:
            module.register_forward_hook(_after_block)


def _bottleneck(width: int, narrow: int, generator: torch.Generator) -> torch.nn.Module:
    """U(ReLU(D(·))) with U zero; torch's global generator is not used."""
    from torch import nn

    down = nn.Linear(width, narrow, device="meta").to_empty(device="cpu")
    up = nn.Linear(narrow, width, device="meta").to_empty(device="cpu")
    nn.init.normal_(down.weight, std=SPREAD, generator=generator)
    for zero in (down.bias, up.weight, up.bias):
        nn.init.zeros_(zero)
    return nn.Sequential(OrderedDict(down=down, relu=nn.ReLU(), up=up))


def _before_norm(norm: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The norm's new input; `forward` is called directly, so hooks do not run for h."""
    return (args[0] + norm.pfeiffer(norm.forward(*args)), *args[1:])


def _after_block(block: Any, args: tuple[Any, ...], out: Any) -> Any:
    return out + block.pfeiffer(out)


def weights(model: Any) -> dict[str, torch.nn.Parameter]:
    """The adapter's weights by their names inside `model.base_model`."""
    return {n: p for n, p in model.base_model.named_parameters() if f".{MARK}." in n}


def state_without_adapter(model: Any) -> dict[str, torch.Tensor]:
    """The model's `state_dict` without the adapter."""
    return {n: tensor for n, tensor in model.state_dict().items() if f".{MARK}." not in n}


def spots(base: Any) -> list[tuple[Any, bool]]:
    """The modules to attach adapters to, layer by layer, and whether each is a norm (`_spot`)."""
    from torch import nn

    seen = _calls(base)
    for name, stack in base.named_modules():
        if not isinstance(stack, nn.ModuleList) or not len(stack):
            continue
        first = stack[0]
        calls = [
            call._replace(name=call.name.removeprefix(f"{name}.0."))
            for call in seen
            if call.name.startswith(f"{name}.0.")
        ]
        spot = _spot(calls, first, int(base.config.hidden_size))
        if spot is not None:
            layers = [m for m in base.modules() if type(m) is type(first)]
            found = [dict(layer.named_modules()).get(spot[0]) for layer in layers]
            if None not in found and all(type(layer) is type(first) for layer in stack):
                return [(module, spot[1]) for module in found]
    raise ModelError(
        "`adapter` must be lora for this model; got 'pfeiffer', and the feed-forward blocks of "
        f"{type(base).__name__} cannot be found. Use `adapter=lora`."
    )


def _spot(calls: list[_Call], layer: Any, width: int) -> tuple[str, bool] | None:
    """Where an adapter is attached in a layer, from the order of calls.

    It is the norm after the feed-forward block (true), or else the block's last matrix.
    """
    matrices = [i for i, call in enumerate(calls) if call.weight.dim() == 2]
    if len(matrices) < 3 or not _is_block(calls, matrices, width):
        return None
    last = calls[matrices[-1]]
    seen = {id(call.weight) for call in calls}
    experts = any(p.dim() > 2 and id(p) not in seen for p in layer.parameters())
    if experts or any(part.isdigit() for part in last.name.split(".")):
        return None
    for call in calls[matrices[-1] + 1 :]:
        if call.weight.dim() == 1 and call.inside == call.outside == width:
            return call.name, True
    return last.name, False


def _is_block(calls: list[_Call], matrices: list[int], width: int) -> bool:
    """Whether the last two matrices are a feed-forward block: up, then down.

    In a first layer the attention's input does not depend on other tokens, its output does. The
    attention's own matrix follows, and the block comes after it or in parallel.
    """
    up, down = calls[matrices[-2]], calls[matrices[-1]]
    mixed = [calls[i].mixed for i in matrices]
    attends = any(mixed) and not all(mixed)
    after = sum(mixed) >= 3 if down.mixed else not up.mixed
    return attends and after and up.inside == width == down.outside < down.inside


def _calls(base: Any) -> list[_Call]:
    """Every module with its own weight, in the order of its first call.

    The model reads four random vectors twice; the first vector differs the second time. Vectors are
    used because padding ids would shift RoBERTa's positions.
    """
    import torch

    table = base.get_input_embeddings().weight
    shape, generator = (2, TOKENS, table.shape[1]), torch.Generator().manual_seed(0)
    one, other = torch.randn(shape, generator=generator).to(table.device, table.dtype)
    other[1:] = one[1:]
    was = base.training
    base.eval()
    try:
        before, after = _outputs(base, one), _outputs(base, other)
    except Exception:  # models without `inputs_embeds` raise many kinds of exceptions
        return []
    finally:
        base.train(was)
    return [
        _Call(name, weight, inside, out.shape[1], not torch.equal(out, after[name][2]))
        for name, (weight, inside, out) in before.items()
        if name in after
    ]


def _outputs(base: Any, states: torch.Tensor) -> dict[str, tuple[Any, int, torch.Tensor]]:
    """By module name: its weight, its input width, and its output for all tokens but the first."""
    import torch

    found: dict[str, tuple[Any, int, torch.Tensor]] = {}

    def recorder(name: str, weight: torch.Tensor) -> Any:
        def hook(module: Any, args: Any, kwargs: Any, out: Any) -> None:
            read = next((a for a in (*args, *kwargs.values()) if torch.is_tensor(a)), None)
            if read is not None and read.is_floating_point() and torch.is_tensor(out):
                found.setdefault(name, (weight, read.shape[-1], out.flatten(0, -2)[1:].clone()))

        return hook

    hooks = []
    for name, module in base.named_modules():
        weight = getattr(module, "weight", None)
        if torch.is_tensor(weight) and not any(module.children()):
            hooks.append(module.register_forward_hook(recorder(name, weight), with_kwargs=True))
    try:
        with torch.no_grad():
            mask = torch.ones(1, TOKENS, dtype=torch.long, device=states.device)
            base(inputs_embeds=states[None], attention_mask=mask)
    finally:
        for hook in hooks:
            hook.remove()
    return found
