"""Models that translate: opened, checked, and asked by `generate` of transformers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from corpusfit.contracts import (
    MissingDependencyError,
    ModelError,
    ModelSetting,
    find,
    open_complete,
    position_limit,
    token_batches,
    transformer_folder,
)

_MODEL = ModelSetting(
    name="`model.name`",
    allowed="a model folder or a Hugging Face hub id",
    otherwise="run the command again when the hub can be reached",
    extra="train",
)
_BUDGET = {"cpu": 1_024, "cuda": 16_384}
"""Source tokens of a batch, padding included."""


class Translated(NamedTuple):
    """Translations of n texts, and the number of truncated texts."""

    texts: list[str]
    truncated: int


def open_translator(name: str) -> tuple[Any, Any]:
    """The model of a folder or a hub id, in evaluation mode, and its tokenizer."""
    model, tokenizer = open_sequence_model(name, _MODEL, "Translating")
    require_translating(model, tokenizer, f"{_MODEL.name}: {name}")
    return model, tokenizer


def open_sequence_model(name: str, setting: ModelSetting, doing: str) -> tuple[Any, Any]:
    """A sequence-to-sequence model in evaluation mode, and its tokenizer.

    Args:
        name: a folder or a hub id.
        setting: that names it.
        doing: what for, if transformers is missing.

    Raises:
        UsageError, ModelError: it is no such model.
    """
    try:
        import transformers
    except ImportError as e:
        raise MissingDependencyError(doing, setting.extra) from e
    folder = transformer_folder(find(name, setting=setting), setting)
    auto = transformers.AutoModelForSeq2SeqLM
    tokenizer, model = open_complete(auto, folder, f"{setting.name}: {name}")
    return model.eval(), tokenizer


def require_translating(model: Any, tokenizer: Any, subject: str) -> None:
    """Raise `ModelError` unless a model and its tokenizer are of one source and one target."""
    rows = model.get_input_embeddings().weight.shape[0]
    tokens = 1 + max(tokenizer.get_vocab().values())
    if tokens > rows:
        raise ModelError(
            f"{subject} has a tokenizer of {tokens:,} tokens and an embedding matrix of "
            f"{rows:,}. Name a folder with a model and its own tokenizer."
        )
    config = model.config
    # the first is what labels are shifted by
    for stated in ("decoder_start_token_id", "pad_token_id"):
        if getattr(config, stated, None) is None:
            raise ModelError(f"{subject}: its config.json does not state {stated}. Add it there.")
    shifts = hasattr(model, "prepare_decoder_input_ids_from_labels")
    if hasattr(tokenizer, "src_lang") or not shifts:
        raise ModelError(
            f"{subject} is of several languages, or no model that translates. Name one of two "
            "languages, such as Helsinki-NLP/opus-mt-de-en, or start from `model.init=small`."
        )


def translate(
    model: Any,
    tokenizer: Any,
    texts: Sequence[str],
    *,
    num_beams: int = 5,
    max_new_tokens: int = 100,
    length_penalty: float = 1.0,
    on_done: Callable[[float], None] = lambda _: None,
) -> Translated:
    """Translate texts by beam search, each as one sentence.

    Reference: Vaswani et al. (2017), section 6.1; Wu et al. (2016), section 7 (length penalty).
    """
    import torch

    most = position_limit(model)
    longest = min(most, tokenizer.model_max_length)
    stripped = [text.strip() for text in texts]
    rows = tokenizer(stripped, return_attention_mask=False, verbose=False)["input_ids"]
    truncated = sum(len(row) > longest for row in rows)
    rows = [row if len(row) <= longest else [*row[: longest - 1], row[-1]] for row in rows]
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    pad = model.config.pad_token_id
    translations = [""] * len(rows)
    budget = _BUDGET.get(model.device.type, _BUDGET["cuda"])
    for batch in token_batches(lengths, budget):
        tensors = [torch.tensor(rows[i], dtype=torch.long) for i in batch]
        ids = torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=pad)
        real = torch.arange(ids.shape[1]) < torch.from_numpy(lengths[batch])[:, None]
        with torch.inference_mode():
            generated = model.generate(
                input_ids=ids.to(model.device),
                attention_mask=real.long().to(model.device),
                do_sample=False,
                num_beams=num_beams,
                length_penalty=length_penalty,
                max_new_tokens=min(max_new_tokens, most),
                max_length=None,  # a model's own, as Marian's have, would be warned of
            )
        decoded = tokenizer.batch_decode(generated, skip_special_tokens=True)
        for i, text in zip(batch.tolist(), decoded, strict=True):
            translations[i] = text.strip()
        on_done(len(batch))
    return Translated(translations, truncated)
