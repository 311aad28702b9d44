"""Adds, saves and opens adapters, whatever their kind.

What: a few new weights in a frozen model, that are trained and saved in place of the model's own.
Why: the model's own weights need neither gradients nor moments, and an adapter's file is small.
Reference: mDAPT, section 3.3 and appendix D; Hu et al. (2021), LoRA.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from corpusfit.core.artifacts import user_path, write_bytes
from corpusfit.core.errors import MissingDependencyError, ModelError, raise_machine_fault
from corpusfit.core.gone import moved
from corpusfit.embed.contract import digest, file_digest
from corpusfit.embed.folders import ADAPTER, ModelSetting, find, transformer_folder
from corpusfit.embed.hardware import seeded
from corpusfit.embed.transformer import LOCAL, loading, quiet
from corpusfit.training.adapters import ADAPTERS, load
from corpusfit.training.contract import Adapter, Base
from corpusfit.training.folder import save_weights
from corpusfit.training.models import fingerprint, save_model
from corpusfit.training.plan import AdapterPlan

if TYPE_CHECKING:
    import torch


def adapter_of(plan: AdapterPlan) -> Adapter:
    """The adapter that a plan names, with its sizes."""
    kind = load(plan.kind)
    sizes = {field.name for field in dataclasses.fields(kind)} & vars(plan).keys()
    return kind(**{name: getattr(plan, name) for name in sizes})


def add_adapter(model: Any, plan: AdapterPlan, seed: int) -> None:
    """Add a new adapter to a model and freeze all other weights, head and embeddings included."""
    model.requires_grad_(False)
    adapter_of(plan).insert(model, seed)


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

    exact = exact or lossless
    weights_in_bf16 = 0
    tables = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    for module in model.modules():
        if type(module) in (nn.Linear, Conv1D):
            p = module.weight
            frozen = not p.requires_grad and id(p) not in tables
            if frozen and (not merged or exact(p.detach())):
                p.data = p.data.to(torch.bfloat16)
                weights_in_bf16 += p.numel()
    # A weight that still lies in the mapped file keeps all of it in memory, also what is held in
    # bf16 now. To copy the rest pays where that is less.
    rest = [p for p in (*model.parameters(), *model.buffers()) if p.dtype != torch.bfloat16]
    if weights_in_bf16 > sum(p.numel() for p in rest):
        for p in rest:
            if p.device.type == "cpu":
                p.data = p.data.clone()


def require_adaptable(model: Any, plan: AdapterPlan) -> None:
    """Raise what `add_adapter` would, and leave the model as it is."""
    import torch

    base = model.base_model
    with seeded(0), quiet(), torch.device("meta"):  # a model without weights
        outline = type(base)(base.config)
    adapter_of(plan).insert(outline, 0)


def trainable_parameters(model: Any) -> dict[str, torch.nn.Parameter]:
    """Trainable weights by their names in the model; a shared weight is listed once."""
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def save_adapter(model: Any, tokenizer: Any, plan: AdapterPlan, base: Base, folder: Path) -> None:
    """Write an adapter, without its base model or merged with it (`plan.save`)."""
    adapter = adapter_of(plan).under(model)
    if plan.save == "merged":
        model.float()  # frozen matrices may be held in bf16
        save_model(model, tokenizer, folder, adapter.merged(model))
        return
    at = user_path(base.name)
    base = base._replace(name=str(at.resolve()) if at.is_dir() else base.name)
    adapter.write(model, base, folder)
    tensors = {n: p.detach() for n, p in adapter.weights(model).items()}
    save_weights(folder / adapter.file, tensors)
    note = {"kind": plan.kind, "base": base._asdict(), **dataclasses.asdict(adapter)}
    write_bytes(folder / ADAPTER, json.dumps(note, indent=2, sort_keys=True).encode())


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
    base = model_under(folder)
    dtype = torch.float32
    # safetensors only, and no code from the model's folder
    with loading(f"The model in {base}"):
        model = auto_class.from_pretrained(base, use_safetensors=True, dtype=dtype, **LOCAL)
    if note is None:
        return model
    path = folder / note.adapter.file
    try:
        stored = load_file(path)
    except (SafetensorError, OSError) as e:
        raise_machine_fault(e)
        raise ModelError(f"{path} cannot be read: {e}. Adapt the model again.") from e
    model.base_model.requires_grad_(False)
    note.adapter.insert(model, 0, stored)
    weights = note.adapter.weights(model)
    if any(name not in stored or stored[name].shape != p.shape for name, p in weights.items()):
        raise ModelError(f"{path} does not match {folder / ADAPTER}. Adapt the model again.")
    with torch.no_grad():
        for name, parameter in weights.items():
            parameter.copy_(stored[name])
    return model


def model_under(folder: Path) -> Path:
    """The folder with the base model and the tokenizer: an adapter's base, or `folder` itself."""
    note = _note(folder)
    if note is None:
        return folder
    base = note.base
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
    sizes = dataclasses.asdict(note.adapter)
    settings = vars(AdapterPlan()).keys() & sizes.keys()
    return AdapterPlan(note.kind, **{name: sizes[name] for name in settings})


def adapter_fingerprint(folder: Path) -> str:
    """Hex digest of an adapter and its base model: kind, sizes and weights of both."""
    note = _note(folder)
    if note is None:
        raise ModelError(
            f"{folder} holds no adapter: {ADAPTER} is missing. Name a folder that "
            "`corpusfit adapt` wrote with `adapter`."
        )
    model_under(folder)
    sizes = {"kind": note.kind, **dataclasses.asdict(note.adapter), "base": note.base.fingerprint}
    return digest({"adapter": sizes, "weights": file_digest(folder / note.adapter.file)})


class _Note(NamedTuple):
    """What `adapter.json` says."""

    kind: str
    adapter: Adapter
    base: Base


def _note(folder: Path) -> _Note | None:
    """Contents of a folder's `adapter.json`; None without one."""
    damaged = ModelError(
        f"{folder / ADAPTER} is damaged or was not written by corpusfit adapt. "
        "Adapt the model again."
    )
    try:
        note = json.loads((folder / ADAPTER).read_text("utf-8"))
        kind = note.pop("kind")
        base = note.pop("base")
        if set(base) != set(Base._fields):
            raise damaged
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as e:
        raise_machine_fault(e)
        raise damaged from e
    if kind not in ADAPTERS.names():
        elsewhere = moved(f"adapter.kind={kind}")
        raise ModelError(f"{folder / ADAPTER}: {elsewhere}") if elsewhere else damaged
    if set(note) != {field.name for field in dataclasses.fields(load(kind))}:
        raise damaged
    return _Note(kind, load(kind)(**note), Base(**base))
