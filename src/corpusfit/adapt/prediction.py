"""What a language model predicts, computed only where it is asked for.

What: the logits of chosen positions, by a hook that keeps only their states before the model's own
head.
Why: 15 % of the positions of a masked batch are predicted, but a head multiplies all of them with
the vocabulary: without that a step of a small model takes less than half the time.
Trade-off: it rests on how a model is written, so it is tried on the model itself first; where the
logits are not the model's own, they are computed for all positions and picked.
Reference: the forward hooks of PyTorch; Liu et al. (2019), RoBERTa, whose head does the same.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from corpusfit.embed.hardware import seeded

if TYPE_CHECKING:
    import torch

__all__ = ["TOLERANCE", "Predictor", "apart", "still"]

TOLERANCE = 1e-4  # of the largest logit: float32 sums of other shapes differ by less than 1e-5


class Predictor:
    """The logits of chosen positions, for any model whose head is token-wise.

    It hooks into the model for good; calls that do not come from here are left alone. To be made
    before an adapter or a distributed wrapper is put around the model.

    Args:
        model: a language model of transformers; its mode, weights and generators stay as they are.

    Attributes:
        model: as given.
        hooked: whether the head sees the chosen positions alone; else they are picked from all.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.hooked = False
        self._at: torch.Tensor | None = None
        self._seen = False
        takes = inspect.signature(model.forward).parameters
        self._more = {"use_cache": False} if "use_cache" in takes else {}
        self.hooked = any(part is not None and self._hook(part) for part in self._parts())

    def _parts(self) -> Iterator[Any]:
        """What may hand the states to the head."""
        base = self.model.base_model
        yield base
        yield getattr(base, "decoder", None)  # OPT's head reads a part of its base
        yield getattr(self.model, "model", None)  # Gemma 3 calls itself its base

    def _hook(self, part: Any) -> bool:
        """Hook into a part, unless the logits are not the model's own then."""
        import torch

        handle = part.register_forward_hook(self._keep)
        rows = self.model.get_input_embeddings().weight.shape[0]
        ids = torch.arange(8, device=self.model.device).reshape(2, 4) % rows
        with still(self.model):
            own, hooked = self._tried(ids)
        if self._seen and hooked.shape == own.shape and apart(hooked, own) < TOLERANCE:
            return True
        handle.remove()
        return False

    def _tried(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The model's own logits of some places of rows, and what comes of the hook."""
        import torch

        at = torch.tensor([1, 2, 6], device=ids.device)
        own = _logits(self.model(input_ids=ids)).flatten(0, 1)[at]
        return own, self.logits(self.model, {"input_ids": ids}, at)

    def _keep(self, _module: Any, _args: Any, out: Any) -> Any:
        """Of the states that leave the part, those that are asked for."""
        if self._at is None:
            return out
        self._seen = True
        states = out[0].flatten(0, 1).index_select(0, self._at)
        out.last_hidden_state = self._arranged(states)
        return out

    def _arranged(self, states: torch.Tensor) -> torch.Tensor:
        """States [M, d] as the head takes them: one row."""
        return states[None]

    def _call(
        self, call: Any, inputs: dict[str, Any], at: torch.Tensor
    ) -> tuple[Any, torch.Tensor]:
        """All that the model returns, and the logits [M, V] of the positions."""
        self._at, self._seen = at, False
        try:
            out = call(**inputs, **self._more)
        finally:
            self._at = None
        logits: torch.Tensor = _logits(out).flatten(0, 1)
        return out, logits if self._seen else logits.index_select(0, at)

    def logits(self, call: Any, inputs: dict[str, Any], at: torch.Tensor) -> torch.Tensor:
        """What the model predicts at some positions.

        Args:
            call: the model, or what was wrapped around it.
            inputs: of the model: `input_ids` [B, L] and what else it is to get.
            at: int64 [M], places in the flattened batch (row times L plus column), each once.

        Returns:
            [M, V], in the order of `at`. A causal model's are those of the next token.
        """
        return self._call(call, inputs, at)[1]

    def pair(
        self, call: Any, inputs: dict[str, Any], at: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits as above [M, V], and of whether the second text follows the first [B, 2].

        The model is one that `open_model` gave for `mlm+nsp`; class 0 says that it follows.
        """
        out, logits = self._call(call, inputs, at)
        return logits, out.seq_relationship_logits


def _logits(out: Any) -> Any:
    """Of tokens, among what a model returns."""
    return out["logits"] if "logits" in out else out["prediction_logits"]


def apart(some: torch.Tensor, others: torch.Tensor) -> float:
    """The largest difference, in units of the largest logit; not a number never passes a limit."""
    largest = (some - others).abs().max() / others.abs().max()
    return float(largest.nan_to_num(float("inf")))


@contextmanager
def still(model: Any) -> Iterator[None]:
    """The model in evaluation, without gradients; its mode and torch's generators come back."""
    import torch

    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        with seeded(0), torch.no_grad():
            yield
    finally:
        model.train(modes[0][1])  # BigBird exchanges parts of itself while it runs
        for part, mode in modes:
            part.training = mode
