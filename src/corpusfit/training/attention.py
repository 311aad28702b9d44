"""Causal attention of packed chunks on a CPU, block by block.

transformers' own attention on a CPU takes a mask over whole rows, and computes what the mask hides:
all later tokens and all other chunks. Here queries go in blocks of 128, each with the keys that it
sees alone, so scores stay in the processor's cache. Nothing of the size of the scores is kept for
the backward pass, which computes them again.

Reference: Dao (2024), FlashAttention-2, section 3.1; softmax is over whole rows of scores here.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import torch
from torch.amp import custom_bwd, custom_fwd

NAME = "corpusfit"
_BLOCK = 128  # queries; 64 and 256 were slower at 1,024 tokens


def register() -> str:
    """Offer the attention to models of transformers; returns the name to set."""
    from transformers import AttentionInterface, AttentionMaskInterface

    def mask(*places: Any, attention_mask: Any = None, **more: Any) -> Any:
        # rows without padding need none, and packed ones have lengths
        if attention_mask is None:
            return None
        return sdpa(*places, attention_mask=attention_mask, **more)

    sdpa = AttentionMaskInterface()["sdpa"]
    AttentionMaskInterface.register(NAME, mask)
    AttentionInterface.register(NAME, attend)
    return NAME


def attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: Any,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Attention to earlier tokens of the same chunk, as transformers calls it.

    The query is [r, h, n, d], key and value are [r, k, n, d] for k groups of heads, and chunks
    [c + 1] begin and end in one row at `cu_seq_lens_q`, or are the rows. Returns [r, n, h, d].
    Raises `NotImplementedError` for what is not causal or has something added to its scores.
    """
    from transformers import AttentionInterface

    causal = options.get("is_causal")
    causal = getattr(module, "is_causal", False) if causal is None else causal
    if not causal or options.get("softcap") or options.get("s_aux") is not None:
        raise NotImplementedError("attention that is causal, with nothing added to it")
    # padded rows and the next token of a text, which no training has
    if mask is not None or query.shape[2] == 1:
        whole: Any = AttentionInterface()["sdpa"]
        out, _ = whole(module, query, key, value, mask, **options)
        return out, None
    rows, _, n, width = query.shape
    if key.shape[2] != n:
        raise NotImplementedError("attention to stored keys")
    ends = options.get("cu_seq_lens_q")
    # heads that share their keys are rows of one product
    query, key, value = (t.transpose(0, 1).flatten(1, 2) for t in (query, key, value))
    query = (query * (options.get("scaling") or width**-0.5)).unflatten(0, (len(key), -1))
    out = _Blocks.apply(  # type: ignore[no-untyped-call]
        query,
        key,
        value,
        list(range(0, rows * n + 1, n)) if ends is None else ends.tolist(),
        options.get("sliding_window") or 0,
        options.get("dropout", 0.0),
    )
    return out.flatten(0, 1).transpose(0, 1).unflatten(0, (rows, n)), None


class _Blocks(torch.autograd.Function):
    """Attention [k, g, n, d] of scaled queries [k, g, n, d] to keys and values [k, n, d]."""

    @staticmethod
    @custom_fwd(device_type="cpu", cast_inputs=torch.bfloat16)  # type: ignore[untyped-decorator]
    def forward(
        ctx: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        ends: list[int],
        window: int,
        dropout: float,
    ) -> torch.Tensor:
        """Compute each block of queries."""
        ctx.blocks = list(_blocks(ends, window, query.dtype))
        ctx.dropout = dropout
        kept = []
        out = query.new_empty(*query.shape[:3], value.shape[2])
        for queries, keys, unseen in ctx.blocks:
            p = _probabilities(query[:, :, queries], key[:, keys], unseen)
            if dropout:
                kept.append(torch.rand_like(p, dtype=torch.float32) >= dropout)
                p = p * kept[-1] / (1 - dropout)
            out[:, :, queries] = torch.bmm(p, value[:, keys]).view_as(out[:, :, queries])
        ctx.save_for_backward(query, key, value, *kept)
        return out

    @staticmethod
    @custom_bwd(device_type="cpu")  # type: ignore[untyped-decorator]
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Compute each block's probabilities again, and add up the gradients."""
        query, key, value, *kept = ctx.saved_tensors
        of_query = torch.empty_like(query)
        of_key, of_value = (torch.zeros_like(t, dtype=torch.float32) for t in (key, value))
        for number, (queries, keys, unseen) in enumerate(ctx.blocks):
            q = query[:, :, queries]
            k = key[:, keys]
            p = used = _probabilities(q, k, unseen)
            g = grad[:, :, queries].flatten(1, 2)
            of_p = torch.bmm(g, value[:, keys].transpose(1, 2))
            if kept:
                factor = kept[number] / (1 - ctx.dropout)
                used = (p * factor).to(p.dtype)
                of_p = (of_p * factor).to(p.dtype)
            of_value[:, keys] += torch.bmm(used.transpose(1, 2), g)
            of_scores = torch._softmax_backward_data(of_p, p, -1, p.dtype)
            of_query[:, :, queries] = torch.bmm(of_scores, k).view_as(q)
            of_key[:, keys] += torch.bmm(of_scores.transpose(1, 2), q.flatten(1, 2))
        return of_query, of_key.to(key.dtype), of_value.to(value.dtype), None, None, None


def _blocks(
    ends: list[int], window: int, dtype: torch.dtype
) -> Iterator[tuple[slice, slice, torch.Tensor]]:
    """Queries, the keys that any of them sees, and what to add to scores of the last of these."""
    later = torch.full((_BLOCK, _BLOCK), -torch.inf, dtype=dtype).triu(1)
    for begin, end in pairwise(ends):
        for first in range(begin, end, _BLOCK):
            last = min(first + _BLOCK, end)
            unseen = later[: last - first, : last - first]
            start = begin
            if window and last - begin > window:
                start = max(begin, first - window + 1)
                back = torch.arange(first, last)[:, None] - torch.arange(start, last)
                unseen = torch.zeros(back.shape, dtype=dtype)
                unseen.masked_fill_((back < 0) | (back >= window), -torch.inf)
            yield slice(first, last), slice(start, last), unseen


def _probabilities(query: torch.Tensor, key: torch.Tensor, unseen: torch.Tensor) -> torch.Tensor:
    """Probabilities [k, g * q, m] of m keys, for queries [k, g, q, d]."""
    scores = torch.bmm(query.flatten(1, 2), key.transpose(1, 2))
    scores.view(*query.shape[:3], -1)[..., -unseen.shape[1] :] += unseen
    return torch.softmax(scores, -1)
