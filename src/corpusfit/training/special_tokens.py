"""Special tokens of a tokenizer."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.errors import ModelError

_UNUSED = re.compile(r"\[unused\d+\]")
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


def special_tokens_of(
    tokenizer: Any, name: str, rows: int, setting: str = "`model.name`"
) -> SpecialTokens:
    """The special tokens of a transformers tokenizer, from its JSON."""
    from tokenizers import Tokenizer, models

    backend = backend_tokenizer(tokenizer, name, setting)
    tokens = backend.get_vocab(with_added_tokens=True)
    vocabulary = max(tokens.values()) + 1
    if vocabulary > rows:
        raise ModelError(
            f"{setting}: the tokenizer of {name} has {vocabulary:,} tokens, the model's "
            f"embedding matrix {rows:,}. Name a folder with a model and its own tokenizer."
        )
    ordinary = np.zeros(vocabulary, dtype=np.bool_)
    ordinary[[i for token, i in tokens.items() if not _UNUSED.fullmatch(token)]] = True
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


def special_tokens_of_columns(tokenizer: Any) -> SpecialTokens:
    """Those of a tokenizer, which may be a slow one, that ends the texts of columns itself."""
    vocabulary = 1 + largest_id(tokenizer)
    return SpecialTokens(
        prefix=(),
        suffix=(),
        mask=None,
        pad=tokenizer.pad_token_id or 0,
        end=tokenizer.eos_token_id,
        vocabulary=vocabulary,
        ordinary=np.ones(vocabulary, np.bool_),
        begins=None,
    )


def largest_id(tokenizer: Any) -> int:
    """The largest token id of a transformers tokenizer, which may have fewer tokens than that."""
    return int(max(tokenizer.get_vocab().values()))


def backend_tokenizer(tokenizer: Any, name: str, setting: str = "`model.name`") -> Any:
    """A copy of a transformers tokenizer's backend, without truncation and padding."""
    from tokenizers import Tokenizer

    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise ModelError(
            f"{setting}: {name} has a slow tokenizer; a fast one is needed. Name a model with a "
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
