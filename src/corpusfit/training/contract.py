"""The contracts of training objectives and of adapters, and the model as they call it.

What: an objective lays out rows, picks the predicted positions, and sums the cross-entropy over
them, each token's times the relevance weight of its text (TADPOLE, equation 1).
Why: only predicted positions go through the vocabulary head, the most expensive matrix of a small
model.
Trade-off: losses are summed here and divided in `trainer.py` by the number of predicted tokens of
the whole step, so that the gradient does not depend on how a step is split into micro-batches.
Reference: TADPOLE, sections 3 (equation 1) and 4.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.settings import NoSettings
from corpusfit.embed.hardware import dtype_of
from corpusfit.embed.prediction import Predictor
from corpusfit.training.batches import PADDING, ChunkTokens, MicroBatch, TokenRows, lay_out
from corpusfit.training.chunks import Chunks
from corpusfit.training.packing import Packing
from corpusfit.training.special_tokens import (
    SpecialTokens,
    special_tokens_of,
    special_tokens_of_columns,
)

if TYPE_CHECKING:
    import torch

Rows = Sequence[NDArray[np.int64]]
Keys = NDArray[np.uint64]
Sizes = tuple[int, int, int]  # layers, width and vocabulary
Columns = tuple[list[list[int]], list[list[int]]]
Targets = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class Network:
    """A model and how to call it."""

    predictor: Predictor
    call: Any  # the model, or its wrapper for distributed training
    packing: Packing | None  # how several chunks share a row; None if a row holds one chunk
    precision: str  # of products: `fp32`, `bf16` or `fp16`; weights and losses are float32

    @property
    def dtype(self) -> torch.dtype:
        """The format of products."""
        return dtype_of(self.precision)

    def scope(self) -> Any:
        """Autocast context of the forward pass."""
        import torch

        device = self.predictor.model.device.type
        return torch.autocast(device, self.dtype, enabled=self.precision != "fp32")

    def inputs(self, ids: torch.Tensor, chunk: torch.Tensor) -> dict[str, Any]:
        """Model inputs for rows of token ids [r, l] and the chunk of each token [r, l]."""
        if self.packing is None:
            return {"input_ids": ids, "attention_mask": (chunk != PADDING).long()}
        return self.packing.inputs(ids, chunk, self.dtype)


class ObjectiveSettings(Protocol):
    """The settings `objective.…`, as an objective reads them."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def mask(self) -> float: ...  # noqa: D102
    @property
    def whole_word(self) -> bool: ...  # noqa: D102
    @property
    def delete(self) -> float: ...  # noqa: D102
    @property
    def own(self) -> Any: ...  # noqa: D102


@dataclass(frozen=True, eq=False)
class Objective(ABC):
    """A training objective for the tokens of one model.

    To add an objective, add one file to `training/objectives/` with one `Objective`, named like the
    file, with `+` for `_`. In another package: entry point group `corpusfit.objectives`.

    Raises:
        ModelError: the tokenizer has not what a setting needs.
    """

    special: SpecialTokens
    plan: ObjectiveSettings
    length: int = 0  # most tokens of a sequence

    auto: ClassVar[str]
    """The transformers auto class that opens a model with its head."""
    instead: ClassVar[str] = "mlm"
    """The objective to take where a model lacks the head."""
    language_model: ClassVar[bool] = False
    """Whether its model is a plain language model, whose memory is counted."""
    causal: ClassVar[bool] = False
    """Whether each token is predicted from those before it, so that texts are ended."""
    columns: ClassVar[int] = 1
    """Text columns of a row that it reads; of 2, a chunk is the whole second text."""
    settings: ClassVar[type] = NoSettings
    """Its own settings, `objective.NAME`: a frozen dataclass; fields with limits by `setting`."""
    embeds: ClassVar[bool] = False
    """Whether a sentence encoder is trained, by a decoder that is not kept."""
    packs: ClassVar[bool] = True
    """Whether several chunks may share a row."""
    specials: ClassVar[int] = 1
    """How many times a chunk has the closing special tokens."""
    takes: ClassVar[tuple[str, ...]] = ()
    """Which settings of `plan.OF_SOME` it goes with."""
    sizes: ClassVar[Mapping[str, Sizes]] = {}
    """Those of an untrained model, by `model.init`; see `untrained`."""
    batch: ClassVar[Mapping[str, int]] = {"cpu": 16, "gpu": 256}
    """The default of `train.batch`."""
    lengths: ClassVar[Mapping[str, int]] = {"cpu": 128, "gpu": 512}
    """The default of `train.length`, where the model takes as much."""
    learning_rate: ClassVar[float | None] = None
    """The default of `train.learning_rate`; None for that of the model's size."""

    @classmethod
    def special_tokens(cls, model: Any, tokenizer: Any, name: str) -> SpecialTokens:
        """The special tokens of a model's tokenizer; `name` names the model in errors."""
        if cls.columns == 2:  # the stored tokens of both columns hold their special tokens
            return special_tokens_of_columns(tokenizer)
        rows = model.get_input_embeddings().weight.shape[0]
        return special_tokens_of(tokenizer, name, rows)

    @classmethod
    def encode(cls, tokenizer: Any, first: list[str], second: list[str]) -> Columns:
        """Token ids of rows of two columns, with special tokens; `tokenizer` is transformers'."""
        ids: Columns = (tokenizer(first)["input_ids"], tokenizer(second)["input_ids"])
        return ids

    @classmethod
    def unfit(cls, model: Any, special: SpecialTokens) -> tuple[str, str] | None:
        """Why a model cannot be trained, and the objective to take instead; None if it can."""
        del model, special
        return None

    @classmethod
    def untrained(cls, texts: Sequence[str], size: Sizes) -> tuple[Any, Any]:
        """A tokenizer that is learned from texts, and a model's configuration."""
        raise NotImplementedError(f"{cls.__name__} has no sizes")

    @staticmethod
    def identity(model: Any) -> dict[str, Any]:
        """What decides a training besides its plan, its texts and its base model."""
        del model
        return {}

    def overhead(self) -> int:
        """Number of special tokens per chunk."""
        return len(self.special.prefix) + self.specials * len(self.special.suffix)

    @property
    def row_tokens(self) -> int:
        """Most tokens of a row."""
        return self.length

    def arrange(
        self, chunks: Chunks, order: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """The rows of a pass over chunks, which come in a random order; None for those of packing.

        Returns:
            order: int64 [m], the same chunk numbers row by row.
            begins: int64 [rows + 1]; row r is `order[begins[r] : begins[r + 1]]`.
        """
        del chunks, order, rng
        return None

    @staticmethod
    def laid_out(**arrays: NDArray[Any]) -> MicroBatch:
        """A micro-batch of the arrays of its fields."""
        return MicroBatch.from_arrays(**arrays)

    @abstractmethod
    def micro_batch(
        self, chunk_tokens: ChunkTokens, rows: Rows, keys: Keys, width: int = 0
    ) -> MicroBatch:
        """Lay out and mask some rows.

        Args:
            chunk_tokens: the chunks.
            rows: r arrays of chunk numbers.
            keys: uint64 [r], random key of each row.
            width: tokens in a row; 0 for the length of the longest row.
        """

    def micro_batches(
        self, chunk_tokens: ChunkTokens, rows: Rows, keys: Keys, max_rows: int, width: int = 0
    ) -> list[MicroBatch]:
        """The rows of a step in micro-batches of `max_rows` sequences; see `micro_batch`."""
        return [
            self.micro_batch(chunk_tokens, rows[i : i + max_rows], keys[i : i + max_rows], width)
            for i in range(0, len(rows), max_rows)
        ]

    def losses(self, network: Network, micro: MicroBatch) -> tuple[Any, Any]:
        """Weighted sums of the losses of predicted tokens and of pairs.

        Args:
            network: the model.
            micro: a micro-batch on the model's device.

        Returns:
            Two float32 scalars; the second is 0 without pairs.
        """
        inputs = network.inputs(micro.ids, micro.chunk)
        places = micro.at, micro.labels, micro.scale
        return network.predictor.loss(network.call, inputs, *places), 0.0


@dataclass(frozen=True, eq=False)
class RowObjective(Objective):
    """An objective that predicts tokens of the rows that the model reads."""

    def micro_batch(
        self, chunk_tokens: ChunkTokens, rows: Rows, keys: Keys, width: int = 0
    ) -> MicroBatch:
        """See `Objective.micro_batch`."""
        token_rows = self._lay_out(chunk_tokens, rows, keys, width)
        return MicroBatch.of(token_rows, *self._targets(token_rows, keys))

    def _lay_out(self, chunk_tokens: ChunkTokens, rows: Rows, keys: Keys, width: int) -> TokenRows:
        return lay_out(chunk_tokens, rows, self.special, width)

    @abstractmethod
    def _targets(self, token_rows: TokenRows, keys: Keys) -> Targets:
        """Input ids [r, l], the m predicted positions in the flattened rows, and m labels."""


class Base(NamedTuple):
    """The model that an adapter was trained on."""

    name: str  # its folder, or its hub id with the commit
    fingerprint: str  # `models.fingerprint` of its folder


@dataclass(frozen=True)
class Adapter(ABC):
    """A kind of adapter, whose fields are its sizes; those of settings have the settings' names.

    To add one, add one file to `training/adapters/` with one `Adapter`, named like the file. In
    another package: entry point group `corpusfit.adapters`.
    """

    file: ClassVar[str] = "adapter.safetensors"
    """The name of the file with its weights."""
    merges: ClassVar[bool] = False
    """Whether it can be added to the model's own weights: `adapter.save=merged`."""
    divides: ClassVar[bool] = False
    """Whether it goes with `train.shard`."""
    narrow: ClassVar[bool] = False
    """Whether it goes into a model that is opened in half precision."""

    @abstractmethod
    def insert(self, model: Any, seed: int, stored: Collection[str] = ()) -> None:
        """Add it to `model.base_model`, in place; what the model computes stays the same.

        Args:
            model: a frozen model with any head.
            seed: decides the new weights; torch's own generators stay as they are.
            stored: the names of the weights of an adapter that is opened; empty for a new one.

        Raises:
            ModelError: the model has no place for it.
        """

    @abstractmethod
    def weights(self, model: Any) -> dict[str, torch.nn.Parameter]:
        """Its weights in a model by their names in the file, which are the same for any head."""

    def under(self, model: Any) -> Self:
        """It as it is saved from a model with a head."""
        del model
        return self

    def write(self, model: Any, base: Base, folder: Path) -> None:
        """Write what other libraries read beside its weights, if any do."""
        del model, base, folder

    def merged(self, model: Any) -> dict[str, torch.Tensor]:
        """The weights of the model alone with the adapter added, if it `merges`."""
        raise NotImplementedError(f"{type(self).__name__} does not merge with {type(model)}")
