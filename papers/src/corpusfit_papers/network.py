"""What asks a network shares: batches, language models, and their losses."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corpusfit.contracts import (
    MissingDependencyError,
    ModelError,
    ModelSetting,
    Predictor,
    cross_entropies,
    find,
    open_complete,
    require_own_code,
    seeded,
    transformer_folder,
)

ROWS = 4_096
"""Texts scored at once: enough to pack batches by length."""


def batch_tokens(device: str) -> int:
    """Tokens per training batch; all layers' activations are in memory."""
    return 1_024 if device == "cpu" else 8_192


def new_model(kind: str, config: str, subject: str) -> Any:
    """A model of one of transformers' automatic classes in float32, with weights to overwrite.

    Args:
        kind: the class's name.
        config: the model's configuration, JSON.
        subject: the model, in the user's words.

    Raises:
        ModelError: the configuration names code of its own.
        ImportError: transformers or torch are not installed.
    """
    import torch
    import transformers

    fields = json.loads(config)
    require_own_code(fields, subject)
    settings = transformers.AutoConfig.for_model(fields.pop("model_type"), **fields)
    with seeded(0):
        return getattr(transformers, kind).from_config(
            settings, dtype=torch.float32, trust_remote_code=False
        )


class Row(NamedTuple):
    """A text as a language model reads it, and what the model has to predict."""

    text: int  # its number
    ids: NDArray[np.int64]  # [l], token ids, some of them masked for a masked model
    at: NDArray[np.int64]  # [m], positions whose logits predict
    labels: NDArray[np.int64]  # [m], the tokens there


def row_losses(predictor: Predictor, rows: Sequence[Row], fill: int) -> Any:
    """The loss of each label of a batch in nats, a float32 tensor, row by row.

    Args:
        predictor: the model.
        rows: the batch.
        fill: token id for padding.
    """
    import torch

    device = predictor.model.device
    lengths = np.array([len(row.ids) for row in rows])
    width = int(lengths.max())
    ids = np.full((len(rows), width), fill, np.int64)
    for number, row in enumerate(rows):
        ids[number, : len(row.ids)] = row.ids
    inputs = {"input_ids": torch.from_numpy(ids).to(device)}
    if lengths.min() < width:  # attention without a mask is faster
        seen = np.arange(width) < lengths[:, None]
        inputs["attention_mask"] = torch.from_numpy(seen.astype(np.int64)).to(device)
    at = np.concatenate([number * width + row.at for number, row in enumerate(rows)])
    labels = np.concatenate([row.labels for row in rows])
    logits = predictor.logits(predictor.model, inputs, torch.from_numpy(at).to(device))
    return cross_entropies(logits, torch.from_numpy(labels).to(device))


def language_model_folder(name: str, setting: ModelSetting) -> tuple[Path, bool]:
    """The folder of a language model, and whether it is causal, by its config.json.

    Raises:
        ModelError: its architecture predicts no tokens.
    """
    folder = transformer_folder(find(name, once=True, setting=setting), setting)
    config = json.loads((folder / "config.json").read_text("utf-8"))
    names = config.get("architectures") or ["none"]
    # a name with "With" is of an older masked model, such as XLMWithLMHeadModel
    causal = any(n.endswith(("CausalLM", "LMHeadModel")) and "With" not in n for n in names)
    if not causal and not any(n.endswith(("ForMaskedLM", "ForPreTraining")) for n in names):
        example = f"{setting.name.strip('`')}=distilbert/distilbert-base-uncased"
        raise ModelError(
            f"{setting.name} must be {setting.allowed}; {name} has no head that predicts tokens "
            f"(architectures in its config.json: {', '.join(names)}). For instance `{example}`, or "
            "a folder that `corpusfit adapt` wrote."
        )
    return folder, causal


def open_language_model(
    folder: Path, causal: bool, setting: ModelSetting, *, seed: int, user: str
) -> tuple[Any, Any]:
    """The fast tokenizer and the model of a folder, complete and of the kind that it should be.

    Args:
        folder: of `language_model_folder`.
        causal: whether it is causal.
        setting: names the model in messages.
        seed: torch's, while it is opened.
        user: what needs the model, in messages.
    """
    try:
        import transformers
    except ImportError as e:
        raise MissingDependencyError(user, "models") from e
    subject = f"{setting.name}: the model in {folder}"
    with seeded(seed):
        auto = getattr(transformers, auto_class(causal))
        tokenizer, model = open_complete(auto, folder, subject)
    if not causal and tokenizer.mask_token_id is None:
        raise ModelError(f"{subject} has a tokenizer without a mask token. Name another model.")
    if getattr(tokenizer, "backend_tokenizer", None) is None:
        raise ModelError(f"{subject} has no fast tokenizer (tokenizer.json). Name another model.")
    return tokenizer, model


def auto_class(causal: bool) -> str:
    """The name of transformers' class that opens a language model."""
    return "AutoModelForCausalLM" if causal else "AutoModelForMaskedLM"


def padding(tokenizer: Any) -> int:
    """A token id for padding."""
    fills = (tokenizer.pad_token_id, tokenizer.eos_token_id, tokenizer.bos_token_id, 0)
    return int(next(token for token in fills if token is not None))
