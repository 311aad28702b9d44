"""Pfeiffer's adapters: a bottleneck after the feed-forward block of each layer.

What: `insert` puts r + U(ReLU(D(h))) into a transformer's layers, r what the feed-forward block
gives and h what the norm after it makes of r and the residual; the sum goes with the residual
through that same norm. So a norm's input s becomes s + U(ReLU(D(norm(s)))).
Why: mDAPT trains these alone, with the model fixed: 7 million weights beside BERT-base's 110, at a
reduction of 2. Where they go is found by watching the first layer work: the block's last matrix is
the last one used, and what comes out of an attention changes with a token elsewhere in the text. So
no list of architectures has to be kept.
Trade-off: the norm is computed twice. A pre-norm layer (GPT-2, Llama, ModernBERT) has no norm
after: there h is r itself, and r + U(ReLU(D(r))) goes on. Where the norm after reads r without the
residual (Gemma 2, OLMo 2), s is r. Layers with experts, and any whose parts cannot be told apart,
are refused. U begins at zero, so that training begins at the model as it was.
Reference: mDAPT, section 3.3 and appendix D; Pfeiffer et al. (2020), MAD-X, section 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from corpusfit.errors import ModelError

if TYPE_CHECKING:
    import torch

MARK = "pfeiffer"
"""What the bottleneck is called inside the norm or the matrix that it hangs on."""

TOKENS = 4
SPREAD = 0.02


class _Spot(NamedTuple):
    """Where an adapter goes in every layer.

    Attributes:
        name: of a module inside the layer.
        norm: it is the norm after the feed-forward block; else that block's last matrix.
    """

    name: str
    norm: bool


class _Call(NamedTuple):
    """What was seen of a module that has weights and no parts.

    Attributes:
        name: inside the layer.
        weight: its weight.
        inside: width of what it reads.
        outside: width of what it gives.
        mixed: what it gives for other tokens depends on the first.
    """

    name: str
    weight: torch.Tensor
    inside: int
    outside: int
    mixed: bool


def insert(base: Any, reduction: int, seed: int) -> None:
    """Put an adapter into every layer; the model gives what it gave, bit for bit.

    Args:
        base: a transformer without its head; changed in place. What it has is not frozen here.
        reduction: how many times narrower than the model a bottleneck is.
        seed: of the down-projections.

    Raises:
        ModelError: a layer's feed-forward block cannot be found.
    """
    import torch

    chance = torch.Generator().manual_seed(seed)
    width = int(base.config.hidden_size)
    for module, norm in _spots(base):
        like = module.weight
        bottleneck = _bottleneck(width, max(1, width // reduction), chance)
        module.add_module(MARK, bottleneck.to(like.device, like.dtype))
        if norm:
            module.register_forward_pre_hook(_before_norm)
        else:
            module.register_forward_hook(_after_block)


def _bottleneck(width: int, narrow: int, chance: torch.Generator) -> torch.nn.Module:
    """U(ReLU(D(·))), U zero; torch's own chances are not drawn from."""
    from torch import nn

    down = nn.Linear(width, narrow, device="meta").to_empty(device="cpu")
    up = nn.Linear(narrow, width, device="meta").to_empty(device="cpu")
    nn.init.normal_(down.weight, std=SPREAD, generator=chance)
    for zero in (down.bias, up.weight, up.bias):
        nn.init.zeros_(zero)
    whole = nn.Sequential()
    whole.add_module("down", down)
    whole.add_module("relu", nn.ReLU())
    whole.add_module("up", up)
    return whole


def _before_norm(norm: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """What the norm reads instead of s; its own hooks do not run for h."""
    return (args[0] + norm.pfeiffer(norm.forward(*args)), *args[1:])


def _after_block(block: Any, args: tuple[Any, ...], out: Any) -> Any:
    """What goes on instead of r."""
    return out + block.pfeiffer(out)


def weights(model: Any) -> dict[str, torch.nn.Parameter]:
    """The adapters' weights, by their names inside `model.base_model`."""
    return {n: p for n, p in model.base_model.named_parameters() if f".{MARK}." in n}


def without(model: Any) -> dict[str, torch.Tensor]:
    """The model's `state_dict` as it was before it had adapters."""
    return {n: tensor for n, tensor in model.state_dict().items() if f".{MARK}." not in n}


def _spots(base: Any) -> list[tuple[Any, bool]]:
    """The modules that adapters go on, a layer after the other; see `_Spot.norm` for the flag.

    Raises:
        ModelError: a layer's feed-forward block cannot be found.
    """
    from torch import nn

    seen = _watched(base)
    for name, stack in base.named_modules():
        if not isinstance(stack, nn.ModuleList) or not len(stack):
            continue
        first = stack[0]
        spot = _spot(_inside(seen, f"{name}.0"), first, int(base.config.hidden_size))
        if spot is not None:
            layers = [m for m in base.modules() if type(m) is type(first)]
            found = [_named(layer, spot.name) for layer in layers]
            if None not in found and all(type(layer) is type(first) for layer in stack):
                return [(module, spot.norm) for module in found]
    raise ModelError(
        f"--adapter must be lora for this model; got 'pfeiffer', and in {type(base).__name__} the "
        "feed-forward block of each layer, which it goes after, cannot be found. Use --adapter "
        "lora."
    )


def _inside(seen: list[_Call], layer: str) -> list[_Call]:
    """The calls inside a layer, by their names in it."""
    prefix = f"{layer}."
    inner = [call for call in seen if call.name.startswith(prefix)]
    return [call._replace(name=call.name.removeprefix(prefix)) for call in inner]


def _named(layer: Any, name: str) -> Any | None:
    """A part of a layer by its name, if it is there."""
    try:
        return layer.get_submodule(name)
    except AttributeError:
        return None


def _spot(calls: list[_Call], layer: Any, width: int) -> _Spot | None:
    """Where an adapter goes in a layer, by the order in which its parts were called."""
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
            return _Spot(call.name, norm=True)
    return _Spot(last.name, norm=False)


def _is_block(calls: list[_Call], matrices: list[int], width: int) -> bool:
    """Whether the last two matrices are those of a feed-forward block: up, then down.

    What an attention reads does not depend on other tokens in a first layer, what it gives does.
    After it come its own matrix and, one after the other or beside it, the block's.
    """
    up, down = calls[matrices[-2]], calls[matrices[-1]]
    mixed = [calls[i].mixed for i in matrices]
    attends = any(mixed) and not all(mixed)
    after = sum(mixed) >= 3 if down.mixed else not up.mixed
    return attends and after and up.inside == width == down.outside < down.inside


def _watched(base: Any) -> list[_Call]:
    """Every module with a weight of its own, in the order of its first call.

    The model reads four random vectors twice, the first of them another the second time. Vectors
    rather than ids, because ids of padding would move RoBERTa's positions.
    """
    import torch

    table = base.get_input_embeddings().weight
    shape, chance = (2, TOKENS, table.shape[1]), torch.Generator().manual_seed(0)
    one, other = torch.randn(shape, generator=chance).to(table.device, table.dtype)
    other[1:] = one[1:]
    was = base.training
    base.eval()
    try:
        before, after = _outputs(base, one), _outputs(base, other)
    except Exception:  # a model that reads no vectors says so in its own way
        return []
    finally:
        base.train(was)
    return [
        _Call(name, weight, inside, out.shape[1], not torch.equal(out, after[name][2]))
        for name, (weight, inside, out) in before.items()
        if name in after
    ]


def _outputs(base: Any, states: torch.Tensor) -> dict[str, tuple[Any, int, torch.Tensor]]:
    """By a module's name: its weight, the width it reads, and what it gives for later tokens."""
    import torch

    found: dict[str, tuple[Any, int, torch.Tensor]] = {}

    def watch(name: str, weight: torch.Tensor) -> Any:
        def hook(module: Any, args: Any, kwargs: Any, out: Any) -> None:
            read = next((a for a in (*args, *kwargs.values()) if torch.is_tensor(a)), None)
            if read is not None and read.is_floating_point() and torch.is_tensor(out):
                found.setdefault(name, (weight, read.shape[-1], out.flatten(0, -2)[1:].clone()))

        return hook

    hooks = []
    for name, module in base.named_modules():
        weight = getattr(module, "weight", None)
        if torch.is_tensor(weight) and not any(module.children()):
            hooks.append(module.register_forward_hook(watch(name, weight), with_kwargs=True))
    try:
        with torch.no_grad():
            mask = torch.ones(1, TOKENS, dtype=torch.long, device=states.device)
            base(inputs_embeds=states[None], attention_mask=mask)
    finally:
        for hook in hooks:
            hook.remove()
    return found
