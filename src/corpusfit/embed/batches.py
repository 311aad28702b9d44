"""Batch token lists of similar length under a budget of tokens, padding included."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray


def token_batches(lengths: NDArray[np.int64], budget: int) -> Iterator[NDArray[np.int64]]:
    """Split texts into batches of similar length; the longest come first, ties in the given order.

    The cost of a batch is its rows times its longest row, so sorting by length wastes little. A
    budget in tokens keeps activations inside the processor's cache (on CPU) and memory constant.
    The caller puts results back in order.

    Reference: fairseq's `--max-tokens`.
    """
    order = np.argsort(-lengths, kind="stable")
    at = 0
    while at < len(order):
        rows = max(1, budget // max(1, int(lengths[order[at]])))
        yield order[at : at + rows]
        at += rows
