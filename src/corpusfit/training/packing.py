"""Sequence packing: several chunks in a row, none of which attends to another."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from corpusfit.embed.prediction import TOLERANCE, Predictor, evaluation_mode, relative_difference
from corpusfit.embed.transformer import first_position
from corpusfit.training.special_tokens import SpecialTokens

if TYPE_CHECKING:
    import torch

LEAK = 1e-2  # tolerance, relative to the effect of a neighboring chunk without a mask
SAMPLED = 32  # positions of a chunk whose logits are compared


@dataclass(frozen=True)
class Packing:
    """The model inputs that keep chunks of a row apart: attention mask and positions."""

    # number of each chunk's first position; None: the model takes no positions
    positions: int | None
    # form of the mask: `boolean`, true where a token attends; `additive`, added to the
    # attention scores; `pairs`, 1 where a token attends, without an axis for heads, as BERT
    # models take it in transformers 4
    form: str
    causal: bool  # a token does not attend to later tokens
    window: int  # attention window of some layers; 0 if all layers attend to the whole chunk

    def inputs(self, chunks: torch.Tensor, dtype: torch.dtype) -> dict[str, Any]:
        """Model inputs besides the token ids."""
        import torch

        inputs = {"attention_mask": self.mask(chunks, dtype)}
        if self.positions is not None:
            # counted from the first token of each chunk
            position = torch.arange(chunks.shape[1], device=chunks.device).expand_as(chunks)
            first = torch.ones_like(chunks, dtype=torch.bool)
            first[:, 1:] = chunks[:, 1:] != chunks[:, :-1]
            begin = position.masked_fill(~first, 0).cummax(1).values
            inputs["position_ids"] = position - begin + self.positions
        return inputs

    def mask(self, chunks: torch.Tensor, dtype: torch.dtype) -> Any:
        """The attention mask; one for each kind of layer where layers differ."""
        full = block_mask(chunks, self.form, dtype, causal=self.causal)
        if not self.window:
            return full
        sliding = block_mask(chunks, self.form, dtype, causal=self.causal, window=self.window)
        return {"full_attention": full, "sliding_attention": sliding}


def block_mask(
    chunks: torch.Tensor, form: str, dtype: torch.dtype, *, causal: bool = False, window: int = 0
) -> torch.Tensor:
    """Block-diagonal attention mask: a token attends to its own chunk, padding to padding."""
    import torch

    seen = chunks[:, None, :, None] == chunks[:, None, None, :]
    if causal or window:
        position = torch.arange(chunks.shape[1], device=chunks.device)
        back = position[:, None] - position
        if causal:
            seen = seen & (back >= 0)
        if window:
            seen = seen & (back < window if causal else back.abs() <= window)
    if form == "boolean":
        return seen
    if form == "pairs":
        return seen[:, 0].to(dtype)
    return torch.zeros_like(seen, dtype=dtype).masked_fill_(~seen, torch.finfo(dtype).min)


def find_packing(
    predictor: Predictor, special: SpecialTokens, length: int, *, causal: bool
) -> Packing | None:
    """Find masks and positions that keep chunks of a row apart in this model, by trial."""
    # A packing works if two chunks in one row have the same logits as each chunk alone. The
    # trial takes a few forward passes.
    # Reference: Krell et al. (2021), Efficient Sequence Packing without Cross-contamination.
    import torch

    model = predictor.model
    # two chunks that fill a row: a long one that exceeds windows, and a short one
    overhead = len(special.prefix) + len(special.suffix)
    short = max(length // 8, overhead + 2)
    if length < short + overhead + 3:
        return None
    ordinary, rng = np.flatnonzero(special.ordinary), np.random.default_rng(0)
    sizes = [length - short, short]
    texts = []
    for n in sizes:
        ids = [*special.prefix, *rng.choice(ordinary, n - overhead), *special.suffix]
        texts.append(torch.tensor(ids, dtype=torch.long, device=model.device))
    spread = [torch.linspace(0, n - 1, min(n, SAMPLED)).long().to(model.device) for n in sizes]
    row, at = torch.cat(texts)[None], torch.cat([spread[0], spread[1] + sizes[0]])
    chunks = torch.arange(2, device=model.device).repeat_interleave(
        torch.tensor(sizes, device=model.device)
    )[None]

    def packed(inputs: dict[str, Any]) -> torch.Tensor:
        return predictor.logits(model, {"input_ids": row, **inputs}, at)

    config = model.config
    eager = getattr(config, "_attn_implementation", "eager") == "eager"
    slides = "sliding_attention" in (getattr(config, "layer_types", None) or ())
    reach = getattr(config, "sliding_window", None) or 0
    windows = (0, reach) if slides and reach else (0,)
    starts = dict.fromkeys((first_position(model), 0, None))
    # try likely and fast variants first
    forms = ("additive", "boolean", "pairs") if eager else ("boolean", "additive", "pairs")
    with evaluation_mode(model):
        ones = zip(texts, spread, strict=True)
        alone = torch.cat([predictor.logits(model, {"input_ids": t[None]}, a) for t, a in ones])
        for form, window, start in product(forms, windows, starts):
            packing = Packing(start, form, causal, window)
            inputs = packing.inputs(chunks, torch.float32)
            try:
                error = relative_difference(packed(inputs), alone)
                if error > TOLERANCE:
                    continue
                everything = packing.mask(torch.zeros_like(chunks), torch.float32)
                leak = relative_difference(packed({**inputs, "attention_mask": everything}), alone)
            except Exception:  # models raise many kinds of exceptions for an argument  # noqa: S112
                continue
            if error <= LEAK * leak:
                return packing
    return None
