"""Adapters: a few new weights are trained, and the model's own stay as they are.

What: `add_adapter` puts Pfeiffer's bottlenecks or LoRA into a model and freezes all else;
`save_adapter` writes them apart from the model or with it, `open_adapted` opens either.
Why: an adapter is a hundredth of a model to keep and to send, and needs no memory for the moments
of the rest. It goes into `model.base_model` and names its weights from there, so that it can be
opened under any head.
Trade-off: LoRA folds into the model's matrices, and what comes out is a model like any other. A
bottleneck does not, because of its ReLU: "merged" is then one folder with both, which transformers
alone opens as the model without its adapter.
Reference: mDAPT, section 3.3 and appendix D; Hu et al. (2021), LoRA.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from corpusfit.adapt import lora, pfeiffer
from corpusfit.adapt.checkpoints import save_weights
from corpusfit.adapt.models import fingerprint, save_model
from corpusfit.adapt.plan import AdapterPlan
from corpusfit.artifacts import write_bytes
from corpusfit.embed.contract import digest, file_digest
from corpusfit.embed.folders import ADAPTER, Setting, find, transformer_folder
from corpusfit.embed.transformer import quiet
from corpusfit.errors import MissingDependencyError, ModelError

if TYPE_CHECKING:
    import torch


WEIGHTS = {"pfeiffer": "adapter.safetensors", "lora": "adapter_model.safetensors"}
"""By the kind of adapter; LoRA's is peft's name."""


class Base(NamedTuple):
    """The model that an adapter was trained on.

    Attributes:
        name: its folder or hub id.
        fingerprint: `models.fingerprint` of its folder.
    """

    name: str
    fingerprint: str


def add_adapter(model: Any, plan: AdapterPlan, seed: int) -> None:
    """Put a new adapter into a model and freeze all else, head and embeddings included.

    Args:
        model: a model of transformers, changed in place; what it gives stays what it gave.
        plan: kind and sizes; its kind is not "".
        seed: of the new weights.

    Raises:
        ModelError: the model has no place for this kind.
        MissingDependencyError: peft is not installed.
    """
    model.requires_grad_(False)
    base = model.base_model
    if plan.kind == "pfeiffer":
        pfeiffer.insert(base, plan.reduction, seed)
    else:
        lora.insert(base, plan.rank, plan.alpha, lora.linear(base), seed)


def trainable(model: Any) -> dict[str, torch.nn.Parameter]:
    """The weights that train, by their names in the model; one that is used twice comes once."""
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def save_adapter(model: Any, tokenizer: Any, plan: AdapterPlan, base: Base, folder: Path) -> None:
    """Write an adapter, apart from its model or merged with it, as `plan.save` says.

    Apart: `adapter.json` (kind, sizes, the model's name and fingerprint) and `adapter.safetensors`,
    or for LoRA peft's `adapter_config.json` and `adapter_model.safetensors`. Merged: a model
    folder, for LoRA with new weights, else with the model's own and the adapter's files beside it.

    Args:
        model: with the adapter in place; it stays as it is.
        tokenizer: of transformers; written where the model is.
        plan: what `add_adapter` was given.
        base: the model before it had an adapter.
        folder: here or in a store.

    Raises:
        StorageError: the folder cannot be written.
    """
    if plan.kind == "lora" and plan.save == "merged":
        save_model(model, tokenizer, folder, lora.merged(model))
        return
    at = Path(base.name).expanduser()
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
        save_model(model, tokenizer, folder, pfeiffer.without(model))


def open_adapted(folder: Path, auto_class: Any) -> Any:
    """Open what `save_adapter` wrote, or any model folder.

    Args:
        folder: on this machine.
        auto_class: of transformers: `AutoModel`, `AutoModelForMaskedLM`, and so on.

    Returns:
        The model in float32, on the CPU, in evaluation mode. An adapter that is in place can be
        trained, and so can a head; what is under the adapter is frozen.

    Raises:
        UsageError: the model under an adapter is gone, and is no model of the hub.
        ModelError: the folder or the model under it cannot be loaded, or that model has changed.
        MissingDependencyError: transformers or peft is not installed.
    """
    note = _note(folder)
    model = _model(model_under(folder), auto_class)
    if note is not None:
        _fill(model, note, folder / WEIGHTS[note["kind"]])
    return model


def model_under(folder: Path) -> Path:
    """The folder with the model and the tokenizer that an adapter's folder is for.

    A folder with both, or without an adapter, is its own; raises as `open_adapted` does.
    """
    note = _note(folder)
    if note is None or (folder / "config.json").is_file():
        return folder
    return _base(folder, Base(**note["base"]))


def adapter_fingerprint(folder: Path) -> str:
    """Identity of an adapter and of the model under it: kind, sizes and weights of both.

    Raises:
        UsageError: the model under it is gone, and is no model of the hub.
        ModelError: the folder is no adapter's, or the model under it has changed.
    """
    note = _note(folder)
    if note is None:
        raise ModelError(f"{folder} holds no adapter.")
    model_under(folder)
    sizes = {**note, "base": note["base"]["fingerprint"]}
    return digest({"adapter": sizes, "weights": file_digest(folder / WEIGHTS[note["kind"]])})


def _note(folder: Path) -> dict[str, Any] | None:
    """What a folder says of its adapter; None where it has none."""
    try:
        note = json.loads((folder / ADAPTER).read_text("utf-8"))
        sizes = {"pfeiffer": {"reduction"}, "lora": {"rank", "alpha", "prefix"}}[note["kind"]]
        whole = set(note) == {"kind", "base", *sizes} and set(note["base"]) == set(Base._fields)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        whole = False
    if not whole:
        raise ModelError(f"{folder / ADAPTER} is not what corpusfit adapt writes there.")
    return dict(note)


def _base(folder: Path, base: Base) -> Path:
    """The folder of the model under an adapter, if it is still the one."""
    setting = Setting(
        flag=f"The model under the adapter in {folder}",
        allowed="a model folder or a Hugging Face hub id",
        otherwise="adapt another",
        extra="train",
    )
    place = transformer_folder(find(base.name, refresh=False, setting=setting), setting)
    if fingerprint(place) != base.fingerprint:
        raise ModelError(
            f"The adapter in {folder} was trained on {base.name}, and the model there has changed "
            "since. Put the former files back, or adapt the model again."
        )
    return place


def _model(folder: Path, auto_class: Any) -> Any:
    """A model from local files: safetensors only, no code of the model's."""
    try:
        import torch
        import transformers  # noqa: F401
    except ImportError as e:
        raise MissingDependencyError("An adapted model", "train") from e
    local = {"local_files_only": True, "trust_remote_code": False}
    try:
        with quiet():
            return auto_class.from_pretrained(
                folder, use_safetensors=True, dtype=torch.float32, **local
            )
    except ModelError:
        raise
    except Exception as e:  # a broken folder shows as any of a dozen kinds
        reason = (str(e).strip() or type(e).__name__).splitlines()[0]
        raise ModelError(f"The model in {folder} cannot be loaded: {reason}") from e


def _fill(model: Any, note: Mapping[str, Any], path: Path) -> None:
    """Put a saved adapter into a model whose base it was trained on."""
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        found = load_file(path)
    except (SafetensorError, OSError) as e:
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
        raise ModelError(
            f"{path} does not hold the adapter that {path.parent / ADAPTER} speaks of."
        )
    with torch.no_grad():
        for name, parameter in places.items():
            parameter.copy_(found[name])
