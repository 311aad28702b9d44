"""Rows that hold several chunks of text, none of which sees another.

What: the mask of pairs and the positions that tell a model where one chunk ends and the next
begins; and a trial of whether the model heeds them.
Why: texts are of all lengths, and padding is time lost; and chunks that see each other learn from
what has nothing to do with them.
Trade-off: a model is judged by what it does rather than by its name: two chunks that share a row
must have the logits that each has alone. Where no way is found (its attention takes no mask of
pairs, or its positions cannot restart) it gets one chunk a row. A trial costs a few forward passes.
Reference: Krell et al. (2021), Efficient Sequence Packing without Cross-contamination.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from corpusfit.adapt.prediction import TOLERANCE, Predictor, apart, still
from corpusfit.adapt.special_tokens import Marks
from corpusfit.embed.transformer import first_position

if TYPE_CHECKING:
    import torch

LEAK = 1e-2  # of what chunks do to each other where nothing keeps them apart
SAMPLED = 32  # positions of a chunk whose logits are compared


@dataclass(frozen=True)
class Packing:
    """How a model is told that a row holds several chunks.

    Attributes:
        positions: number of each chunk's first position; None: the model takes no positions.
        form: of the mask: `boolean`, true where one sees; `additive`, what is added to the scores
            of attention; `pairs`, 1 where one sees and without an axis for heads, which is what
            BERT and its kin understand in transformers 4.
        causal: nothing sees what comes after it.
        window: some layers see no further than this; 0 where all see the whole chunk.
    """

    positions: int | None
    form: str
    causal: bool
    window: int

    def inputs(self, chunks: torch.Tensor, dtype: torch.dtype) -> dict[str, Any]:
        """What the model gets beside the token ids.

        Args:
            chunks: int64 [B, L], number of the chunk that a token belongs to: different for
                neighbours in a row, and -1 for padding.
            dtype: that attention computes in (bf16 under autocast).

        Returns:
            `attention_mask`, and `position_ids` [B, L] if it takes them.
        """
        given = {"attention_mask": self.mask(chunks, dtype)}
        if self.positions is not None:
            given["position_ids"] = _restarting(chunks) + self.positions
        return given

    def mask(self, chunks: torch.Tensor, dtype: torch.dtype) -> Any:
        """The mask alone; where layers differ, one for each kind of layer."""
        whole = block_mask(chunks, self.form, dtype, causal=self.causal)
        if not self.window:
            return whole
        near = block_mask(chunks, self.form, dtype, causal=self.causal, window=self.window)
        return {"full_attention": whole, "sliding_attention": near}


def block_mask(
    chunks: torch.Tensor,
    form: str,
    dtype: torch.dtype,
    *,
    causal: bool = False,
    window: int = 0,
) -> torch.Tensor:
    """Which tokens see which: those of their own chunk, and padding sees padding.

    Args:
        chunks: int64 [B, L], number of the chunk that a token belongs to.
        form: `boolean`; `additive`, 0 where one sees and the lowest number of the dtype elsewhere;
            or `pairs`, 1 and 0.
        dtype: of a mask of numbers.
        causal: only what came before, and itself.
        window: only what is no further than this (causal: nearer than this); 0 for no limit.

    Returns:
        [B, 1, L, L], or [B, L, L] of pairs; every token sees at least itself, so that no row of
        scores is empty.
    """
    import torch

    seen = chunks[:, None, :, None] == chunks[:, None, None, :]
    if causal or window:
        place = torch.arange(chunks.shape[1], device=chunks.device)
        back = place[:, None] - place
        if causal:
            seen = seen & (back >= 0)
        if window:
            seen = seen & (back < window if causal else back.abs() <= window)
    if form == "boolean":
        return seen
    if form == "pairs":
        return seen[:, 0].to(dtype)
    return torch.zeros_like(seen, dtype=dtype).masked_fill_(~seen, torch.finfo(dtype).min)


def _restarting(chunks: torch.Tensor) -> torch.Tensor:
    """Number of each token in its own chunk, from 0: int64 [B, L]."""
    import torch

    place = torch.arange(chunks.shape[1], device=chunks.device).expand_as(chunks)
    first = torch.ones_like(chunks, dtype=torch.bool)
    first[:, 1:] = chunks[:, 1:] != chunks[:, :-1]
    begin: torch.Tensor = place.masked_fill(~first, 0).cummax(1).values
    return place - begin


def find_packing(
    predictor: Predictor, marks: Marks, length: int, *, causal: bool
) -> Packing | None:
    """How chunks can share a row of this model, found by trying.

    A way is taken where two chunks in one row have the logits that each has alone.

    Args:
        predictor: of the model, which is in float32; its mode and generators stay as they are.
        marks: of its tokenizer.
        length: tokens in a row, at most `Opened.longest`: as in training, because attention that
            reaches only so far shows in rows longer than that.
        causal: the model predicts the next token.

    Returns:
        None where no way was found, or the row is too short for two chunks.
    """
    import torch

    model = predictor.model
    texts = [torch.from_numpy(t).to(model.device) for t in _two(marks, length)]
    if not texts:
        return None
    sizes = [len(t) for t in texts]
    spread = [torch.linspace(0, n - 1, min(n, SAMPLED)).long().to(model.device) for n in sizes]
    row, at = torch.cat(texts)[None], torch.cat([spread[0], spread[1] + sizes[0]])
    chunks = torch.arange(2, device=model.device).repeat_interleave(
        torch.tensor(sizes, device=model.device)
    )[None]

    def packed(inputs: dict[str, Any]) -> torch.Tensor:
        return predictor.logits(model, {"input_ids": row, **inputs}, at)

    with still(model):
        ones = zip(texts, spread, strict=True)
        alone = torch.cat([predictor.logits(model, {"input_ids": t[None]}, a) for t, a in ones])
        for way in _ways(model, causal):
            inputs = way.inputs(chunks, torch.float32)
            try:
                error = apart(packed(inputs), alone)
                if error > TOLERANCE:
                    continue
                everything = way.mask(torch.zeros_like(chunks), torch.float32)
                leak = apart(packed({**inputs, "attention_mask": everything}), alone)
            except Exception:  # a model refuses an argument in its own way  # noqa: S112
                continue
            if error <= LEAK * leak:
                return way
    return None


def _two(marks: Marks, length: int) -> list[Any]:
    """Two chunks that fill a row, int64 each: a long one that shows windows, and a short one."""
    special = len(marks.prefix) + len(marks.suffix)
    short = max(length // 8, special + 2)
    if length < short + special + 3:
        return []
    words = np.flatnonzero(marks.ordinary)
    chance = np.random.default_rng(0)
    return [
        np.array([*marks.prefix, *chance.choice(words, n - special), *marks.suffix], np.int64)
        for n in (length - short, short)
    ]


def _ways(model: Any, causal: bool) -> Iterator[Packing]:
    """All ways to try, the likely and cheap ones first."""
    config = model.config
    eager = getattr(config, "_attn_implementation", "eager") == "eager"
    slides = "sliding_attention" in (getattr(config, "layer_types", None) or ())
    reach = getattr(config, "sliding_window", None) or 0
    windows = (0, reach) if slides and reach else (0,)
    starts = dict.fromkeys((first_position(model), 0, None))
    forms = ("additive", "boolean", "pairs") if eager else ("boolean", "additive", "pairs")
    for form, window, start in product(forms, windows, starts):
        yield Packing(start, form, causal, window)
