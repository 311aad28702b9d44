"""BERT's self-attention for selected tokens only, over all keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_MAPS = ("query", "key", "value")


def is_bert_attention(part: Any) -> bool:
    """Whether a module has the parts that `attend_at` uses; equal results still have to be tested.

    Causal attention is excluded, because it may work without a mask.
    """
    import torch

    maps = all(isinstance(getattr(part, of, None), torch.nn.Module) for of in _MAPS)
    dropout = isinstance(getattr(part, "dropout", None), torch.nn.Dropout)
    ahead = getattr(part, "is_causal", False) or getattr(part, "is_decoder", False)
    return maps and dropout and hasattr(part, "attention_head_size") and not ahead


def attend_at(
    part: Any, states: torch.Tensor, mask: torch.Tensor | None, at: torch.Tensor
) -> torch.Tensor:
    """Output of self-attention for some tokens.

    The last layer of a classifier needs the first token alone, that of a masked LM the 15 % of
    predicted tokens. Queries are gathered into as many columns as the fullest row needs; reading
    that number would stall a GPU in every step, so this is used on a CPU.
    """
    from torch.nn.functional import scaled_dot_product_attention

    rows, slots, columns = _gathered(at, *states.shape[:2])
    queries = part.query(states.gather(1, columns[..., None].expand(-1, -1, states.shape[2])))
    if mask is not None and mask.shape[2] > 1:
        of_query = columns[:, None, :, None].expand(-1, mask.shape[1], -1, mask.shape[3])
        mask = mask.expand(len(states), -1, -1, -1).gather(2, of_query)

    def heads(of: torch.Tensor) -> torch.Tensor:
        return of.view(*of.shape[:2], -1, part.attention_head_size).transpose(1, 2)

    out: torch.Tensor = scaled_dot_product_attention(
        heads(queries),
        heads(part.key(states)),
        heads(part.value(states)),
        attn_mask=mask,
        dropout_p=part.dropout.p if part.dropout.training else 0.0,
    )
    return out.transpose(1, 2).flatten(2).flatten(0, 1)[rows * columns.shape[1] + slots]


def _gathered(
    at: torch.Tensor, rows: int, length: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Row and slot of each token, both [M]; the column in each slot [B, K], 0 in unused slots."""
    import torch

    row, column = at // length, at % length
    counts = torch.bincount(row, minlength=rows)
    order = row.argsort(stable=True)
    slot = torch.empty_like(at)
    slot[order] = torch.arange(len(at), device=at.device) - (counts.cumsum(0) - counts)[row[order]]
    columns = at.new_zeros(rows, int(counts.max()))
    columns[row, slot] = column
    return row, slot, columns
