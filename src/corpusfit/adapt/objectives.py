"""Training objectives: masked LM, masked LM with next-sentence prediction, causal LM.

What: an objective lays out rows, picks the predicted positions, and sums the cross-entropy over
them, each token's times the relevance weight of its text (TADPOLE, equation 1).
Why: only predicted positions go through the vocabulary head, the most expensive matrix of a small
model.
Trade-off: losses are summed here and divided in `trainer.py` by the number of predicted tokens of
the whole step, so that the gradient does not depend on how a step is split into micro-batches.
Reference: Devlin et al. (2019), BERT, section 3.1; TADPOLE, sections 3 (equation 1) and 4.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.adapt.batches import PADDING, ChunkTokens, MicroBatch, TokenRows, lay_out, lay_pairs
from corpusfit.adapt.crossentropy import cross_entropies
from corpusfit.adapt.packing import Packing
from corpusfit.adapt.plan import ObjectivePlan
from corpusfit.adapt.prediction import Predictor
from corpusfit.adapt.special_tokens import SpecialTokens
from corpusfit.errors import ModelError
from corpusfit.kernels.chance import place_keys, uniform
from corpusfit.kernels.masking import masked

if TYPE_CHECKING:
    import torch

_Rows = Sequence[NDArray[np.int64]]
_Keys = NDArray[np.uint64]
_Aim = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
_DRAWS = 8  # draws of another chunk, of which one should be from another text


@dataclass(frozen=True, eq=False)
class Network:
    """A model and how to call it.

    Attributes:
        predictor: predictor of the model.
        call: the model, or its wrapper for distributed training.
        packing: how several chunks share a row; None if a row holds one chunk.
        bf16: compute in bf16; weights, gradients and losses are float32.
    """

    predictor: Predictor
    call: Any
    packing: Packing | None
    bf16: bool

    def scope(self) -> Any:
        """Autocast context of the forward pass."""
        import torch

        device = self.predictor.model.device.type
        return torch.autocast(device, torch.bfloat16, enabled=self.bf16)

    def inputs(self, ids: torch.Tensor, chunk: torch.Tensor) -> dict[str, Any]:
        """Model inputs for rows of token ids [r, l] and the chunk of each token [r, l]."""
        import torch

        inputs = {"input_ids": ids}
        if self.packing is None:
            return {**inputs, "attention_mask": (chunk != PADDING).long()}
        dtype = torch.bfloat16 if self.bf16 else torch.float32
        return {**inputs, **self.packing.inputs(chunk, dtype)}


@dataclass(frozen=True, eq=False)
class Objective(ABC):
    """A training objective for the tokens of one model."""

    special: SpecialTokens
    packs: ClassVar[bool] = True
    specials: ClassVar[int] = 1
    """How often the closing special tokens occur in a chunk."""

    def overhead(self) -> int:
        """Number of special tokens per chunk."""
        return len(self.special.prefix) + self.specials * len(self.special.suffix)

    def micro_batch(
        self, chunk_tokens: ChunkTokens, rows: _Rows, keys: _Keys, width: int = 0
    ) -> MicroBatch:
        """Lay out and mask some rows.

        Args:
            chunk_tokens: the chunks.
            rows: r arrays of chunk numbers.
            keys: uint64 [r], random key of each row.
            width: tokens in a row; 0 for the length of the longest row.
        """
        token_rows = self._lay_out(chunk_tokens, rows, keys, width)
        return MicroBatch.of(token_rows, *self._aim(token_rows, keys))

    def _lay_out(
        self, chunk_tokens: ChunkTokens, rows: _Rows, keys: _Keys, width: int
    ) -> TokenRows:
        return lay_out(chunk_tokens, rows, self.special, width)

    @abstractmethod
    def _aim(self, token_rows: TokenRows, keys: _Keys) -> _Aim:
        """Input ids [r, l], the m predicted positions in the flattened rows, and m labels."""

    def losses(self, network: Network, micro: MicroBatch) -> tuple[Any, Any]:
        """Weighted sums of the losses of predicted tokens and of pairs.

        Args:
            network: the model.
            micro: a micro-batch on the model's device.

        Returns:
            Two float32 scalars; the second is 0 without pairs.
        """
        logits = network.predictor.logits(
            network.call, network.inputs(micro.ids, micro.chunk), micro.at
        )
        return _weighted(logits, micro.labels, micro.scale), 0.0


def _weighted(logits: torch.Tensor, labels: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Weighted sum of the cross-entropies [m], in nats, in float32."""
    return (cross_entropies(logits, labels) * scale).sum()


@dataclass(frozen=True, eq=False)
class MaskedLM(Objective):
    """Masked language modelling: masked tokens are predicted from their context.

    Attributes:
        plan: share of masked tokens, and whether to mask whole words.
    """

    plan: ObjectivePlan

    @cached_property
    def _tables(self) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Which tokens begin a unit of masking, bool [vocabulary]; ids of random replacements."""
        special = self.special
        begins = special.begins if self.plan.whole_word else np.ones(special.vocabulary, np.bool_)
        assert begins is not None  # noqa: S101  checked by `objective`
        return begins, np.flatnonzero(special.ordinary)

    def _aim(self, token_rows: TokenRows, keys: _Keys) -> _Aim:
        special, (begins, others) = self.special, self._tables
        assert special.mask is not None  # noqa: S101  checked in models.py
        ordinary, rate = special.ordinary, self.plan.mask
        inputs, picked = masked(token_rows.ids, ordinary, begins, others, special.mask, rate, keys)
        places = np.flatnonzero(picked & (token_rows.chunk != PADDING))
        return inputs, places, token_rows.ids.reshape(-1)[places]


@dataclass(frozen=True, eq=False)
class MaskedPairs(MaskedLM):
    """Masked language modelling plus next-sentence prediction; the losses are added."""

    packs: ClassVar[bool] = False
    specials: ClassVar[int] = 2

    def _lay_out(
        self, chunk_tokens: ChunkTokens, rows: _Rows, keys: _Keys, width: int
    ) -> TokenRows:
        draws = np.stack([uniform(place_keys(int(k) >> 1, 0, 1 + _DRAWS)) for k in keys])
        return lay_pairs(chunk_tokens, rows, self.special, draws)

    def losses(self, network: Network, micro: MicroBatch) -> tuple[Any, Any]:
        """See `Objective.losses`."""
        inputs = {**network.inputs(micro.ids, micro.chunk), "token_type_ids": micro.kind}
        logits, pairs = network.predictor.pair(network.call, inputs, micro.at)
        tokens = _weighted(logits, micro.labels, micro.scale)
        return tokens, _weighted(pairs, micro.follows, micro.row_scale)


@dataclass(frozen=True, eq=False)
class Causal(Objective):
    """Causal language modelling: each token is predicted from those before it in its chunk."""

    def _aim(self, token_rows: TokenRows, keys: _Keys) -> _Aim:
        has_next = np.zeros(token_rows.ids.shape, np.bool_)
        same = token_rows.chunk[:, 1:] == token_rows.chunk[:, :-1]
        has_next[:, :-1] = same & (token_rows.chunk[:, 1:] != PADDING)
        places = np.flatnonzero(has_next)
        return token_rows.ids, places, token_rows.ids.reshape(-1)[places + 1]


def objective(plan: ObjectivePlan, special: SpecialTokens) -> Objective:
    """The objective that a plan names.

    Raises:
        ModelError: whole words are masked and the tokenizer does not mark where words begin.
    """
    if plan.name == "causal":
        return Causal(special)
    if plan.whole_word and special.begins is None:
        raise ModelError(
            "<objective.whole_word> needs a tokenizer that marks where words begin (WordPiece, "
            "byte-level BPE or SentencePiece); this model's tokenizer does not. Leave out "
            "<objective.whole_word>."
        )
    return (MaskedPairs if plan.name == "mlm+nsp" else MaskedLM)(special, plan)
