"""What a model learns to predict: masked tokens, these and the next sentence, or the next token.

What: each objective lays rows out, says which places are predicted, and adds up the loss over them,
each token's cross-entropy times the relevance weight of its text.
Why: only the places that are predicted go through the vocabulary head, which is the dearest matrix
of a small model; and TADPOLE's equation 1 is this sum.
Trade-off: a loss is summed here and divided by the number of predicted tokens of the whole step
(`trainer.py`), so that a step gives the same gradient however it is cut into pieces.
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

from corpusfit.adapt.batches import PADDING, Laid, Micro, Stock, lay_out, lay_pairs
from corpusfit.adapt.crossentropy import cross_entropies
from corpusfit.adapt.packing import Packing
from corpusfit.adapt.plan import ObjectivePlan
from corpusfit.adapt.prediction import Predictor
from corpusfit.adapt.special_tokens import Marks
from corpusfit.errors import ModelError
from corpusfit.kernels.chance import place_keys, uniform
from corpusfit.kernels.masking import masked

if TYPE_CHECKING:
    import torch

_DRAWS = 8  # of another chunk, of which one should be of another text


@dataclass(frozen=True, eq=False)
class Network:
    """A model and how it is called.

    Attributes:
        predictor: of the model.
        call: the model, or what is wrapped around it to train in several processes.
        packing: how it is told that a row holds several chunks; None if rows hold one.
        bf16: products in bf16; weights, gradients and losses are float32.
    """

    predictor: Predictor
    call: Any
    packing: Packing | None
    bf16: bool

    def scope(self) -> Any:
        """The context in which it computes."""
        import torch

        device = self.predictor.model.device.type
        return torch.autocast(device, torch.bfloat16, enabled=self.bf16)

    def inputs(self, ids: torch.Tensor, chunk: torch.Tensor) -> dict[str, Any]:
        """What it gets for rows of token ids [r, l], given the chunk of each token [r, l]."""
        import torch

        given = {"input_ids": ids}
        if self.packing is None:
            return {**given, "attention_mask": (chunk != PADDING).long()}
        dtype = torch.bfloat16 if self.bf16 else torch.float32
        return {**given, **self.packing.inputs(chunk, dtype)}


@dataclass(frozen=True, eq=False)
class Objective(ABC):
    """What is predicted, for the tokens of one model."""

    marks: Marks
    packs: ClassVar[bool] = True
    specials: ClassVar[int] = 1
    """How often the tokens that close a chunk come in it."""

    def overhead(self) -> int:
        """Special tokens in a chunk."""
        return len(self.marks.prefix) + self.specials * len(self.marks.suffix)

    def micro(
        self,
        stock: Stock,
        rows: Sequence[NDArray[np.int64]],
        keys: NDArray[np.uint64],
        width: int = 0,
    ) -> Micro:
        """What goes through the model for some rows.

        Args:
            stock: where the chunks are.
            rows: r arrays of chunk numbers.
            keys: uint64 [r], each row's own chance.
            width: places in a row; 0 takes as many as the longest needs.
        """
        laid = self._laid(stock, rows, keys, width)
        return Micro.of(laid, *self._aim(laid, keys))

    def _laid(
        self,
        stock: Stock,
        rows: Sequence[NDArray[np.int64]],
        keys: NDArray[np.uint64],
        width: int,
    ) -> Laid:
        return lay_out(stock, rows, self.marks, width)

    @abstractmethod
    def _aim(
        self, laid: Laid, keys: NDArray[np.uint64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Ids with noise [r, l]; the m places predicted in the flattened rows; the m answers."""

    def losses(self, network: Network, micro: Micro) -> tuple[Any, Any]:
        """Summed loss of the predicted tokens and of the pairs, each times its weight.

        Args:
            network: what is trained or measured.
            micro: on its device.

        Returns:
            Two float32 scalars; the second is 0 without pairs.
        """
        logits = network.predictor.logits(
            network.call, network.inputs(micro.ids, micro.chunk), micro.at
        )
        return _weighted(logits, micro.labels, micro.scale), 0.0


def _weighted(logits: torch.Tensor, labels: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """The sum of the cross-entropies [m], in nats, each times its weight, in float32."""
    return (cross_entropies(logits, labels) * scale).sum()


@dataclass(frozen=True, eq=False)
class MaskedLM(Objective):
    """Masked tokens are predicted from those around them.

    Attributes:
        plan: share of masked tokens, and whether whole words are masked.
    """

    plan: ObjectivePlan

    @cached_property
    def _tables(self) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Which tokens begin a unit of masking, bool [vocabulary], and those that may stand in."""
        marks = self.marks
        begins = marks.begins if self.plan.whole_word else np.ones(marks.vocabulary, np.bool_)
        assert begins is not None  # noqa: S101  `objective` has seen to it
        return begins, np.flatnonzero(marks.ordinary)

    def _aim(
        self, laid: Laid, keys: NDArray[np.uint64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        marks, (begins, others) = self.marks, self._tables
        assert marks.mask is not None  # noqa: S101  models.py has seen to it
        ordinary, rate = marks.ordinary, self.plan.mask
        inputs, picked = masked(laid.ids, ordinary, begins, others, marks.mask, rate, keys)
        places = np.flatnonzero(picked & (laid.chunk != PADDING))
        return inputs, places, laid.ids.reshape(-1)[places]


@dataclass(frozen=True, eq=False)
class MaskedPairs(MaskedLM):
    """Masked tokens, and whether the second of two texts follows the first; the sum of both."""

    packs: ClassVar[bool] = False
    specials: ClassVar[int] = 2

    def _laid(
        self,
        stock: Stock,
        rows: Sequence[NDArray[np.int64]],
        keys: NDArray[np.uint64],
        width: int,
    ) -> Laid:
        chances = np.stack([uniform(place_keys(int(k) >> 1, 0, 1 + _DRAWS)) for k in keys])
        return lay_pairs(stock, rows, self.marks, chances)

    def losses(self, network: Network, micro: Micro) -> tuple[Any, Any]:
        """See `Objective.losses`."""
        inputs = {**network.inputs(micro.ids, micro.chunk), "token_type_ids": micro.kind}
        logits, pairs = network.predictor.pair(network.call, inputs, micro.at)
        tokens = _weighted(logits, micro.labels, micro.scale)
        return tokens, _weighted(pairs, micro.follows, micro.row_scale)


@dataclass(frozen=True, eq=False)
class Causal(Objective):
    """Every token is predicted from those before it in its chunk."""

    def _aim(
        self,
        laid: Laid,
        keys: NDArray[np.uint64],
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        goes_on = np.zeros(laid.ids.shape, np.bool_)
        same = laid.chunk[:, 1:] == laid.chunk[:, :-1]
        goes_on[:, :-1] = same & (laid.chunk[:, 1:] != PADDING)
        places = np.flatnonzero(goes_on)
        return laid.ids, places, laid.ids.reshape(-1)[places + 1]


def objective(plan: ObjectivePlan, marks: Marks) -> Objective:
    """The objective that a plan names.

    Raises:
        ModelError: whole words are asked for and the tokenizer does not show where they begin.
    """
    if plan.name == "causal":
        return Causal(marks)
    if plan.whole_word and marks.begins is None:
        raise ModelError(
            "--whole-word needs a tokenizer that marks where words begin (WordPiece, byte-level "
            "BPE or SentencePiece); this model's does not. Leave out --whole-word."
        )
    return (MaskedPairs if plan.name == "mlm+nsp" else MaskedLM)(marks, plan)
