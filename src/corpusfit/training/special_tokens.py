"""Special tokens of a tokenizer or a translation model, and tokens for domains."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.errors import ModelError, bad_setting
from corpusfit.embed.hardware import seeded
from corpusfit.embed.static import UNUSED
from corpusfit.embed.transformer import quiet

if TYPE_CHECKING:
    from corpusfit.training.models import LoadedModel


_STARTS = {"ByteLevel": ("Ġ", "Ċ", "ĉ"), "▁": ("▁",)}
"""How a word's first token begins (space, new line, tab), by the pre-tokenizer that marks it."""


@dataclass(frozen=True, eq=False)
class SpecialTokens:
    """Special tokens and vocabulary of a tokenizer, as ids."""

    prefix: tuple[int, ...]  # special ids before a chunk: `[CLS]`, `<s>`, or nothing for GPT-2
    suffix: tuple[int, ...]  # special ids after a chunk
    mask: int | None  # id of the mask token
    pad: int  # id of the padding token; an arbitrary one if the tokenizer has none
    end: int | None  # id of the end-of-text token
    vocabulary: int  # number of ids
    # bool [vocabulary], tokens of text: they may be masked and may replace others
    ordinary: NDArray[np.bool_]
    # bool [vocabulary], ordinary tokens that begin a word; None if the tokenizer does not
    # mark them. In scripts without spaces a word may be a whole sentence
    begins: NDArray[np.bool_] | None
    # first input id of a decoder with an encoder; -1: the last token of the text
    start: int | None = None


def special_tokens_of(tokenizer: Any, name: str, rows: int) -> SpecialTokens:
    """The special tokens of a transformers tokenizer, from its JSON."""
    from tokenizers import Tokenizer, models

    backend = backend_tokenizer(tokenizer, name)
    tokens = backend.get_vocab(with_added_tokens=True)
    vocabulary = max(tokens.values()) + 1
    if vocabulary > rows:
        raise ModelError(
            f"`model.name`: the tokenizer of {name} has {vocabulary:,} tokens, the model's "
            f"embedding matrix {rows:,}. Name a folder with a model and its own tokenizer."
        )
    ordinary = np.zeros(vocabulary, dtype=np.bool_)
    ordinary[[i for token, i in tokens.items() if not UNUSED.fullmatch(token)]] = True
    added = backend.get_added_tokens_decoder()
    ordinary[[i for i, token in added.items() if token.special]] = False
    ordinary[[i for i in tokenizer.all_special_ids if i < vocabulary]] = False
    # the tokens around a text, by the post-processor of another tokenizer, of one token: any
    # text may have no token in the vocabulary of this one
    probe = Tokenizer(models.WordLevel({"a": 0}, "a"))
    probe.post_processor = backend.post_processor
    encoded = probe.encode("a", add_special_tokens=True)
    at = encoded.special_tokens_mask.index(0)
    ends = (tokenizer.pad_token_id, tokenizer.eos_token_id, 0)
    return SpecialTokens(
        prefix=tuple(encoded.ids[:at]),
        suffix=tuple(encoded.ids[at + 1 :]),
        mask=tokenizer.mask_token_id,
        pad=int(next(i for i in ends if i is not None)),
        end=tokenizer.eos_token_id,
        vocabulary=vocabulary,
        ordinary=ordinary,
        begins=_begins(backend, tokens, ordinary),
    )


def backend_tokenizer(tokenizer: Any, name: str) -> Any:
    """A copy of a transformers tokenizer's backend, without truncation and padding."""
    from tokenizers import Tokenizer

    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise ModelError(
            f"`model.name`: {name} has a slow tokenizer; a fast one is needed. Name a model with a "
            "tokenizer.json."
        )
    whole = Tokenizer.from_str(backend.to_str())
    whole.no_truncation()
    whole.no_padding()
    return whole


def _begins(
    backend: Any, tokens: dict[str, int], ordinary: NDArray[np.bool_]
) -> NDArray[np.bool_] | None:
    """Which ordinary tokens begin a word, bool [vocabulary]; None if the tokenizer marks none."""
    inside = getattr(backend.model, "continuing_subword_prefix", None)
    if type(backend.model).__name__ == "WordPiece" and inside:
        later = [i for token, i in tokens.items() if token.startswith(inside)]
        begins = ordinary.copy()
        begins[later] = False
        return begins
    parts = json.loads(backend.to_str())
    around = json.dumps([parts[p] for p in ("normalizer", "pre_tokenizer", "decoder")])
    for maker, starts in _STARTS.items():
        if json.dumps(maker).strip('"') in around:
            begins = np.zeros_like(ordinary)
            begins[[i for token, i in tokens.items() if token.startswith(starts)]] = True
            begins[list(backend.get_added_tokens_decoder())] = True  # each is a whole word
            return begins & ordinary
    return None


_TAG = "<domain:"


def special_tokens_of_translator(model: Any, tokenizer: Any, name: str) -> SpecialTokens:
    """The padding, the end and the first decoder input of a translation model."""
    # The tokenizer adds its other special tokens itself, on either side, so a slow one serves
    # too.
    import torch

    pad = require_translating("`model.name`", model, tokenizer, name)
    # a model states how it makes decoder inputs of labels; two rows of labels with different
    # ends show whether the first input is a token of its own
    start = None
    shift = getattr(model, "prepare_decoder_input_ids_from_labels", None)
    if shift is None:
        start = _stated(model, "decoder_start_token_id")
    else:
        with suppress(TypeError, ValueError, AssertionError):
            first_inputs = shift(torch.tensor([[5, 6, 7], [5, 6, 8]]))[:, 0].tolist()
            start = -1 if first_inputs == [7, 8] else int(first_inputs[0])
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
        prefix=(),  # the stored tokens of both sides hold their special tokens
        suffix=(),
        mask=None,
        pad=pad,
        end=tokenizer.eos_token_id,
        vocabulary=len(tokenizer),
        ordinary=np.ones(len(tokenizer), np.bool_),
        begins=None,
        start=start,
    )


def require_translating(setting: str, model: Any, tokenizer: Any, name: str) -> int:
    """Check what a model needs to translate, before it is trained to or asked to."""
    rows = model.get_input_embeddings().weight.shape[0]
    if len(tokenizer) > rows:
        raise ModelError(
            f"{setting}: the tokenizer of {name} has {len(tokenizer):,} tokens, the model's "
            f"embedding matrix {rows:,}. Name a folder with a model and its own tokenizer."
        )
    pad = tokenizer.pad_token_id
    pad = model.config.pad_token_id if pad is None else pad
    starts = (_stated(model, token_id) for token_id in ("decoder_start_token_id", "bos_token_id"))
    if pad is None or all(start is None for start in starts):
        lacking = "pad_token_id" if pad is None else "decoder_start_token_id"
        raise ModelError(
            f"{setting}: the config.json of {name} does not state {lacking}. Add it there."
        )
    if hasattr(tokenizer, "src_lang"):
        first = _target_language(model, tokenizer)
        if first is None or first in tokenizer("a")["input_ids"]:
            into = "none" if first is None else tokenizer.convert_ids_to_tokens(first)
            raise ModelError(
                f"{setting}: {name} is multilingual; its source language is {tokenizer.src_lang}, "
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


def domain_tag(name: str) -> str:
    """The tag of a file's domain: its name without suffixes, as in `<domain:it>` for `it.de`."""
    # Reference: Kobus et al. (2017), Domain Control for Neural Machine Translation.
    path = PurePosixPath(name)
    stem = path.name.lstrip(".").partition(".")[0] or path.name
    domain = stem if path.parent == PurePosixPath(".") else f"{path.parent}/{stem}"
    return _TAG + re.sub(r"[<>|\s]+", "_", domain) + ">"


def known_tag(tokenizer: Any, domain: str) -> str:
    """The tag of a domain with a space; empty without a domain, or if the tokenizer has no tags."""
    tags = [token for token in tokenizer.get_added_vocab() if token.startswith(_TAG)]
    if not domain or not tags:
        return ""
    if (tag := domain_tag(domain)) not in tags:
        allowed = ", ".join(sorted(token[len(_TAG) : -1] for token in tags))
        raise bad_setting("`decode.domain`", f"a domain of the model: {allowed}", domain)
    return f"{tag} "


def source_prefix(model: Any) -> str:
    """What a model's configuration puts before each text to translate, as T5's may."""
    return getattr(model.config, "prefix", None) or ""


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
