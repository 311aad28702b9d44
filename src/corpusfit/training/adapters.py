"""Add adapters (Pfeiffer, LoRA) to a frozen model; save and open them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from corpusfit.core.artifacts import user_path, write_bytes
from corpusfit.core.errors import MissingDependencyError, ModelError, raise_machine_fault
from corpusfit.embed.contract import digest, file_digest
from corpusfit.embed.folders import ADAPTER, Setting, find, transformer_folder
from corpusfit.embed.hardware import seeded
from corpusfit.embed.transformer import LOCAL, loading, quiet
from corpusfit.training import lora, pfeiffer
from corpusfit.training.checkpoints import save_weights
from corpusfit.training.models import fingerprint, save_model
from corpusfit.training.plan import AdapterPlan

if TYPE_CHECKING:
    import torch


WEIGHTS = {"pfeiffer": "adapter.safetensors", "lora": "adapter_model.safetensors"}
"""Weights file of each kind of adapter; LoRA uses peft's file name."""


class Base(NamedTuple):
    """The model that an adapter was trained on.

    Attributes:
        name: its folder or hub id.
        fingerprint: `models.fingerprint` of its folder.
    """

    name: str
    fingerprint: str


def add_adapter(model: Any, plan: AdapterPlan, seed: int) -> None:
    """Add a new adapter to a model and freeze all other weights, head and embeddings included.

    The adapter goes into `model.base_model` and its weights are named from there, so that it opens
    under any head.

    Reference: mDAPT, section 3.3 and appendix D; Hu et al. (2021), LoRA.
    """
    model.requires_grad_(False)
    base = model.base_model
    if plan.kind == "pfeiffer":
        pfeiffer.insert(base, plan.reduction, seed)
    else:
        lora.insert(base, plan.rank, plan.alpha, lora.linear(base), seed)


def require_adaptable(model: Any, plan: AdapterPlan) -> None:
    """Raise what `add_adapter` would, and leave the model as it is."""
    import torch

    base = model.base_model
    if plan.kind == "pfeiffer":
        pfeiffer.spots(base)
        return
    with seeded(0), quiet(), torch.device("meta"):  # a model without weights
        outline = type(base)(base.config)
    lora.insert(outline, plan.rank, plan.alpha, lora.linear(outline), 0)


def trainable_parameters(model: Any) -> dict[str, torch.nn.Parameter]:
    """Trainable weights by their names in the model; a shared weight is listed once."""
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def save_adapter(model: Any, tokenizer: Any, plan: AdapterPlan, base: Base, folder: Path) -> None:
    """Write an adapter, without its base model or merged with it (`plan.save`).

    `apart`: `adapter.json` (kind, sizes, name and fingerprint of the base model) and
    `adapter.safetensors`; for LoRA peft's `adapter_config.json` and `adapter_model.safetensors`.
    `merged`: a model folder. LoRA is added to the model's matrices. A Pfeiffer adapter cannot be
    (it has a ReLU), so the folder holds the base model and the adapter's files, and transformers
    alone opens the base model without the adapter.
    """
    if plan.kind == "lora" and plan.save == "merged":
        save_model(model, tokenizer, folder, lora.merged_state(model))
        return
    at = user_path(base.name)
    name = str(at.resolve()) if at.is_dir() else base.name
    note: dict[str, Any] = {"kind": plan.kind, "base": base._replace(name=name)._asdict()}
    if plan.kind == "pfeiffer":
        note["reduction"] = plan.reduction
        tensors = pfeiffer.weights(model)
    else:
        note |= {"rank": plan.rank, "alpha": plan.alpha, "prefix": lora.prefix(model)}
        tensors = lora.weights(model, note["prefix"])
        settings = lora.config(model, plan.rank, plan.alpha, name)
        write_bytes(folder / "adapter_config.json", settings)
    save_weights(folder / WEIGHTS[plan.kind], {n: p.detach() for n, p in tensors.items()})
    write_bytes(folder / ADAPTER, json.dumps(note, indent=2, sort_keys=True).encode())
    if plan.save == "merged":
        save_model(model, tokenizer, folder, pfeiffer.state_without_adapter(model))


def open_adapted(folder: Path, auto_class: Any) -> Any:
    """Open a folder written by `save_adapter`, or any model folder."""
    note = _note(folder)
    try:
        import torch
        import transformers  # noqa: F401
    except ImportError as e:
        raise MissingDependencyError("An adapted model", "train") from e
    place, dtype = model_under(folder), torch.float32
    with loading(f"The model in {place}"):  # safetensors only, no code from the model's folder
        model = auto_class.from_pretrained(place, use_safetensors=True, dtype=dtype, **LOCAL)
    if note is not None:
        _fill(model, note, folder / WEIGHTS[note["kind"]])
    return model


def model_under(folder: Path) -> Path:
    """The folder with the base model and the tokenizer of an adapter's folder.

    Returns `folder` itself if it holds a whole model. Raises as `open_adapted` does.
    """
    note = _note(folder)
    if note is None or (folder / "config.json").is_file():
        return folder
    return _base(folder, Base(**note["base"]))


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


def _base(folder: Path, base: Base) -> Path:
    """The folder of an adapter's base model, checked by its fingerprint."""
    setting = Setting(
        flag=f"The base model of the adapter in {folder}",
        allowed="a model folder or a Hugging Face hub id",
        otherwise="adapt another model",
        extra="train",
    )
    place = transformer_folder(find(base.name, refresh=False, setting=setting), setting)
    if fingerprint(place) != base.fingerprint:
        raise ModelError(
            f"The adapter in {folder} was trained on {base.name}, which has changed since. Restore "
            "that model's files, or adapt the model again."
        )
    return place


def _fill(model: Any, note: Mapping[str, Any], path: Path) -> None:
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        found = load_file(path)
    except (SafetensorError, OSError) as e:
        raise_machine_fault(e)
        raise ModelError(f"{path} cannot be read: {e}.") from e
    model.base_model.requires_grad_(False)
    if note["kind"] == "pfeiffer":
        pfeiffer.insert(model.base_model, note["reduction"], 0)
        places = pfeiffer.weights(model)
    else:
        end = ".lora_A.weight"
        names = {n.removeprefix(note["prefix"]).removesuffix(end) for n in found if end in n}
        lora.insert(model.base_model, note["rank"], note["alpha"], names, 0)
        places = lora.weights(model, note["prefix"])
    if any(name not in found or found[name].shape != p.shape for name, p in places.items()):
        raise ModelError(f"{path} does not match {path.parent / ADAPTER}. Adapt the model again.")
    with torch.no_grad():
        for name, parameter in places.items():
            parameter.copy_(found[name])
