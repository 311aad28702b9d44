"""Sequence packing: several chunks in a row, none of which attends to another."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from corpusfit.embed.prediction import TOLERANCE, Predictor, evaluation_mode, relative_difference
from corpusfit.embed.transformer import first_position, quiet
from corpusfit.training.special_tokens import SpecialTokens

if TYPE_CHECKING:
    import torch

LEAK = 1e-2  # tolerance, relative to the effect of a neighboring chunk without a mask
SAMPLED = 32  # positions of a chunk whose logits are compared
FLAT = "flat"  # instead of a mask: the lengths of chunks, all rows of a batch in one
_FLAT_ERROR = 2.0  # tolerances in bf16: of its own error, and of a leak
_FLAT_LEAK = 0.5
_MOST_POSITIONS = 4_096  # of a trial whose row exceeds a model's table of positions


@dataclass(frozen=True)
class Packing:
    """The model inputs that keep chunks of a row apart: attention mask and positions."""

    # number of each chunk's first position; None: the model takes no positions
    positions: int | None
    # form of the mask: `boolean`, true where a token attends; `additive`, added to the
    # attention scores; `flat`, none, but the lengths of all chunks
    form: str
    causal: bool  # a token does not attend to later tokens
    window: int  # attention window of some layers; 0 if all layers attend to the whole chunk

    def inputs(self, ids: torch.Tensor, chunks: torch.Tensor, dtype: torch.dtype) -> dict[str, Any]:
        """Model inputs for rows of token ids [r, l] and the chunk of each token [r, l]."""
        import torch

        inputs: dict[str, Any] = {"input_ids": ids}
        first = torch.ones_like(chunks, dtype=torch.bool)
        first[:, 1:] = chunks[:, 1:] != chunks[:, :-1]
        if self.positions is not None:
            # counted from the first token of each chunk
            position = torch.arange(chunks.shape[1], device=chunks.device).expand_as(chunks)
            begin = position.masked_fill(~first, 0).cummax(1).values
            inputs["position_ids"] = position - begin + self.positions
        if self.form != FLAT:
            return inputs | {"attention_mask": self.mask(chunks, dtype)}
        begins = first.flatten().nonzero()[:, 0]
        ends = torch.nn.functional.pad(begins, (0, 1), value=chunks.numel()).int()
        longest = int(ends.diff().max())
        inputs = {name: rows.reshape(1, -1) for name, rows in inputs.items()}
        inputs |= {"cu_seq_lens_q": ends, "cu_seq_lens_k": ends}
        return inputs | {"max_length_q": longest, "max_length_k": longest}

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
    return torch.zeros_like(seen, dtype=dtype).masked_fill_(~seen, torch.finfo(dtype).min)


def find_packing(
    predictor: Predictor,
    special: SpecialTokens,
    length: int,
    *,
    causal: bool,
    kernels: Sequence[str] = (),
) -> Packing | None:
    """Find masks and positions that keep chunks of a row apart in this model, by trial.

    `kernels` are attention implementations of transformers to try first, in bf16, which take the
    lengths of chunks instead of a mask; the model keeps the first one that works.
    """
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
    ordinary = np.flatnonzero(special.ordinary)
    rng = np.random.default_rng(0)
    sizes = [length - short, short]
    texts = []
    for n in sizes:
        ids = [*special.prefix, *rng.choice(ordinary, n - overhead), *special.suffix]
        texts.append(torch.tensor(ids, dtype=torch.long, device=model.device))
    spread = [torch.linspace(0, n - 1, min(n, SAMPLED)).long().to(model.device) for n in sizes]
    row = torch.cat(texts)[None]
    at = torch.cat([spread[0], spread[1] + sizes[0]])
    chunks = torch.arange(2, device=model.device).repeat_interleave(
        torch.tensor(sizes, device=model.device)
    )[None]

    def alone() -> torch.Tensor:
        ones = zip(texts, spread, strict=True)
        logits = [predictor.logits(model, {"input_ids": t[None]}, a) for t, a in ones]
        return torch.cat(logits).float()

    def packed(inputs: dict[str, Any], at: torch.Tensor) -> torch.Tensor:
        return predictor.logits(model, inputs, at).float()

    config = model.config
    before = getattr(config, "_attn_implementation", "eager")
    starts = dict.fromkeys((first_position(model), 0, None))
    with evaluation_mode(model):
        exact = alone()
        in_bf16 = torch.autocast(model.device.type, torch.bfloat16)
        for kernel, start in product(kernels, starts):
            # several rows become one, which is longer than a table of positions or kinds
            limit = min(getattr(config, "max_position_embeddings", 0), _MOST_POSITIONS)
            rows = 1 + limit // length
            packing = Packing(start, FLAT, causal, 0)
            many_ids = row.expand(rows, -1)
            many_chunks = chunks.expand(rows, -1)
            last = at + (rows - 1) * length
            try:
                with in_bf16, quiet():
                    rounded = relative_difference(alone(), exact)
                    model.set_attn_implementation(kernel)
                    inputs = packing.inputs(many_ids, many_chunks, torch.bfloat16)
                    error = relative_difference(packed(inputs, last), exact)
                    one = packing.inputs(many_ids, torch.zeros_like(many_chunks), torch.bfloat16)
                    one["position_ids"] = inputs["position_ids"]
                    leak = relative_difference(packed(one, last), exact)
                if error <= _FLAT_ERROR * rounded and error <= _FLAT_LEAK * leak:
                    return packing
            except Exception:  # models raise many kinds of exceptions for an argument  # noqa: S110
                pass
            with suppress(Exception):  # models that are not transformers' own have no such method
                model.set_attn_implementation(before)
        slides = "sliding_attention" in (getattr(config, "layer_types", None) or ())
        reach = getattr(config, "sliding_window", None) or 0
        windows = (0, reach) if slides and reach else (0,)
        # try likely and fast variants first
        forms = ("additive", "boolean") if before == "eager" else ("boolean", "additive")
        for form, window, start in product(forms, windows, starts):
            packing = Packing(start, form, causal, window)
            inputs = packing.inputs(row, chunks, torch.float32)
            try:
                error = relative_difference(packed(inputs, at), exact)
                if error > TOLERANCE:
                    continue
                everything = packing.mask(torch.zeros_like(chunks), torch.float32)
                mixed = packed({**inputs, "attention_mask": everything}, at)
                leak = relative_difference(mixed, exact)
            except Exception:  # models raise many kinds of exceptions for an argument  # noqa: S112
                continue
            if error <= LEAK * leak:
                return packing
    return None
