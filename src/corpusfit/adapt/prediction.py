"""What a language model predicts, computed only where it is asked for.

What: the logits of chosen positions, by hooks that keep only their states: in the last layer, where
no other token needs them any more, or else before the model's own head.
Why: 15 % of the positions of a masked batch are predicted, but a head multiplies all of them with
the vocabulary: without that a step of a small model takes less than half the time. And the last
layer need give no others: most of its products, five sixths of them, are for states nobody reads.
Trade-off: it rests on how a model is written, so it is tried on the model itself first; where the
logits are not the model's own, they are computed for all positions and picked. Of the layers, only
those written as BERT's are known.
Reference: the forward hooks of PyTorch; Liu et al. (2019), RoBERTa, whose head does the same.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from corpusfit.adapt.partial_attention import attended, like_bert
from corpusfit.embed.hardware import seeded

if TYPE_CHECKING:
    import torch

_HEAD, _LAYER, _ATTENTION = "head", "layer", "attention"  # where states are picked
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
        early: where before that: in the last `layer`, in its `attention` already, or empty.
        pools: whether a pooler can do without the first token of each row.
    """

    pools: ClassVar[bool] = False

    def __init__(self, model: Any) -> None:
        self.model = model
        self.hooked, self.early = False, ""
        self._at: torch.Tensor | None = None
        self._laid: torch.Size | None = None  # rows and columns that `_at` is about
        self._seen = ""  # where they were picked
        takes = inspect.signature(model.forward).parameters
        self._more = {"use_cache": False} if "use_cache" in takes else {}
        for part in self._parts():
            if part is not None and self._stays(_HEAD, part.register_forward_hook(self._keep)):
                self.hooked = True
                break
        last = self._last_attention() if self.hooked else None
        if last and self._stays(_LAYER, last.output.register_forward_pre_hook(self._keep_early)):
            self.early = _LAYER
            inside = last.self
            if like_bert(inside) and self._stays(_ATTENTION, _Instead(inside, self._mixed_early)):
                self.early = _ATTENTION

    def _last_attention(self) -> Any:
        """The last layer's, whose `output` takes what its `self` gives and what went in; if known.

        A pooler would miss the first token of each row.
        """
        base = self.model.base_model
        layers = getattr(getattr(base, "encoder", None), "layer", None)
        if not layers or not (self.pools or getattr(base, "pooler", None) is None):
            return None
        attention = getattr(layers[-1], "attention", None)
        return attention if hasattr(attention, "output") and hasattr(attention, "self") else None

    def _parts(self) -> Iterator[Any]:
        """What may hand the states to the head."""
        base = self.model.base_model
        yield base
        yield getattr(base, "decoder", None)  # OPT's head reads a part of its base
        yield getattr(self.model, "model", None)  # Gemma 3 calls itself its base

    def _stays(self, where: str, handle: Any) -> bool:
        """Whether a hook picks there, and the logits are the model's own; else it is removed."""
        import torch

        rows = self.model.get_input_embeddings().weight.shape[0]
        ids = torch.arange(8, device=self.model.device).reshape(2, 4) % rows
        seen = torch.ones_like(ids)
        seen[1, 3] = 0
        try:
            with still(self.model):
                own, hooked = self._tried({"input_ids": ids, "attention_mask": seen})
            good = hooked.shape == own.shape and apart(hooked, own) < TOLERANCE
            good = good and self._seen == where
        except Exception:  # layers and heads refuse what was left of the rows in their own ways
            good = False
        if not good:
            handle.remove()
        return good

    def _tried(self, inputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """The model's own logits of some places of rows, and what comes of the hook."""
        import torch

        at = torch.tensor([1, 2, 6], device=self.model.device)
        own = _logits(self.model(**inputs)).flatten(0, 1)[at]
        return own, self.logits(self.model, inputs, at)

    def _keep(self, _module: Any, _args: Any, out: Any) -> Any:
        """Of the states that leave the part, those that are asked for."""
        if self._at is None:
            return out
        if not self._seen:
            self._seen = _HEAD
            out.last_hidden_state = self._picked(out[0])
        return out

    def _mixed_early(self, own: Any, part: Any, states: Any, *args: Any, **more: Any) -> Any:
        """What the last attention gives, of all that are asked for."""
        at, mask = self._at, args[0] if args else more.get("attention_mask")
        known = mask is None or mask.ndim == len("BHLL")
        if at is None or not len(at) or at.is_cuda or states.shape[:2] != self._laid or not known:
            return own(states, *args, **more)
        self._seen = _ATTENTION
        return self._arranged(attended(part, states, mask, at)), None

    def _keep_early(self, _module: Any, args: Any) -> Any:
        """The same of all that goes into the part; rows that a model has padded are left alone."""
        if self._at is None or args[-1].shape[:2] != self._laid:
            return None
        rest = args[1:] if self._seen == _ATTENTION else args  # attention's own were picked there
        self._seen = self._seen or _LAYER
        return *args[: len(args) - len(rest)], *map(self._picked, rest)

    def _picked(self, states: torch.Tensor) -> torch.Tensor:
        """Of states [B, L, d] those that are asked for, arranged."""
        assert self._at is not None  # noqa: S101
        return self._arranged(states.flatten(0, 1).index_select(0, self._at))

    def _arranged(self, states: torch.Tensor) -> torch.Tensor:
        """States [M, d] as the head takes them: one row."""
        return states[None]

    def _call(
        self, call: Any, inputs: dict[str, Any], at: torch.Tensor
    ) -> tuple[Any, torch.Tensor]:
        """All that the model returns, and the logits [M, V] of the positions."""
        out = self._asked(call, inputs, at)
        logits: torch.Tensor = _logits(out).flatten(0, 1)
        return out, logits if self._seen else logits.index_select(0, at)

    def _asked(self, call: Any, inputs: dict[str, Any], at: torch.Tensor) -> Any:
        """What the model returns while the hooks keep some positions; says in `_seen` if so."""
        self._at, self._laid, self._seen = at, inputs["input_ids"].shape, ""
        try:
            return call(**inputs, **self._more)
        finally:
            self._at = None

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


class _Instead:
    """Stands in for what a part does, until it is removed.

    Args:
        part: a module.
        called: with what the part would have done, the part, and its arguments.
    """

    def __init__(self, part: Any, called: Any) -> None:
        self._part = part
        part.forward = partial(called, part.forward, part)

    def remove(self) -> None:
        """Let the part do its own again."""
        del self._part.forward


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
