"""Encoder-decoders that translate: their special tokens, and tokens for domains."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np

from corpusfit.core.errors import ModelError, bad_setting
from corpusfit.embed.hardware import seeded
from corpusfit.embed.transformer import quiet
from corpusfit.training.special_tokens import SpecialTokens

if TYPE_CHECKING:
    from corpusfit.training.models import LoadedModel

_TAG = "<domain:"


def special_tokens_of_translator(model: Any, tokenizer: Any, name: str) -> SpecialTokens:
    """The padding, the end and the first decoder input of a translation model."""
    # The tokenizer adds its other special tokens itself, on either side, so a slow one serves
    # too.
    pad = require_translating("`model.name`", model, tokenizer, name)
    start = _decoder_start(model)
    if start is None:
        raise ModelError(
            f"`model.name`: the config.json of {name} does not state decoder_start_token_id. Add "
            "it there."
        )
    first = _target_language(model, tokenizer)
    if first is not None and first not in tokenizer(text_target="a")["input_ids"]:
        raise ModelError(
            f"`model.name`: {name} translates into {tokenizer.convert_ids_to_tokens(first)}, but "
            f"its tokenizer marks target texts otherwise (tgt_lang: {tokenizer.tgt_lang}). {_SAVE}"
        )
    return SpecialTokens(
        prefix=(),
        suffix=(),
        mask=None,
        pad=pad,
        end=tokenizer.eos_token_id,
        vocabulary=len(tokenizer),
        ordinary=np.ones(len(tokenizer), np.bool_),
        begins=None,
        start=start,
    )


def require_translating(flag: str, model: Any, tokenizer: Any, name: str) -> int:
    """Check what a model needs to translate, before it is trained to or asked to."""
    rows = model.get_input_embeddings().weight.shape[0]
    if len(tokenizer) > rows:
        raise ModelError(
            f"{flag}: the tokenizer of {name} has {len(tokenizer):,} tokens, the model's "
            f"embedding matrix {rows:,}. Name a folder with a model and its own tokenizer."
        )
    pad = tokenizer.pad_token_id
    pad = model.config.pad_token_id if pad is None else pad
    starts = (_stated(model, of) for of in ("decoder_start_token_id", "bos_token_id"))
    if pad is None or all(start is None for start in starts):
        lacking = "pad_token_id" if pad is None else "decoder_start_token_id"
        raise ModelError(
            f"{flag}: the config.json of {name} does not state {lacking}. Add it there."
        )
    if hasattr(tokenizer, "src_lang"):
        first = _target_language(model, tokenizer)
        if first is None or first in tokenizer("a")["input_ids"]:
            into = "none" if first is None else tokenizer.convert_ids_to_tokens(first)
            raise ModelError(
                f"{flag}: {name} is multilingual; its source language is {tokenizer.src_lang}, "
                f"its target language {into}. {_SAVE}"
            )
    return int(pad)


_SAVE = (
    "Save its tokenizer with src_lang and tgt_lang, and its generation_config with the id of "
    "tgt_lang as forced_bos_token_id; or name a model for two languages."
)


def _target_language(model: Any, tokenizer: Any) -> int | None:
    """The id of the language that a multilingual model translates into, if it states one."""
    if not hasattr(tokenizer, "src_lang"):
        return None
    first = _stated(model, "forced_bos_token_id")
    if first is None:  # the first mBART begins with the language itself
        first = _stated(model, "decoder_start_token_id")
        ends = (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id)
        return None if first in ends else first
    return first


def _stated(model: Any, setting: str) -> int | None:
    """A token of a model's generation config, or else of its config."""
    token = getattr(model.generation_config, setting, None)
    token = getattr(model.config, setting, None) if token is None else token
    return None if token is None else int(token)


def _decoder_start(model: Any) -> int | None:
    """First input id of the decoder; -1 for the last label; None if the model does not say."""
    # A model states how it makes decoder inputs of labels; two rows of labels with different
    # ends show whether the first input is a token of its own.
    import torch

    shift = getattr(model, "prepare_decoder_input_ids_from_labels", None)
    if shift is None:
        return _stated(model, "decoder_start_token_id")
    labels = torch.tensor([[5, 6, 7], [5, 6, 8]])
    try:
        first = shift(labels)[:, 0].tolist()
    except (TypeError, ValueError, AssertionError):
        return None
    return -1 if first == [7, 8] else int(first[0])


def domain_tags(names: Iterable[str]) -> list[str]:
    """The tags of the domains of some files, sorted; see `domain_tag`."""
    return sorted(set(map(domain_tag, names)))


def domain_tag(name: str) -> str:
    """The tag of a file's domain: its name without suffixes, as in `<domain:it>` for `it.de`."""
    # Reference: Kobus et al. (2017), Domain Control for Neural Machine Translation.
    path = PurePosixPath(name)
    stem = path.name.lstrip(".").partition(".")[0] or path.name
    domain = stem if path.parent == PurePosixPath(".") else f"{path.parent}/{stem}"
    return _TAG + re.sub(r"[<>|\s]+", "_", domain) + ">"


def known_tag(tokenizer: Any, domain: str) -> str:
    """The tag of a domain with a space; empty without a domain, or if the tokenizer has no tags."""
    known = [token for token in tokenizer.get_added_vocab() if token.startswith(_TAG)]
    if not domain or not known:
        return ""
    if (tag := domain_tag(domain)) not in known:
        allowed = ", ".join(sorted(token[len(_TAG) : -1] for token in known))
        raise bad_setting("`decode.domain`", f"a domain of the model: {allowed}", domain)
    return f"{tag} "


def add_tags(opened: LoadedModel, tags: Sequence[str], seed: int) -> None:
    """Add special tokens to a model and its tokenizer, with random embeddings where it has none."""
    if not tags:
        return
    from transformers import AddedToken

    tokens = [AddedToken(tag, special=True, normalized=False) for tag in tags]
    opened.tokenizer.add_tokens(tokens, special_tokens=True)
    model, wanted = opened.model, len(opened.tokenizer)
    if wanted > model.get_input_embeddings().weight.shape[0]:
        with quiet(), seeded(seed):
            model.resize_token_embeddings(wanted, mean_resizing=False)
