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


class _Trial:
    """Two chunks of random tokens that fill a row: a long one that exceeds windows, a short one."""

    def __init__(self, predictor: Predictor, special: SpecialTokens, sizes: list[int]) -> None:
        import torch

        self._predictor = predictor
        device = predictor.model.device
        ordinary = np.flatnonzero(special.ordinary)
        rng = np.random.default_rng(0)
        overhead = len(special.prefix) + len(special.suffix)
        self._texts = []
        for n in sizes:
            ids = [*special.prefix, *rng.choice(ordinary, n - overhead), *special.suffix]
            self._texts.append(torch.tensor(ids, dtype=torch.long, device=device))
        self._compared = [
            torch.linspace(0, n - 1, min(n, SAMPLED)).long().to(device) for n in sizes
        ]
        self.row = torch.cat(self._texts)[None]
        self.at = torch.cat([self._compared[0], self._compared[1] + sizes[0]])
        counts = torch.tensor(sizes, device=device)
        self.chunks = torch.arange(2, device=device).repeat_interleave(counts)[None]

    def alone(self) -> torch.Tensor:
        """The logits of each chunk in a row of its own, at the positions that are compared."""
        import torch

        logits = [
            self._predictor.logits(self._predictor.model, {"input_ids": text[None]}, at)
            for text, at in zip(self._texts, self._compared, strict=True)
        ]
        return torch.cat(logits).float()

    def packed(self, inputs: dict[str, Any], before: int = 0) -> torch.Tensor:
        """The logits of a model's inputs at these positions, after so many tokens before."""
        return self._predictor.logits(self._predictor.model, inputs, self.at + before).float()


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
    overhead = len(special.prefix) + len(special.suffix)
    short = max(length // 8, overhead + 2)
    if length < short + overhead + 3:
        return None
    trial = _Trial(predictor, special, [length - short, short])
    config = model.config
    before = getattr(config, "_attn_implementation", "eager")
    starts = dict.fromkeys((first_position(model), 0, None))
    with evaluation_mode(model):
        exact = trial.alone()
        for kernel, start in product(kernels, starts):
            packing = Packing(start, FLAT, causal, 0)
            with suppress(Exception):  # models raise many kinds of exceptions for an argument
                if _takes_lengths(model, kernel, packing, trial, exact):
                    return packing
            with suppress(Exception):  # models that are not transformers' own have no such method
                model.set_attn_implementation(before)
        slides = "sliding_attention" in (getattr(config, "layer_types", None) or ())
        reach = getattr(config, "sliding_window", None) or 0
        windows = (0, reach) if slides and reach else (0,)
        # try likely and fast variants first
        forms = ("additive", "boolean") if before == "eager" else ("boolean", "additive")
        for form, window, start in product(forms, windows, starts):
            packing = Packing(start, form, causal, window)
            inputs = packing.inputs(trial.row, trial.chunks, torch.float32)
            try:
                error = relative_difference(trial.packed(inputs), exact)
                if error > TOLERANCE:
                    continue
                everything = packing.mask(torch.zeros_like(trial.chunks), torch.float32)
                mixed = trial.packed({**inputs, "attention_mask": everything})
                leak = relative_difference(mixed, exact)
            except Exception:  # models raise many kinds of exceptions for an argument  # noqa: S112
                continue
            if error <= LEAK * leak:
                return packing
    return None


def _takes_lengths(
    model: Any, kernel: str, packing: Packing, trial: _Trial, exact: torch.Tensor
) -> bool:
    """Whether a model keeps chunks apart by their lengths, with a kernel that it is set to."""
    import torch

    length = trial.row.shape[1]
    # several rows become one, which is longer than a table of positions or kinds
    limit = min(getattr(model.config, "max_position_embeddings", 0), _MOST_POSITIONS)
    rows = 1 + limit // length
    ids = trial.row.expand(rows, -1)
    chunks = trial.chunks.expand(rows, -1)
    before = (rows - 1) * length
    with torch.autocast(model.device.type, torch.bfloat16), quiet():
        rounded = relative_difference(trial.alone(), exact)
        model.set_attn_implementation(kernel)
        inputs = packing.inputs(ids, chunks, torch.bfloat16)
        error = relative_difference(trial.packed(inputs, before), exact)
        one = packing.inputs(ids, torch.zeros_like(chunks), torch.bfloat16)
        one["position_ids"] = inputs["position_ids"]
        leak = relative_difference(trial.packed(one, before), exact)
    return error <= _FLAT_ERROR * rounded and error <= _FLAT_LEAK * leak
