"""Logits of texts from their first tokens, so that texts can share a row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from corpusfit.training.prediction import Predictor

if TYPE_CHECKING:
    import torch


class FirstToken(Predictor):
    """The logits of texts from their first tokens, anywhere in a row.

    transformers' heads for texts read the first token of a row. A hook gives them the selected
    tokens as rows of their own, so texts can share a row. If the logits differ from the model's own
    (`hooked` is false; a head that averages, a decoder that reads the last token), a row holds one
    text.
    """

    pools: ClassVar[bool] = True  # each selected state is the first of a row

    def _parts(self) -> Iterator[Any]:
        base = self.model.base_model
        yield getattr(base, "encoder", None)  # BERT's pooler follows in its base model
        yield base

    def _tried(self, inputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        import torch

        own = self.model(**inputs).logits.flip(0)  # fails for a hook without effect
        at = torch.tensor([4, 0], device=self.model.device)
        return own, self.logits(self.model, inputs, at)

    def _arranged(self, states: torch.Tensor) -> torch.Tensor:
        return states[:, None]  # each state is a row of its own

    def logits(self, call: Any, inputs: dict[str, Any], at: torch.Tensor) -> torch.Tensor:
        """Logits of texts, from their first tokens."""
        logits: torch.Tensor = self._asked(call, inputs, at).logits
        return logits
