"""Attention of all beams of a sentence to the sentence as rows of one query.

Why: its keys and values are then computed and stored once, not once for every beam.
How: while a model decodes, its attention to the source is ours, by the interface of transformers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_FOLDED = "corpusfit_folded"
_CROSSING = ("encoder_attn", "EncDecAttention")  # of the BART and T5 families


class Folding:
    """The mask of the sentences for the attention of the decoder to them.

    Attributes:
        mask: bool [n, 1, 1, S] of real tokens of the sentences.
        used: whether the model's attention asked for it.
    """

    def __init__(self) -> None:
        self.mask: torch.Tensor | None = None
        self.used = False

    def __call__(
        self, module: Any, query: Any, key: Any, value: Any, scaling: float | None
    ) -> tuple[Any, None]:
        """Attend with the beams of a sentence as rows of one query."""
        import torch

        self.used = True
        heads, width = query.shape[1], query.shape[3]
        rows = query.reshape(key.shape[0], -1, heads, width).transpose(1, 2)
        found = torch.nn.functional.scaled_dot_product_attention(
            rows, key, value, attn_mask=self.mask, scale=scaling
        )
        return found.transpose(1, 2).reshape(query.shape[0], 1, heads, width), None


def _attend(
    module: Any, query: Any, key: Any, value: Any, attention_mask: Any, **options: Any
) -> tuple[Any, Any]:
    """The attention of a model that is decoded: folded to sentences, else torch's."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    folding = getattr(module, _FOLDED, None)
    if folding is not None:
        return folding(module, query, key, value, options.get("scaling"))  # type: ignore[no-any-return]
    plain = ALL_ATTENTION_FUNCTIONS["sdpa"]
    return plain(module, query, key, value, attention_mask, **options)  # type: ignore[no-any-return]


@contextmanager
def folding_attention(model: Any) -> Iterator[Folding]:
    """Give a model's decoder the folded attention, for as long as it decodes."""
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, sdpa_mask
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    ALL_ATTENTION_FUNCTIONS.register(_FOLDED, _attend)
    ALL_MASK_ATTENTION_FUNCTIONS.register(_FOLDED, sdpa_mask)
    found, decoder = Folding(), model.get_decoder()
    config, before = decoder.config, decoder.config._attn_implementation
    crossing = [m for name, m in decoder.named_modules() if name.endswith(_CROSSING)]
    try:
        if before == "sdpa":
            config._attn_implementation = _FOLDED
            for module in crossing:
                setattr(module, _FOLDED, found)
        yield found
    finally:
        config._attn_implementation = before
        for module in crossing:
            module.__dict__.pop(_FOLDED, None)
