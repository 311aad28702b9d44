"""A model's table of embeddings, cut down to the tokens of a task.

What: the rows of the tokens that training examples hold become the table that is trained; the rest
lies aside, and comes back to look at other examples.
Why: AdamW goes through the whole table at every step, of which a batch of eight texts touches a
hundredth; for a small model that was most of a step.
Trade-off: the same result as with the whole table: a row without a gradient only decays, and by how
much is the same for all of them. Token ids are numbered anew while the model is fine-tuned; a model
that says something else then (ESM knows its mask token by number) keeps its table as it is.
Reference: Loshchilov and Hutter (2019), AdamW, algorithm 2, with all gradients of a row 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.adapt.prediction import TOLERANCE, apart, still
from corpusfit.embed.transformer import position_limit

if TYPE_CHECKING:
    import torch

_TRIED = 60  # ids of a text whose logits must stay: they get the numbers that special ones have


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
        self.faded = 1.0
        self._model, self._table = model, model.get_input_embeddings()
        whole, padding = self._table.weight, self._table.padding_idx
        rows = np.arange(len(whole))
        self._number(rows, pad, whole)
        some = np.setdiff1d(tokens, [pad])[: min(_TRIED, position_limit(model))]
        if not whole.requires_grad or not len(some):
            return
        before = self._logits(some)
        self._number(np.union1d(tokens, [pad]), pad, whole)
        if apart(self._logits(some), before) > TOLERANCE:  # ids mean something elsewhere in it
            self._number(rows, pad, whole)
            self._table.padding_idx = padding

    def _number(self, seen: NDArray[Any], pad: int, whole: torch.nn.Parameter) -> None:
        """Make a table of the rows of some ids, and number these first."""
        import torch

        if pad < len(seen):  # RoBERTa counts its positions by what is not this very number
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
        """What the model says of a text of some ids."""
        import torch

        row = torch.from_numpy(self.number[ids])[None].to(self._model.device)
        with still(self._model):
            logits: torch.Tensor = self._model(input_ids=row).logits.flatten(0, -2)
        return logits

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
