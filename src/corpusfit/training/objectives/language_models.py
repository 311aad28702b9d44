"""Objectives of language models: the next token, masked tokens, and the next sentence.

Reference: Devlin et al. (2019), BERT, section 3.1; TADPOLE, section 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.embed.losses import weighted_sum
from corpusfit.kernels.batches import masked
from corpusfit.kernels.chance import place_keys, uniform
from corpusfit.training.batches import PADDING, ChunkTokens, MicroBatch, TokenRows, lay_pairs
from corpusfit.training.objectives.contract import (
    Keys,
    Network,
    RowObjective,
    Rows,
    Targets,
)
from corpusfit.training.plan import ObjectivePlan


@dataclass(frozen=True, eq=False)
class Causal(RowObjective):
    """Causal language modeling: each token is predicted from those before it in its chunk."""

    def _targets(self, token_rows: TokenRows, keys: Keys) -> Targets:
        has_next = np.zeros(token_rows.ids.shape, np.bool_)
        same = token_rows.chunk[:, 1:] == token_rows.chunk[:, :-1]
        has_next[:, :-1] = same & (token_rows.chunk[:, 1:] != PADDING) & token_rows.counted[:, 1:]
        places = np.flatnonzero(has_next)
        return token_rows.ids, places, token_rows.ids.reshape(-1)[places + 1]


_DRAWS = 8  # attempts to draw a chunk of another text


@dataclass(frozen=True, eq=False)
class MaskedLM(RowObjective):
    """Masked language modeling: masked tokens are predicted from their context."""

    plan: ObjectivePlan  # share of masked tokens, and whether to mask whole words

    @cached_property
    def _tables(self) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Which tokens begin a unit of masking, bool [vocabulary]; ids of random replacements."""
        special = self.special
        begins = special.begins if self.plan.whole_word else np.ones(special.vocabulary, np.bool_)
        assert begins is not None  # noqa: S101  checked by `objective`
        return begins, np.flatnonzero(special.ordinary)

    def _targets(self, token_rows: TokenRows, keys: Keys) -> Targets:
        special, (begins, others) = self.special, self._tables
        assert special.mask is not None  # noqa: S101  checked in models.py
        ordinary, rate = special.ordinary, self.plan.mask
        inputs, picked = masked(token_rows.ids, ordinary, begins, others, special.mask, rate, keys)
        places = np.flatnonzero(picked & (token_rows.chunk != PADDING))
        return inputs, places, token_rows.ids.reshape(-1)[places]


@dataclass(frozen=True, eq=False)
class MaskedPairs(MaskedLM):
    """Masked language modeling plus next-sentence prediction; the losses are added."""

    packs: ClassVar[bool] = False
    specials: ClassVar[int] = 2

    def _lay_out(self, chunk_tokens: ChunkTokens, rows: Rows, keys: Keys, width: int) -> TokenRows:
        draws = np.stack([uniform(place_keys(int(k) >> 1, 0, 1 + _DRAWS)) for k in keys])
        return lay_pairs(chunk_tokens, rows, self.special, draws)

    def losses(self, network: Network, micro: MicroBatch) -> tuple[Any, Any]:
        """See `Objective.losses`."""
        inputs = {**network.inputs(micro.ids, micro.chunk), "token_type_ids": micro.kind}
        logits, pairs = network.predictor.pair(network.call, inputs, micro.at)
        tokens = weighted_sum(logits, micro.labels, micro.scale)
        return tokens, weighted_sum(pairs, micro.follows, micro.row_scale)
