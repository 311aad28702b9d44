"""Which texts go through the network together.

What: batches of similar length under a budget of tokens, padding counted.
Why: a batch costs rows times its longest row; sorted by length it wastes almost nothing, and a
budget in tokens, not in texts, keeps activations inside the processor's cache (on CPU) and memory
flat (anywhere).
Trade-off: results come back out of order and have to be put in place.
Reference: fairseq's `--max-tokens`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray


def token_batches(lengths: NDArray[np.int64], budget: int) -> Iterator[NDArray[np.int64]]:
    """Split texts into batches; the longest come first, ties in the order given.

    Args:
        lengths: int64 [n], tokens of each text.
        budget: rows times longest row of a batch is at most this; a text that alone is longer
            gets a batch of its own.

    Yields:
        int64 [k], positions of a batch's texts, longest first; together every position once.
    """
    order = np.argsort(-lengths, kind="stable")
    at = 0
    while at < len(order):
        rows = max(1, budget // max(1, int(lengths[order[at]])))
        yield order[at : at + rows]
        at += rows


def pad(rows: Sequence[Sequence[int]], fill: int) -> NDArray[np.int64]:
    """Rows of token ids as one matrix, short rows filled up on the right.

    Args:
        rows: k lists of token ids.
        fill: the id that stands where a row has ended.

    Returns:
        int64 [k, longest].
    """
    matrix = np.full((len(rows), max(map(len, rows))), fill, dtype=np.int64)
    for i, row in enumerate(rows):
        matrix[i, : len(row)] = row
    return matrix
