"""Masked language modeling plus next-sentence prediction.

Reference: Devlin et al. (2019), BERT, section 3.1; TADPOLE, section 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from corpusfit.embed.losses import weighted_sum
from corpusfit.kernels.chance import place_keys, uniform
from corpusfit.training.batches import ChunkTokens, MicroBatch, TokenRows, lay_pairs
from corpusfit.training.contract import Keys, Network, Rows
from corpusfit.training.objectives.mlm import MaskedLM
from corpusfit.training.special_tokens import SpecialTokens

_DRAWS = 8  # attempts to draw a chunk of another text


@dataclass(frozen=True, eq=False)
class MaskedPairs(MaskedLM):
    """Masked language modeling plus next-sentence prediction; the losses are added."""

    auto = "AutoModelForPreTraining"
    instead = "mlm"
    takes = tuple(s for s in MaskedLM.takes if s != "train.shard")
    packs = False
    specials = 2

    @classmethod
    def unfit(cls, model: Any, special: SpecialTokens) -> tuple[str, str] | None:
        if not hasattr(getattr(model, "cls", None), "seq_relationship"):
            return f"{type(model).__name__} does not predict the next sentence", "mlm"
        if getattr(model.config, "type_vocab_size", 2) < 2:
            return "its config.json has one type of token (type_vocab_size)", "mlm"
        return super().unfit(model, special)

    def _lay_out(self, chunk_tokens: ChunkTokens, rows: Rows, keys: Keys, width: int) -> TokenRows:
        draws = np.stack([uniform(place_keys(int(k) >> 1, 0, 1 + _DRAWS)) for k in keys])
        return lay_pairs(chunk_tokens, rows, self.special, draws)

    def losses(self, network: Network, micro: MicroBatch) -> tuple[Any, Any]:
        inputs = {**network.inputs(micro.ids, micro.chunk), "token_type_ids": micro.kind}
        logits, pairs = network.predictor.pair(network.call, inputs, micro.at)
        tokens = weighted_sum(logits, micro.labels, micro.scale)
        return tokens, weighted_sum(pairs, micro.follows, micro.row_scale)
