"""The cross-entropy of logits, and of states before a head that is one matrix, in pieces."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from corpusfit.embed.hardware import multiplied_in

if TYPE_CHECKING:
    import torch

_AT_ONCE = 2**18  # logits: 1 MB of float32
_LEAST_ROWS = 256  # of a piece of the head's product
_MOST_LOGITS = 2**24


def cross_entropies(
    logits: torch.Tensor, labels: torch.Tensor, smoothing: float = 0.0
) -> torch.Tensor:
    """The loss of each row, in nats."""
    # On a CPU, float32 logits of all rows exceed the caches; in pieces that fit, this takes
    # half the time of torch's function and less memory. The gradient is recomputed from the
    # logits, so there are no second derivatives. A GPU uses torch's function.
    # Reference: Wijmans et al. (2025), Cut Your Losses in Large-Vocabulary Language Models;
    # Szegedy et al. (2016), Rethinking the Inception Architecture, section 7 (label
    # smoothing).
    from torch.nn.functional import cross_entropy

    if logits.device.type != "cpu":
        return cross_entropy(logits.float(), labels, reduction="none", label_smoothing=smoothing)
    losses: torch.Tensor = _function().apply(logits, labels, smoothing)
    return losses


def weighted_sum(logits: torch.Tensor, labels: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Weighted sum of the cross-entropies [m], in nats, in float32."""
    return (cross_entropies(logits, labels) * scale).sum()


def _pieces(logits: torch.Tensor) -> Iterator[tuple[slice, torch.Tensor]]:
    """Row ranges and their logits in float32, in one reused buffer."""
    import torch

    on_cpu = logits.device.type == "cpu"
    rows = max(1, _AT_ONCE // logits.shape[1] if on_cpu else len(logits))
    buffer = logits.new_empty((rows, logits.shape[1]), dtype=torch.float32)
    for begin in range(0, len(logits), rows):
        block = logits[begin : begin + rows]
        yield slice(begin, begin + rows), buffer[: len(block)].copy_(block)


def head_loss(
    states: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    labels: torch.Tensor,
    scale: torch.Tensor,
) -> torch.Tensor:
    """Weighted sum of the cross-entropies of states [m, d] times a head [v, d], in float32."""
    # The head is multiplied in pieces of rows, each with its loss and its gradient, so that the
    # logits of a large vocabulary are never held at once and never multiplied twice. No second
    # derivatives, and one backward pass.
    # Reference: Hsu et al. (2024), Liger Kernel, section 3.2 (FusedLinearCrossEntropy).
    loss: torch.Tensor = _head_function().apply(states, weight, bias, labels, scale)
    return loss


def head_rows(vocabulary: int) -> int:
    """How many rows of logits `head_loss` holds at once."""
    return max(_LEAST_ROWS, _MOST_LOGITS // vocabulary)


@cache
def _function() -> Any:
    """The autograd function; torch is imported on first use."""
    import torch

    class CrossEntropies(torch.autograd.Function):
        @staticmethod
        def forward(
            ctx: Any, logits: torch.Tensor, labels: torch.Tensor, smoothing: float
        ) -> torch.Tensor:
            norms = torch.empty((len(logits), 1), dtype=torch.float32)
            means = torch.zeros((len(logits), 1), dtype=torch.float32)
            for rows, piece in _pieces(logits):
                if smoothing:
                    means[rows] = piece.mean(1, keepdim=True)
                peak = piece.amax(1, keepdim=True)
                norms[rows] = piece.sub_(peak).exp_().sum(1, keepdim=True).log_() + peak
            ctx.save_for_backward(logits, labels, norms)
            ctx.smoothing = smoothing
            correct = logits.gather(1, labels[:, None]).float()
            return (norms - (1 - smoothing) * correct - smoothing * means).squeeze(1)

        @staticmethod
        def backward(ctx: Any, *upstream: torch.Tensor) -> tuple[torch.Tensor, None, None]:
            logits, labels, norms = ctx.saved_tensors
            spread = ctx.smoothing / logits.shape[1]
            gradient = torch.empty_like(logits)
            for rows, piece in _pieces(logits):
                piece.sub_(norms[rows]).exp_()
                if spread:
                    piece.sub_(spread)
                piece[torch.arange(len(piece)), labels[rows]] -= 1 - ctx.smoothing
                torch.mul(piece, upstream[0][rows, None], out=gradient[rows])
            return gradient, None, None

    return CrossEntropies


@cache
def _head_function() -> Any:
    """The autograd function; torch is imported on first use."""
    import torch
    from torch.nn.functional import linear

    class HeadLoss(torch.autograd.Function):
        @staticmethod
        def forward(
            ctx: Any,
            states: torch.Tensor,
            weight: torch.Tensor,
            bias: torch.Tensor | None,
            labels: torch.Tensor,
            scale: torch.Tensor,
        ) -> torch.Tensor:
            device = states.device.type
            dtype = multiplied_in(states)
            matrix = weight.to(dtype)
            added = None if bias is None else bias.to(dtype)
            needs = ctx.needs_input_grad
            of_states = torch.empty_like(states, dtype=dtype) if needs[0] else None
            of_weight = torch.zeros_like(weight, dtype=torch.float32) if needs[1] else None
            of_bias = None
            if bias is not None and needs[2]:
                of_bias = torch.zeros_like(bias, dtype=torch.float32)
            sums_of_pieces = []
            rows = head_rows(len(weight))
            with torch.autocast(device, enabled=False):
                for begin in range(0, len(states), rows):
                    part = slice(begin, begin + rows)
                    piece = states[part].to(dtype)
                    factor = scale[part, None]
                    label = labels[part, None]
                    logits = linear(piece, matrix, added)
                    for few, block in _pieces(logits):
                        correct = block.gather(1, label[few])
                        peak = block.amax(1, keepdim=True)
                        sums = block.sub_(peak).exp_().sum(1, keepdim=True)
                        losses = sums.log() + peak - correct
                        sums_of_pieces.append((losses * factor[few]).sum())
                        if any(needs):  # the gradient, in place of the logits
                            block.mul_(factor[few] / sums)
                            block.scatter_add_(1, label[few], -factor[few])
                            logits[few] = block
                    if of_states is not None:
                        torch.mm(logits, matrix, out=of_states[part])
                    if of_weight is not None and dtype == torch.float32:
                        of_weight.addmm_(logits.T, piece)
                    elif of_weight is not None:
                        of_weight += logits.T @ piece
                    if of_bias is not None:
                        of_bias += logits.sum(0)
            ctx.gradients = of_states, of_weight, of_bias
            ctx.dtypes = states.dtype, weight.dtype, weight.dtype
            return torch.stack(sums_of_pieces).sum()

        @staticmethod
        def backward(ctx: Any, *upstream: torch.Tensor) -> tuple[Any, ...]:
            # scaled in place, as they are used once
            gradients = ctx.gradients
            ctx.gradients = None
            found = (
                None if gradient is None else gradient.mul_(upstream[0]).to(dtype)
                for gradient, dtype in zip(gradients, ctx.dtypes, strict=True)
            )
            return *found, None, None

    return HeadLoss
