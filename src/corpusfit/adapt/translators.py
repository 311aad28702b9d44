"""Encoder-decoders that translate: their special tokens, and tokens for domains."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np

from corpusfit.adapt.special_tokens import SpecialTokens
from corpusfit.embed.hardware import seeded
from corpusfit.embed.transformer import quiet
from corpusfit.errors import ModelError, bad_setting

if TYPE_CHECKING:
    from corpusfit.adapt.models import LoadedModel

_TAG = "<domain:"


def special_tokens_of_translator(model: Any, tokenizer: Any, name: str) -> SpecialTokens:
    """The padding, the end and the first decoder input of a translation model.

    The tokenizer adds its other special tokens itself, on either side, so a slow one serves too.

    Args:
        model: an encoder-decoder of transformers with a language-model head.
        tokenizer: its tokenizer.
        name: name of the model that the user gave.

    Raises:
        ModelError: the tokenizer has more tokens than the model, or neither of them names a padding
            token and a first input of the decoder.
    """
    rows = model.get_input_embeddings().weight.shape[0]
    if len(tokenizer) > rows:
        raise ModelError(
            f"<model.name>: the tokenizer of {name} has {len(tokenizer):,} tokens, the model's "
            f"embedding matrix {rows:,}. Name a folder with a model and its own tokenizer."
        )
    pad, start = tokenizer.pad_token_id, _decoder_start(model)
    pad = model.config.pad_token_id if pad is None else pad
    if pad is None or start is None:
        lacking = "pad_token_id" if pad is None else "decoder_start_token_id"
        raise ModelError(
            f"<model.name>: the config.json of {name} does not state {lacking}. Add it there."
        )
    return SpecialTokens(
        prefix=(),
        suffix=(),
        mask=None,
        pad=int(pad),
        end=tokenizer.eos_token_id,
        vocabulary=len(tokenizer),
        ordinary=np.ones(len(tokenizer), np.bool_),
        begins=None,
        start=start,
    )


def _decoder_start(model: Any) -> int | None:
    """First input id of the decoder; -1 for the last label; None if the model does not say.

    A model states how it makes decoder inputs of labels; two rows of labels with different ends
    show whether the first input is a token of its own.
    """
    import torch

    config = model.config
    shift = getattr(model, "prepare_decoder_input_ids_from_labels", None)
    if shift is None:
        start = getattr(config, "decoder_start_token_id", None)
        start = model.generation_config.decoder_start_token_id if start is None else start
        return None if start is None else int(start)
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
    """The tag of a file's domain: its name without suffixes, as in `<domain:it>` for `it.de`.

    Reference: Kobus et al. (2017), Domain Control for Neural Machine Translation.
    """
    path = PurePosixPath(name)
    stem = path.name.lstrip(".").partition(".")[0] or path.name
    domain = stem if path.parent == PurePosixPath(".") else f"{path.parent}/{stem}"
    return _TAG + re.sub(r"[<>|\s]+", "_", domain) + ">"


def known_tag(tokenizer: Any, domain: str) -> str:
    """The tag of a domain with a space; empty without a domain, or if the tokenizer has no tags.

    Raises:
        UsageError: the tokenizer has tags of other domains only.
    """
    known = [token for token in tokenizer.get_added_vocab() if token.startswith(_TAG)]
    if not domain or not known:
        return ""
    if (tag := domain_tag(domain)) not in known:
        allowed = ", ".join(sorted(token[len(_TAG) : -1] for token in known))
        raise bad_setting("<decode.domain>", f"a domain of the model: {allowed}", domain)
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
