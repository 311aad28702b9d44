"""A model's table of embeddings, cut down to the tokens of a task.

What: the rows of the tokens that training examples hold become the table that is trained; the rest
lies aside, and comes back to look at other examples.
Why: AdamW goes through the whole table at every step, of which a batch of eight texts touches a
hundredth; for a small model that was most of a step.
Trade-off: the same result as with the whole table: a row without a gradient only decays, and by how
much is the same for all of them. Token ids are numbered anew while the model is fine-tuned.
Reference: Loshchilov and Hutter (2019), AdamW, algorithm 2, with all gradients of a row 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Words"]


class Words:
    """The tokens that a model learns of, and all others.

    It changes the model's table of embeddings for good.

    Args:
        model: of transformers, on its device.
        tokens: int [k], the ids that training examples hold, each once or more.
        pad: the id that fills rows.

    Attributes:
        number: int64 [vocabulary], the row in use now of each id.
        pad: the id that fills rows now.
        faded: what is left of the rows without a gradient, after so many steps of decay.
    """

    def __init__(self, model: Any, tokens: NDArray[Any], pad: int) -> None:
        import torch

        self.faded = 1.0
        self._table = model.get_input_embeddings()
        weight = self._table.weight
        rows = np.arange(len(weight))
        seen = np.union1d(tokens, [pad]) if weight.requires_grad else rows
        if pad < len(seen):  # RoBERTa counts its positions by what is not this very number
            seen = seen[seen != pad]
            seen = np.insert(seen, pad, pad)
        self.number = np.argsort(np.concatenate([seen, np.setdiff1d(rows, seen)]))
        self.pad = int(self.number[pad])
        model.config.pad_token_id = self.pad
        order = torch.from_numpy(np.argsort(self.number)).to(weight.device)
        self._others = weight.detach()[order[len(seen) :]]
        own = weight.detach()[order[: len(seen)]]
        self._table.weight = torch.nn.Parameter(own, requires_grad=weight.requires_grad)
        if self._table.padding_idx is not None:
            self._table.padding_idx = self.pad

    @contextmanager
    def whole(self) -> Iterator[None]:
        """The table has all rows for a while, to look at any example."""
        import torch

        own = self._table.weight
        everything = torch.cat([own.detach(), self._others * self.faded])
        self._table.weight = torch.nn.Parameter(everything, requires_grad=False)
        try:
            yield
        finally:
            self._table.weight = own
