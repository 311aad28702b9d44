"""A language model to be trained further: opened, checked against its objective, and saved.

What: a folder or a hub id becomes a model with the head that the objective needs, its tokenizer and
what training has to know of that; and back to a folder.
Why: a head that the file lacks is filled with random numbers by transformers and only logged; a
day of training on it looks like any other. So missing weights are an error, until asked for.
Trade-off: only fast tokenizers, which are one JSON file that workers open without transformers;
only safetensors, and no code of a model's own; no encoder-decoders, which train otherwise.
Reference: Gururangan et al. (2020), Don't Stop Pretraining; the safetensors format.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpusfit.adapt.plan import ModelPlan
from corpusfit.adapt.special_tokens import Marks, marks_of
from corpusfit.artifacts import is_local, remove, writing
from corpusfit.embed.contract import digest
from corpusfit.embed.folders import Setting, file_digests, find, transformer_folder
from corpusfit.embed.hardware import seeded
from corpusfit.embed.transformer import position_limit, quiet
from corpusfit.errors import MissingDependencyError, ModelError, StorageError

MODEL = Setting(
    flag="--model",
    allowed="a model folder or a Hugging Face hub id",
    otherwise="begin with an untrained one: --init tiny",
    extra="train",
)
AUTO = {
    "mlm": "AutoModelForMaskedLM",
    "mlm+nsp": "AutoModelForPreTraining",
    "causal": "AutoModelForCausalLM",
}
"""Class of transformers that opens a model for an objective."""

_OTHER = {"mlm": "causal", "mlm+nsp": "mlm", "causal": "mlm"}


@dataclass(frozen=True, eq=False)
class Opened:
    """A model that is ready to be trained.

    Attributes:
        model: the torch module in float32, on the CPU, in evaluation mode.
        tokenizer: of transformers; `marks.bare` gives what cuts text inside it.
        marks: what training has to know of it.
        longest: tokens that a row may have, special ones included.
        name: what the user called it.
        fingerprint: hex digest of the files that it came from, or of how it was made.
    """

    model: Any
    tokenizer: Any
    marks: Marks
    longest: int
    name: str
    fingerprint: str


def open_model(
    plan: ModelPlan,
    objective: str,
    *,
    attention: str,
    seed: int,
    on_warn: Callable[[str], None],
) -> Opened:
    """Open the model that a plan names.

    Args:
        plan: its name, and whether it may get a new head.
        objective: `mlm`, `mlm+nsp` or `causal`.
        attention: `eager` or `sdpa`; a model that does not know the latter is opened with `eager`.
        seed: of a new head.
        on_warn: told of a new head.

    Raises:
        UsageError: it is neither a folder nor a model of the hub.
        ModelError: it cannot be loaded, or is not made for the objective.
        MissingDependencyError: torch or transformers is not installed.
    """
    place = transformer_folder(find(plan.name, setting=MODEL), MODEL)
    tokenizer, model, missing = _load(plan.name, place, objective, attention, seed)
    head, body = without_weights(model, missing)
    if body:
        raise ModelError(
            f"--model: the weights in {plan.name} are not all of a {type(model).__name__}: "
            f"{_some(body)} missing. Name a folder with the whole model."
        )
    if head and not plan.new_head:
        raise ModelError(
            f"--model: {plan.name} lacks the head that --objective {objective} needs: "
            f"{_some(head)} missing. Say --new-head to begin with a new one, which takes a good "
            f"part of the training to learn, or name a model with it."
        )
    if head:
        on_warn(
            f"{plan.name} lacks the head that {objective} needs; a new one begins with random "
            f"numbers: {_some(head)} new."
        )
    return opened(model, tokenizer, objective, plan.name, fingerprint(place))


def fingerprint(folder: Path) -> str:
    """Identity of a model by its files, those of its tokenizer included.

    Raises:
        ModelError: files are missing.
    """
    return digest({"kind": "model 1", "files": file_digests(transformer_folder(folder, MODEL))})


def opened(model: Any, tokenizer: Any, objective: str, name: str, fingerprint: str) -> Opened:
    """A model with what training has to know, checked against its objective.

    Raises:
        ModelError: the model or its tokenizer is not made for the objective.
    """
    if objective == "mlm+nsp" and not hasattr(getattr(model, "cls", None), "seq_relationship"):
        raise _unfit(name, objective, f"{type(model).__name__} does not predict the next sentence")
    if objective == "causal" and _reads_ahead(model):
        raise _unfit(name, objective, "each of its tokens sees those that come after")
    marks = marks_of(tokenizer, name, model.get_input_embeddings().weight.shape[0])
    if objective != "causal" and marks.mask is None:
        raise _unfit(name, "mlm", "its tokenizer has no mask token")
    return Opened(model, tokenizer, marks, position_limit(model), name, fingerprint)


def _load(
    name: str, place: Path, objective: str, attention: str, seed: int
) -> tuple[Any, Any, Sequence[str]]:
    """Tokenizer, model, and the names of weights that the file lacks."""
    try:
        import torch
        import transformers
    except ImportError as e:
        raise MissingDependencyError("corpusfit adapt", MODEL.extra) from e
    local = {"local_files_only": True, "trust_remote_code": False}
    given = {"use_safetensors": True, "dtype": torch.float32, "output_loading_info": True, **local}
    kind = getattr(transformers, AUTO[objective])
    try:
        with quiet(), seeded(seed):
            if transformers.AutoConfig.from_pretrained(place, **local).is_encoder_decoder:
                raise ModelError(
                    f"--model: {name} is an encoder-decoder; only encoders and decoders are "
                    "trained here. Name one of those."
                )
            tokenizer = transformers.AutoTokenizer.from_pretrained(place, use_fast=True, **local)
            try:
                model, info = kind.from_pretrained(place, attn_implementation=attention, **given)
            except ValueError as e:
                if "scaled_dot_product_attention" not in str(e):
                    raise
                model, info = kind.from_pretrained(place, attn_implementation="eager", **given)
    except ModelError:
        raise
    except Exception as e:  # a broken folder shows as any of a dozen kinds
        reason = (str(e).strip() or type(e).__name__).splitlines()[0]
        if reason.startswith("Unrecognized configuration class"):
            raise _unfit(name, objective, "its architecture has no such head") from e
        raise ModelError(f"--model: {name} cannot be loaded: {reason}") from e
    return tokenizer, model, info["missing_keys"]


def _unfit(name: str, objective: str, why: str) -> ModelError:
    return ModelError(
        f"--model: {name} cannot be trained with --objective {objective}: {why}. "
        f"Say --objective {_OTHER[objective]}, or name another model."
    )


def without_weights(model: Any, missing: Sequence[str]) -> tuple[list[str], list[str]]:
    """Weights that no file gave, of the head and of the rest; one tied to another has its."""
    names: dict[int, list[str]] = {}
    for name, weight in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(weight), []).append(name)
    gone = sorted(same[0] for same in names.values() if set(same) <= set(missing))
    inside = f"{model.base_model_prefix}."
    body = [n for n in gone if n.startswith(inside) and ".pooler." not in n]
    return [n for n in gone if n not in body], body


def _some(names: list[str]) -> str:
    """The first of a few names, and how many more there are."""
    more = f" and {len(names) - 1} more are" if len(names) > 1 else " is"
    return f"{names[0]}{more}"


def _reads_ahead(model: Any) -> bool:
    """Whether a token's logits depend on a later token."""
    import torch

    ids = torch.tensor([[1, 2, 3, 4], [1, 2, 3, 5]])
    with torch.no_grad():
        logits = model(input_ids=ids).logits[:, :3]
    return not torch.allclose(logits[0], logits[1], rtol=1e-4, atol=1e-5)


def save_model(
    model: Any, tokenizer: Any, folder: Path, weights: dict[str, Any] | None = None
) -> None:
    """Write a folder that `AutoModel.from_pretrained` and every setting for models read.

    Files appear whole, `config.json` last, so that a folder that has one has all.

    Args:
        model: a model of transformers, without wrappers; its weights keep their dtype.
        tokenizer: of transformers.
        folder: here or in a store; what it holds under the same names is replaced.
        weights: the model's `state_dict` when left out.

    Raises:
        StorageError: the folder cannot be written.
    """
    aside = folder / "saving" if is_local(folder) else Path(tempfile.mkdtemp(prefix="corpusfit-"))
    remove(aside)
    try:
        aside.mkdir(parents=True)
        with quiet():
            model.save_pretrained(aside, state_dict=weights)
            tokenizer.save_pretrained(aside)
        _name_for_all(aside / "tokenizer_config.json")
        for path in sorted(aside.iterdir(), key=lambda p: (p.name == "config.json", p.name)):
            with open(path, "rb") as whole, writing(folder / path.name) as f:
                shutil.copyfileobj(whole, f, 1 << 20)
    except StorageError:
        raise
    except Exception as e:  # safetensors has its own error for a full disk
        raise StorageError(f"Cannot write the model to {folder}: {e}.") from e
    finally:
        remove(aside)


def _name_for_all(path: Path) -> None:
    """Call transformers 5's general tokenizer by the name that version 4 knows as well."""
    fields = json.loads(path.read_text("utf-8"))
    if fields.get("tokenizer_class") == "TokenizersBackend":
        fields["tokenizer_class"] = "PreTrainedTokenizerFast"
        path.write_text(json.dumps(fields, indent=2, sort_keys=True), "utf-8")
