"""Masked language modeling.

Reference: Devlin et al. (2019), BERT, section 3.1; TADPOLE, section 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.errors import ModelError
from corpusfit.kernels.batches import masked
from corpusfit.training.batches import PADDING, TokenRows
from corpusfit.training.contract import Keys, RowObjective, Sizes, Targets
from corpusfit.training.scratch import HEAD, POSITIONS, SIZES, word_pieces
from corpusfit.training.special_tokens import SpecialTokens


@dataclass(frozen=True, eq=False)
class MaskedLM(RowObjective):
    """Masked language modeling: masked tokens are predicted from their context."""

    auto = "AutoModelForMaskedLM"
    instead = "causal"
    language_model = True
    takes: ClassVar[tuple[str, ...]] = (
        *("objective.mask", "objective.whole_word", "model.add_tokens", "adapter.kind"),
        "train.shard",
    )
    sizes = SIZES

    def __post_init__(self) -> None:
        if self.plan.whole_word and self.special.begins is None:
            raise ModelError(
                "`objective.whole_word` needs a tokenizer that marks where words begin (WordPiece, "
                "byte-level BPE or SentencePiece); this model's tokenizer does not. Leave out "
                "`objective.whole_word`."
            )

    @classmethod
    def unfit(cls, model: Any, special: SpecialTokens) -> tuple[str, str] | None:
        if getattr(model.config, "is_decoder", False):
            return "its config.json makes it a decoder (is_decoder)", "causal"
        return ("its tokenizer has no mask token", "causal") if special.mask is None else None

    @classmethod
    def untrained(cls, texts: Sequence[str], size: Sizes) -> tuple[Any, Any]:
        import transformers

        layers, width, vocabulary = size
        tokenizer = word_pieces(texts, vocabulary)
        return tokenizer, transformers.BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=width // HEAD,
            intermediate_size=4 * width,
            max_position_embeddings=POSITIONS,
        )

    @cached_property
    def _tables(self) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Which tokens begin a unit of masking, bool [vocabulary]; ids of random replacements."""
        special = self.special
        begins = special.begins if self.plan.whole_word else np.ones(special.vocabulary, np.bool_)
        assert begins is not None  # noqa: S101  checked by `__post_init__`
        return begins, np.flatnonzero(special.ordinary)

    def _targets(self, token_rows: TokenRows, keys: Keys) -> Targets:
        special = self.special
        (begins, others) = self._tables
        assert special.mask is not None  # noqa: S101  checked by `unfit`
        ordinary = special.ordinary
        rate = self.plan.mask
        inputs, picked = masked(token_rows.ids, ordinary, begins, others, special.mask, rate, keys)
        places = np.flatnonzero(picked & (token_rows.chunk != PADDING))
        return inputs, places, token_rows.ids.reshape(-1)[places]
