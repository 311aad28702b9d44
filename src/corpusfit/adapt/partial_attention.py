"""What attention gives for some tokens, when nothing is asked of the others.

What: the attention of BERT's last layer, for chosen queries over all keys.
Why: of a text of 512 tokens a classifier reads the first, of a masked row 15 % are predicted; the
other queries of the last layer are for nobody, and attention is a third of a step at that length.
Trade-off: queries are gathered into as many columns as the fullest row needs, which has to be known
here: on a GPU that would wait for it in every step, and its attention is quick.
Reference: Devlin et al. (2019), BERT, section 3; torch's scaled_dot_product_attention.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_MAPS = ("query", "key", "value")


def like_bert(part: Any) -> bool:
    """Whether a part has what `attended` takes; if it computes the same has to be tried.

    One that hides what comes after a token may do so without a mask.
    """
    import torch

    maps = all(isinstance(getattr(part, of, None), torch.nn.Module) for of in _MAPS)
    dropout = isinstance(getattr(part, "dropout", None), torch.nn.Dropout)
    ahead = getattr(part, "is_causal", False) or getattr(part, "is_decoder", False)
    return maps and dropout and hasattr(part, "attention_head_size") and not ahead


def attended(
    part: Any, states: torch.Tensor, mask: torch.Tensor | None, at: torch.Tensor
) -> torch.Tensor:
    """Attention's result for some tokens.

    Args:
        part: of a layer, one that is `like_bert`.
        states: [B, L, d], what goes in.
        mask: [B or 1, H or 1, L or 1, L], bool or added to the scores.
        at: int64 [M], M at least 1, places in the flattened rows, each once.

    Returns:
        [M, d], in the order of `at`.
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
    """The row of each token and its slot there, both [M]; the columns in the slots [B, K].

    Slots that are left over hold column 0.
    """
    import torch

    row, column = at // length, at % length
    counts = torch.bincount(row, minlength=rows)
    order = row.argsort(stable=True)
    slot = torch.empty_like(at)
    slot[order] = torch.arange(len(at), device=at.device) - (counts.cumsum(0) - counts)[row[order]]
    columns = at.new_zeros(rows, int(counts.max()))
    columns[row, slot] = column
    return row, slot, columns
