"""Train only those rows of a model's embedding matrix whose tokens the training examples use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.embed.transformer import position_limit
from corpusfit.training.prediction import TOLERANCE, evaluation_mode, relative_difference

if TYPE_CHECKING:
    import torch

_TRIED = 60  # tokens of a probe text; they are renumbered into the range of special tokens


class TaskVocabulary:
    """The embedding matrix of a model, reduced to the tokens of the training examples.

    AdamW updates the whole matrix in every step, which takes most of a step of a small model. A row
    without a gradient only decays, by the same factor for all such rows, so the result equals that
    of the whole matrix. Token ids are renumbered; a model whose logits change with that (ESM, which
    has a fixed id for its mask token) keeps the whole matrix. The model is changed permanently.

    Reference: Loshchilov and Hutter (2019), AdamW, algorithm 2, with zero gradients of a row.

    Args:
        model: transformers model, on its device.
        tokens: int [k], ids in the training examples, possibly repeated.
        pad: padding id.

    Attributes:
        number: int64 [vocabulary], current row of each id.
        pad: current padding id.
        decay_factor: decay factor of the rows without a gradient.
    """

    def __init__(self, model: Any, tokens: NDArray[Any], pad: int) -> None:
        self.decay_factor = 1.0
        self._model, self._table = model, model.get_input_embeddings()
        whole, padding = self._table.weight, self._table.padding_idx
        rows = np.arange(len(whole))
        self._number(rows, pad, whole)
        some = np.setdiff1d(tokens, [pad])[: min(_TRIED, position_limit(model))]
        if not whole.requires_grad or not len(some):
            return
        before = self._logits(some)
        self._number(np.union1d(tokens, [pad]), pad, whole)
        if relative_difference(self._logits(some), before) > TOLERANCE:  # the model uses fixed ids
            self._number(rows, pad, whole)
            self._table.padding_idx = padding

    def _number(self, seen: NDArray[Any], pad: int, whole: torch.nn.Parameter) -> None:
        """Reduce the matrix to some ids, and renumber them first."""
        import torch

        if pad < len(seen):  # RoBERTa derives positions from ids unequal to this number
            seen = np.insert(seen[seen != pad], pad, pad)
        others = np.setdiff1d(np.arange(len(whole)), seen)
        self.number = np.argsort(np.concatenate([seen, others]))
        self.pad = self._model.config.pad_token_id = int(self.number[pad])
        place = torch.from_numpy(seen).to(whole.device), torch.from_numpy(others).to(whole.device)
        self._others = whole.detach()[place[1]]
        own = whole if len(seen) == len(whole) else torch.nn.Parameter(whole.detach()[place[0]])
        self._table.weight = own
        if self._table.padding_idx is not None:
            self._table.padding_idx = self.pad

    def _logits(self, ids: NDArray[Any]) -> torch.Tensor:
        """The model's logits of a text of some ids."""
        import torch

        row = torch.from_numpy(self.number[ids])[None].to(self._model.device)
        with evaluation_mode(self._model):
            logits: torch.Tensor = self._model(input_ids=row).logits.flatten(0, -2)
        return logits

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Context with the whole matrix, for predictions on any example."""
        import torch

        own = self._table.weight
        everything = torch.cat([own.detach(), self._others * self.decay_factor])
        self._table.weight = torch.nn.Parameter(everything, requires_grad=False)
        try:
            yield
        finally:
            self._table.weight = own
