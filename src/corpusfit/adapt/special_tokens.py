"""What training has to know of a tokenizer.

What: its special ids, which ids are words that may be masked, and which begin a word.
Why: chunks are cut, packed and masked as arrays of ids, where no tokenizer is at hand.
Trade-off: read off the tokenizer's own JSON and what it does to one letter, not from a list of
known models; a tokenizer that marks the beginning of words in a way of its own counts as one that
does not.
Reference: Devlin et al. (2019), BERT, section 3.1; whole-word masking in its later release.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.embed.distill import UNUSED
from corpusfit.errors import ModelError

_STARTS = {"ByteLevel": ("Ġ", "Ċ", "ĉ"), "▁": ("▁",)}
"""What begins a word's first token (a space, a new line, a tab), by what makes it so."""


@dataclass(frozen=True, eq=False)
class Marks:
    """What training has to know of a tokenizer.

    Attributes:
        prefix: special ids before a chunk: `[CLS]`, `<s>`, or nothing for GPT-2.
        suffix: special ids after it.
        mask: id of the mask token.
        pad: id that fills rows; any does where the tokenizer has none, because it is masked.
        end: id that closes a text.
        vocabulary: ids run from 0 to this.
        ordinary: bool [vocabulary], tokens of text: they may be masked and may replace others.
        begins: bool [vocabulary], ordinary tokens that begin a word; None where the tokenizer
            shows no such thing. Of scripts without spaces a word may be a whole sentence.
    """

    prefix: tuple[int, ...]
    suffix: tuple[int, ...]
    mask: int | None
    pad: int
    end: int | None
    vocabulary: int
    ordinary: NDArray[np.bool_]
    begins: NDArray[np.bool_] | None


def marks_of(tokenizer: Any, name: str, rows: int) -> Marks:
    """Read them off a tokenizer of transformers.

    Args:
        tokenizer: a fast one.
        name: what the user called the model.
        rows: of the model's table of embeddings.

    Raises:
        ModelError: the tokenizer is a slow one, or has more tokens than the model.
    """
    backend = bare(tokenizer, name)
    tokens = backend.get_vocab(with_added_tokens=True)
    vocabulary = max(tokens.values()) + 1
    if vocabulary > rows:
        raise ModelError(
            f"--model: the tokenizer of {name} has {vocabulary} tokens, and the model knows {rows}."
            " Name a folder where the two belong together."
        )
    ordinary = np.zeros(vocabulary, dtype=np.bool_)
    ordinary[[i for token, i in tokens.items() if not UNUSED.fullmatch(token)]] = True
    added = backend.get_added_tokens_decoder()
    ordinary[[i for i, token in added.items() if token.special]] = False
    ordinary[[i for i in tokenizer.all_special_ids if i < vocabulary]] = False
    probe = backend.encode("a", add_special_tokens=True)
    inside = np.flatnonzero(np.array(probe.special_tokens_mask) == 0)
    first, last = (inside[0], inside[-1] + 1) if len(inside) else (len(probe.ids), len(probe.ids))
    ends = (tokenizer.pad_token_id, tokenizer.eos_token_id, 0)
    return Marks(
        prefix=tuple(probe.ids[:first]),
        suffix=tuple(probe.ids[last:]),
        mask=tokenizer.mask_token_id,
        pad=int(next(i for i in ends if i is not None)),
        end=tokenizer.eos_token_id,
        vocabulary=vocabulary,
        ordinary=ordinary,
        begins=_begins(backend, tokens, ordinary),
    )


def bare(tokenizer: Any, name: str) -> Any:
    """What cuts text into tokens inside a tokenizer of transformers: all of the text, unpadded.

    A tokenizer's JSON may say to cut texts after 128 tokens and to fill up shorter ones.

    Args:
        tokenizer: a fast one; it stays as it is.
        name: what the user called the model.

    Returns:
        A `tokenizers.Tokenizer` of its own.

    Raises:
        ModelError: the tokenizer is a slow one.
    """
    from tokenizers import Tokenizer

    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise ModelError(
            f"--model: {name} has only a slow tokenizer, which workers cannot use. Name a model "
            "with a tokenizer.json."
        )
    whole = Tokenizer.from_str(backend.to_str())
    whole.no_truncation()
    whole.no_padding()
    return whole


def _begins(
    backend: Any, tokens: dict[str, int], ordinary: NDArray[np.bool_]
) -> NDArray[np.bool_] | None:
    """Which ordinary tokens begin a word, bool [vocabulary], where the tokenizer marks them."""
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
            return begins & ordinary
    return None
