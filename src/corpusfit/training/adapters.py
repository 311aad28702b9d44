"""Adapters (Pfeiffer, LoRA) on a frozen model: add, save and open them."""

from __future__ import annotations

import json
import re
import warnings
from collections import OrderedDict
from collections.abc import Callable, Collection
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from corpusfit.core.artifacts import user_path, write_bytes
from corpusfit.core.errors import MissingDependencyError, ModelError, raise_machine_fault
from corpusfit.core.hub import HubName
from corpusfit.embed.contract import digest, file_digest
from corpusfit.embed.folders import ADAPTER, ModelSetting, find, transformer_folder
from corpusfit.embed.hardware import multiplied_in, seeded
from corpusfit.embed.transformer import LOCAL, loading, quiet
from corpusfit.training.folder import save_weights
from corpusfit.training.models import fingerprint, save_model
from corpusfit.training.plan import AdapterPlan

if TYPE_CHECKING:
    import torch

WEIGHTS = {"pfeiffer": "adapter.safetensors", "lora": "adapter_model.safetensors"}
"""Weights file of each kind of adapter; LoRA uses peft's file name."""


MARK = "pfeiffer"
"""Name of the bottleneck inside the norm or matrix that it is attached to."""

_PEFT_NAME = "default"  # peft's name for an unnamed adapter
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


class Base(NamedTuple):
    """The model that an adapter was trained on."""

    name: str  # its folder, or its hub id with the commit
    fingerprint: str  # `models.fingerprint` of its folder


def add_adapter(model: Any, plan: AdapterPlan, seed: int) -> None:
    """Add a new adapter to a model and freeze all other weights, head and embeddings included."""
    # The adapter goes into `model.base_model` and its weights are named from there, so that
    # it opens under any head.
    # Reference: mDAPT, section 3.3 and appendix D; Hu et al. (2021), LoRA.
    model.requires_grad_(False)
    base = model.base_model
    if plan.kind == "pfeiffer":
        insert_pfeiffer(base, plan.reduction, seed)
    else:
        insert_lora(base, plan.rank, plan.alpha, linear_layers(base), seed)
        # of a base in half precision, only what `_forward` multiplies may stay so
        replaced = (vars(module).get("forward") for module in model.modules())
        ours = (f for f in replaced if isinstance(f, partial) and f.func is _forward)
        narrow = {id(f.args[0].base_layer.weight) for f in ours}
        for p in model.parameters():
            p.data = p.data if id(p) in narrow else p.data.float()


def _forward(module: Any, x: torch.Tensor) -> torch.Tensor:
    """What peft computes for a layer with one adapter and no dropout, as one operation."""
    # peft's own casts the input to fp32, where autocast casts it back, keeps it so for the backward
    # pass, and scales and adds in the width of the output.
    if module.merged or module.disable_adapters:
        return type(module).forward(module, x)  # type: ignore[no-any-return]
    a, b = (part[_PEFT_NAME].weight for part in (module.lora_A, module.lora_B))
    layer, scale = module.base_layer, module.scaling[_PEFT_NAME]
    return _low_rank().apply(x, layer.weight, layer.bias, a, b, scale)  # type: ignore[no-any-return]


@cache
def _low_rank() -> Any:
    """The autograd function; torch is imported on first use."""
    import torch

    class LowRank(torch.autograd.Function):
        @staticmethod
        def forward(
            ctx: Any,
            x: torch.Tensor,
            weight: torch.Tensor,
            bias: torch.Tensor | None,
            a: torch.Tensor,
            b: torch.Tensor,
            scale: float,
        ) -> torch.Tensor:
            device, dtype = x.device.type, multiplied_in(x)
            ctx.scale, ctx.dtype = scale, x.dtype
            rows = x.flatten(0, -2).to(dtype)
            with torch.autocast(device, enabled=False):
                weight, a, b = (matrix.to(dtype) for matrix in (weight, a, b))
                low = (rows @ a.T).mul_(scale)
                # what is returned is no view, as some models change it in place
                out = rows.new_empty(*x.shape[:-1], len(weight))
                flat = out.view(len(rows), -1)
                if bias is None:
                    torch.mm(rows, weight.T, out=flat)
                else:
                    torch.addmm(bias.to(dtype), rows, weight.T, out=flat)
                flat.addmm_(low, b.T)
            ctx.save_for_backward(rows, low, weight, a, b)
            return out

        @staticmethod
        def backward(ctx: Any, *upstream: torch.Tensor) -> tuple[Any, ...]:
            rows, low, weight, a, b = ctx.saved_tensors
            g = upstream[0].flatten(0, -2).to(rows.dtype)
            of_low = (g @ b).mul_(ctx.scale)
            of_x = None
            if ctx.needs_input_grad[0]:
                of_x = (g @ weight).addmm_(of_low, a)
                of_x = of_x.view(*upstream[0].shape[:-1], -1).to(ctx.dtype)
            of_a, of_b = (of_low.T @ rows).float(), (g.T @ low).float()
            return of_x, None, None, of_a, of_b, None

    return LowRank


def hold_in_bf16(
    model: Any, *, merged: bool, exact: Callable[[torch.Tensor], bool] | None = None
) -> None:
    """Hold frozen matrices in bf16, in place, for a training that multiplies in bf16.

    Args:
        model: a model with an adapter, which stays in float32.
        merged: whether the weights will be saved, so that none may lose a bit.
        exact: whether a weight's numbers are numbers of bf16; by default it is tried.
    """
    # Autocast rounds the matrices of linear layers to bf16 at every call, so held in bf16 they give
    # the same bits, in half the memory and without the copies. It does not round embeddings, which
    # stay as they are, also where they are the head's matrix too.
    import torch
    from torch import nn
    from transformers.pytorch_utils import Conv1D

    def lossless(weight: torch.Tensor) -> bool:
        return torch.equal(weight.to(torch.bfloat16).to(weight.dtype), weight)

    exact, held = exact or lossless, 0
    tables = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    for module in model.modules():
        if type(module) in (nn.Linear, Conv1D):
            p = module.weight
            frozen = not p.requires_grad and id(p) not in tables
            if frozen and (not merged or exact(p.detach())):
                p.data = p.data.to(torch.bfloat16)
                held += p.numel()
    # A weight that still lies in the mapped file keeps all of it in memory, also what is held in
    # bf16 now. To copy the rest pays where that is less.
    rest = [p for p in (*model.parameters(), *model.buffers()) if p.dtype != torch.bfloat16]
    if held > sum(p.numel() for p in rest):
        for p in rest:
            if p.device.type == "cpu":
                p.data = p.data.clone()


def require_adaptable(model: Any, plan: AdapterPlan) -> None:
    """Raise what `add_adapter` would, and leave the model as it is."""
    import torch

    base = model.base_model
    if plan.kind == "pfeiffer":
        spots(base)
        return
    with seeded(0), quiet(), torch.device("meta"):  # a model without weights
        outline = type(base)(base.config)
    insert_lora(outline, plan.rank, plan.alpha, linear_layers(outline), 0)


def trainable_parameters(model: Any) -> dict[str, torch.nn.Parameter]:
    """Trainable weights by their names in the model; a shared weight is listed once."""
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def save_adapter(model: Any, tokenizer: Any, plan: AdapterPlan, base: Base, folder: Path) -> None:
    """Write an adapter, without its base model or merged with it (`plan.save`)."""
    # Merged, LoRA is added to the model's matrices. A Pfeiffer adapter cannot be (it has a ReLU),
    # so the folder holds the base model beside the adapter's files, and transformers alone opens
    # the base model without the adapter.
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    if plan.save == "merged":
        model.float()  # frozen matrices may be held in bf16
    if plan.kind == "lora" and plan.save == "merged":
        from peft.tuners.lora import LoraLayer

        state = {
            n.replace(".base_layer.", "."): tensor
            for n, tensor in model.state_dict().items()
            if ".lora_" not in n
        }
        for n, module in model.named_modules():
            if isinstance(module, LoraLayer):
                delta = module.get_delta_weight(_PEFT_NAME).detach()
                state[f"{n}.weight"] = module.get_base_layer().weight.detach() + delta
        save_model(model, tokenizer, folder, state)
        return
    at = user_path(base.name)
    name = str(at.resolve()) if at.is_dir() else base.name
    hub_name = None if at.is_dir() else HubName.parsed(name)
    note: dict[str, Any] = {"kind": plan.kind, "base": base._replace(name=name)._asdict()}
    if plan.kind == "pfeiffer":
        note["reduction"] = plan.reduction
        tensors = pfeiffer_weights(model)
    else:
        # The file of a masked model is for `AutoModel`, where fine-tuning starts; that of a
        # causal model is for `AutoModelForCausalLM`, as inference servers read it.
        causal = type(model).__name__ == MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(
            model.config.model_type
        )
        prefix = "base_model.model." + (f"{model.base_model_prefix}." if causal else "")
        note |= {"rank": plan.rank, "alpha": plan.alpha, "prefix": prefix}
        tensors = lora_weights(model, prefix)
        layers = linear_layers(model.base_model)
        settings = _config(
            model.base_model,
            plan.rank,
            plan.alpha,
            layers,
            task_type="CAUSAL_LM" if causal else "FEATURE_EXTRACTION",
            base_model_name_or_path=hub_name.repository if hub_name else name,
            revision=(hub_name.revision or None) if hub_name else None,
            inference_mode=True,
        )
        text = json.dumps(settings.to_dict(), default=sorted, indent=2, sort_keys=True)
        write_bytes(folder / "adapter_config.json", text.encode())
    save_weights(folder / WEIGHTS[plan.kind], {n: p.detach() for n, p in tensors.items()})
    write_bytes(folder / ADAPTER, json.dumps(note, indent=2, sort_keys=True).encode())
    if plan.save == "merged":
        state = {n: t for n, t in model.state_dict().items() if f".{MARK}." not in n}
        save_model(model, tokenizer, folder, state)


def open_adapted(folder: Path, auto_class: Any) -> Any:
    """Open a folder written by `save_adapter`, or any model folder."""
    note = _note(folder)
    try:
        import torch
        import transformers  # noqa: F401
        from safetensors import SafetensorError
        from safetensors.torch import load_file
    except ImportError as e:
        raise MissingDependencyError("An adapted model", "train") from e
    base, dtype = model_under(folder), torch.float32
    # safetensors only, and no code from the model's folder
    with loading(f"The model in {base}"):
        model = auto_class.from_pretrained(base, use_safetensors=True, dtype=dtype, **LOCAL)
    if note is None:
        return model
    path = folder / WEIGHTS[note["kind"]]
    try:
        stored = load_file(path)
    except (SafetensorError, OSError) as e:
        raise_machine_fault(e)
        raise ModelError(f"{path} cannot be read: {e}.") from e
    model.base_model.requires_grad_(False)
    if note["kind"] == "pfeiffer":
        insert_pfeiffer(model.base_model, note["reduction"], 0)
        weights = pfeiffer_weights(model)
    else:
        end = ".lora_A.weight"
        names = {n.removeprefix(note["prefix"]).removesuffix(end) for n in stored if end in n}
        insert_lora(model.base_model, note["rank"], note["alpha"], names, 0)
        weights = lora_weights(model, note["prefix"])
    if any(name not in stored or stored[name].shape != p.shape for name, p in weights.items()):
        raise ModelError(f"{path} does not match {folder / ADAPTER}. Adapt the model again.")
    with torch.no_grad():
        for name, parameter in weights.items():
            parameter.copy_(stored[name])
    return model


def model_under(folder: Path) -> Path:
    """The folder with the base model and the tokenizer: an adapter's base, or `folder` itself."""
    note = _note(folder)
    if note is None or (folder / "config.json").is_file():
        return folder
    base = Base(**note["base"])
    setting = ModelSetting(
        name=f"The base model of the adapter in {folder}",
        allowed="a model folder or a Hugging Face hub id",
        otherwise="adapt another model",
        extra="train",
    )
    path = transformer_folder(find(base.name, check_hub=False, setting=setting), setting)
    if fingerprint(path) != base.fingerprint:
        raise ModelError(
            f"The adapter in {folder} was trained on {base.name}, which has changed since. Restore "
            "that model's files, or adapt the model again."
        )
    return path


def adapter_plan(folder: Path) -> AdapterPlan | None:
    """Kind and sizes of the adapter in a folder; None without one. Raises as `open_adapted`."""
    note = _note(folder)
    if note is None:
        return None
    sizes = {name: note[name] for name in ("reduction", "rank", "alpha") if name in note}
    return AdapterPlan(note["kind"], **sizes)


def adapter_fingerprint(folder: Path) -> str:
    """Hex digest of an adapter and its base model: kind, sizes and weights of both."""
    note = _note(folder)
    if note is None:
        raise ModelError(f"{folder} holds no adapter: {ADAPTER} is missing.")
    model_under(folder)
    sizes = {**note, "base": note["base"]["fingerprint"]}
    return digest({"adapter": sizes, "weights": file_digest(folder / WEIGHTS[note["kind"]])})


def _note(folder: Path) -> dict[str, Any] | None:
    """Contents of a folder's `adapter.json`; None without one."""
    try:
        note = json.loads((folder / ADAPTER).read_text("utf-8"))
        sizes = {"pfeiffer": {"reduction"}, "lora": {"rank", "alpha", "prefix"}}[note["kind"]]
        whole = set(note) == {"kind", "base", *sizes} and set(note["base"]) == set(Base._fields)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise_machine_fault(e)
        whole = False
    if not whole:
        raise ModelError(
            f"{folder / ADAPTER} is damaged or was not written by corpusfit adapt. "
            "Adapt the model again."
        )
    return dict(note)


def linear_layers(base: Any) -> list[str]:
    """Names of a transformer's linear layers, including those with an adapter."""
    from torch import nn
    from transformers.pytorch_utils import Conv1D

    kinds = (nn.Linear, Conv1D)
    modules = {name: module for name, module in base.named_modules() if "lora_" not in name}
    return [
        name
        for name, module in modules.items()
        if not name.endswith(".base_layer")
        and isinstance(getattr(module, "base_layer", module), kinds)
    ]


def insert_lora(base: Any, rank: int, alpha: int, names: Collection[str], seed: int) -> None:
    """Add matrices A and B to linear layers; B starts at zero, so outputs do not change."""
    # Expert matrices (mixture of experts) are not linear layers and get none.
    # Reference: Hu et al. (2021), LoRA, section 4.1.
    try:
        from peft import inject_adapter_in_model
        from peft.tuners.lora import Linear, LoraLayer
        from torch import nn
    except ImportError as e:
        raise MissingDependencyError("`adapter=lora`", "train") from e
    layers = set(linear_layers(base)) & set(names)
    why = "it has no linear layers to adapt"
    try:
        with seeded(seed), warnings.catch_warnings():
            # names that do not fit are checked below, so the warning is noise
            warnings.simplefilter("ignore", RuntimeWarning)
            if layers:
                inject_adapter_in_model(_config(base, rank, alpha, layers), base)
                why = "peft adapts other layers than named"
    except ValueError as e:
        why = str(e).rstrip(".")
    adapted = {name for name, module in base.named_modules() if isinstance(module, LoraLayer)}
    if not layers or adapted != layers:
        raise ModelError(
            f"`adapter` must be left out for this model; got 'lora', and {type(base).__name__} "
            f"cannot be adapted with LoRA: {why}. Train all weights, or name another model."
        )
    for module in base.modules():
        if isinstance(module, Linear) and type(module.base_layer) is nn.Linear:
            module.forward = partial(_forward, module)


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


def lora_weights(model: Any, before: str) -> dict[str, torch.nn.Parameter]:
    """A and B of every layer by their names in peft's file, which start with `before`."""
    end = f".{_PEFT_NAME}.weight"
    return {
        f"{before}{name.removesuffix(end)}.weight": parameter
        for name, parameter in model.base_model.named_parameters()
        if ".lora_" in name
    }


def insert_pfeiffer(base: Any, reduction: int, seed: int) -> None:
    """Add an adapter to every layer; outputs stay the same bits, because U starts at zero."""
    # With r the output of the feed-forward block and h the norm of r plus the residual, r
    # becomes r + U(ReLU(D(h))), before the same norm: the norm's input s becomes s +
    # U(ReLU(D(norm(s)))), so the norm is computed twice. A pre-norm layer (GPT-2, Llama,
    # ModernBERT) has no norm after the block: there h is r. Where the norm reads r without
    # the residual (Gemma 2, OLMo 2), s is r.
    # Reference: mDAPT, section 3.3 and appendix D; Pfeiffer et al. (2020), MAD-X, section 3.
    import torch
    from torch import nn

    generator = torch.Generator().manual_seed(seed)  # torch's global one is not used
    width = int(base.config.hidden_size)
    narrow = max(1, width // reduction)
    for module, norm in spots(base):
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


def _before_norm(norm: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    # `forward` is called directly, so hooks do not run for h
    return (args[0] + norm.pfeiffer(norm.forward(*args)), *args[1:])


def _after_block(block: Any, args: tuple[Any, ...], out: Any) -> Any:
    return out + block.pfeiffer(out)


def pfeiffer_weights(model: Any) -> dict[str, torch.nn.Parameter]:
    """The adapter's weights by their names inside `model.base_model`."""
    return {n: p for n, p in model.base_model.named_parameters() if f".{MARK}." in n}


def spots(base: Any) -> list[tuple[Any, bool]]:
    """The modules to attach adapters to, layer by layer, and whether they are norms."""
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
