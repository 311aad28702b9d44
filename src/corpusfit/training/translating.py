"""Translate texts with an encoder-decoder and its tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from corpusfit.embed.transformer import position_limit
from corpusfit.training.decode_plan import DecodePlan
from corpusfit.training.decoding import beam_search
from corpusfit.training.translators import known_tag


@dataclass(frozen=True)
class Translated:
    """Translations of n texts.

    Attributes:
        texts: n translations.
        truncated: number of texts that the model cannot read to their end.
    """

    texts: list[str]
    truncated: int


def translate(
    model: Any,
    tokenizer: Any,
    texts: Sequence[str],
    search: DecodePlan,
    *,
    budget: int = 0,
    on_done: Callable[[int], None] | None = None,
) -> Translated:
    """Translate texts by beam search, each as one sentence.

    A prefix of the model's config (T5) stands before every text, or the token of the search's
    domain; a model without tokens of domains reads the texts as they are.
    """
    longest = min(position_limit(model), tokenizer.model_max_length)
    prefix = known_tag(tokenizer, search.domain) or getattr(model.config, "prefix", None) or ""
    coded = tokenizer(
        [prefix + text.strip() for text in texts], return_attention_mask=False, verbose=False
    )
    rows: list[list[int]] = coded["input_ids"]
    long = [row for row in rows if len(row) > longest]
    rows = [row if len(row) <= longest else [*row[: longest - 1], row[-1]] for row in rows]
    tokens = beam_search(model, rows, search, budget=budget, on_done=on_done)
    found: list[str] = tokenizer.batch_decode(tokens, skip_special_tokens=True)
    return Translated([text.strip() for text in found], len(long))
