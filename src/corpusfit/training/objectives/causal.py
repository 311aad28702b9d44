"""Causal language modeling.

Reference: Radford et al. (2019), GPT-2.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from corpusfit.embed.prediction import reads_ahead
from corpusfit.training.batches import PADDING, TokenRows
from corpusfit.training.contract import Keys, RowObjective, Sizes, Targets
from corpusfit.training.scratch import END, HEAD, POSITIONS, SIZES, trained_bpe
from corpusfit.training.special_tokens import SpecialTokens


@dataclass(frozen=True, eq=False)
class Causal(RowObjective):
    """Causal language modeling: each token is predicted from those before it in its chunk."""

    auto = "AutoModelForCausalLM"
    language_model = True
    causal = True
    takes = ("objective.loss_on", "adapter.kind", "train.shard")
    sizes = SIZES

    def __post_init__(self) -> None:
        # texts end with that token already, and the parts of a text should not
        if self.special.end in self.special.suffix:
            vars(self)["special"] = dataclasses.replace(self.special, suffix=())

    @classmethod
    def unfit(cls, model: Any, special: SpecialTokens) -> tuple[str, str] | None:
        ahead = model.device.type != "meta" and reads_ahead(model)
        return ("its attention is not causal", "mlm") if ahead else None

    @classmethod
    def untrained(cls, texts: Sequence[str], size: Sizes) -> tuple[Any, Any]:
        import transformers
        from tokenizers import decoders, processors

        layers, width, vocabulary = size
        pairs = trained_bpe(texts, vocabulary, [END])
        pairs.decoder = decoders.ByteLevel()
        pairs.post_processor = processors.ByteLevel(trim_offsets=False)
        ends = dict.fromkeys(("bos_token", "eos_token", "unk_token"), END)
        tokenizer = transformers.PreTrainedTokenizerFast(
            tokenizer_object=pairs, model_max_length=POSITIONS, **ends
        )
        return tokenizer, transformers.GPT2Config(
            vocab_size=len(tokenizer),
            n_embd=width,
            n_layer=layers,
            n_head=width // HEAD,
            n_positions=POSITIONS,
            bos_token_id=0,
            eos_token_id=0,
        )

    def _targets(self, token_rows: TokenRows, keys: Keys) -> Targets:
        has_next = np.zeros(token_rows.ids.shape, np.bool_)
        same = token_rows.chunk[:, 1:] == token_rows.chunk[:, :-1]
        has_next[:, :-1] = same & (token_rows.chunk[:, 1:] != PADDING) & token_rows.counted[:, 1:]
        places = np.flatnonzero(has_next)
        return token_rows.ids, places, token_rows.ids.reshape(-1)[places + 1]
