"""Lay chunks of text out as rows of token ids, and rows as tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.training.special_tokens import SpecialTokens
from corpusfit.training.tokens import Chunks, Tokens

if TYPE_CHECKING:
    import torch

PADDING = -1
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class ChunkTokens:
    """Chunks and the tokens of their texts."""

    chunks: Chunks  # n chunks
    tokens: tuple[Tokens, ...]  # tokens of the training data, then of the replay text if any
    scale: NDArray[np.float32]  # [n], factor of each chunk's loss
    frequency: NDArray[np.float32]  # [n], as in `Passes`; not all 0

    def ids(self, chunk: int) -> NDArray[Any]:
        """Token ids of a chunk, without special tokens."""
        chunks = self.chunks
        store = self.tokens[int(chunks.store[chunk])]
        begin = int(chunks.begin[chunk])
        return store.ids(int(chunks.text[chunk]), begin, begin + int(chunks.length[chunk]))

    def source_ids(self, chunk: int) -> NDArray[Any]:
        """Token ids of the source text of a chunk that is the target text of a pair."""
        chunks = self.chunks
        store = self.tokens[int(chunks.store[chunk])]
        return store.ids(int(chunks.text[chunk]), 0, int(chunks.begin[chunk]))

    @cached_property
    def _ends(self) -> NDArray[np.float64]:
        """Cumulative frequencies, float64 [n]."""
        return np.cumsum(self.frequency, dtype=np.float64)

    def elsewhere(self, chunk: int, draws: NDArray[np.float64]) -> int | None:
        """The first drawn chunk that is of another text and no copy; None without one."""
        chunks = self.chunks
        drawn = np.searchsorted(self._ends, draws * self._ends[-1], side="right")
        own = chunks.text[drawn] == chunks.text[chunk]
        others = drawn[~(own & (chunks.store[drawn] == chunks.store[chunk]))]
        for other in others.tolist():
            alike = chunks.length[other] == chunks.length[chunk]
            if not (alike and np.array_equal(self.ids(other), self.ids(chunk))):
                return int(other)
        return None

    def name(self, chunk: int) -> str:
        """File and row of a chunk's text, for messages."""
        return self.tokens[int(self.chunks.store[chunk])].name(int(self.chunks.text[chunk]))


@dataclass(frozen=True, eq=False)
class TokenRows:
    """r rows of l tokens each."""

    ids: NDArray[np.int64]  # [r, l], token ids, padding at the end of rows
    # int64 [r, l], number of the token's chunk within its row, -1 for padding
    chunk: NDArray[np.int64]
    scale: NDArray[np.float32]  # [r, l], factor of the token's loss
    kind: NDArray[np.int64]  # [r, l], token type: 1 in the second text of a pair
    # int64 [r], BERT's next-sentence label: 0 where the second text of a pair follows the
    # first, else 1; empty without pairs
    follows: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class MicroBatch:
    """Rows that go through the model together, as tensors."""

    ids: torch.Tensor  # int64 [r, l], input ids, masked by the objective
    chunk: torch.Tensor  # int64 [r, l], as in `TokenRows`
    kind: torch.Tensor  # int64 [r, l], as in `TokenRows`
    at: torch.Tensor  # int64 [m], predicted positions in the flattened rows
    labels: torch.Tensor  # int64 [m], the token to predict at each
    scale: torch.Tensor  # float32 [m], factor of each token's loss
    follows: torch.Tensor  # int64 [r], as in `TokenRows`
    row_scale: torch.Tensor  # float32 [r], factor of each pair's loss
    # int64 [r, t], input ids of a decoder, whose flattened rows `at` refers to; None for a
    # model without a separate encoder
    decoder: torch.Tensor | None = None

    @property
    def size(self) -> int:
        """Number of tokens that go through the model, padding included."""
        return self.ids.numel() + (0 if self.decoder is None else self.decoder.numel())

    @classmethod
    def of(
        cls,
        token_rows: TokenRows,
        inputs: NDArray[np.int64],
        places: NDArray[np.int64],
        labels: Any,
    ) -> MicroBatch:
        """Rows as tensors, from their masked ids, the predicted positions and their labels."""
        import torch

        arrays: dict[str, NDArray[Any]] = {"ids": inputs, "at": places, "labels": labels}
        arrays |= {"chunk": token_rows.chunk, "kind": token_rows.kind}
        arrays |= {"follows": token_rows.follows, "row_scale": token_rows.scale[:, 0]}
        arrays["scale"] = token_rows.scale.reshape(-1)[places]
        return cls(**{k: torch.from_numpy(np.ascontiguousarray(a)) for k, a in arrays.items()})

    def to(self, device: torch.device) -> MicroBatch:
        """Copy to a device."""
        given = {k: v for k, v in vars(self).items() if v is not None}
        return MicroBatch(**{k: v.to(device, non_blocking=True) for k, v in given.items()})


def _empty(rows: int, width: int, pad: int) -> TokenRows:
    shape = (rows, width)
    return TokenRows(
        ids=np.full(shape, pad, np.int64),
        chunk=np.full(shape, PADDING, np.int64),
        scale=np.zeros(shape, np.float32),
        kind=np.zeros(shape, np.int64),
        follows=np.empty(0, np.int64),
    )


def lay_out(
    chunk_tokens: ChunkTokens, rows: Sequence[NDArray[np.int64]], special: SpecialTokens, width: int
) -> TokenRows:
    """Lay out rows of chunks, each chunk between the model's special tokens."""
    # Reference: Krell et al. (2021), Efficient Sequence Packing without Cross-contamination.
    before, after = len(special.prefix), len(special.suffix)
    if not width:
        width = max(int((chunk_tokens.chunks.length[row] + before + after).sum()) for row in rows)
    token_rows = _empty(len(rows), width, special.pad)
    for r, row in enumerate(rows):
        at = 0
        for number, chunk in enumerate(row.tolist()):
            ids = chunk_tokens.ids(chunk)
            end = at + before + len(ids) + after
            token_rows.ids[r, at:end] = (*special.prefix, *ids.tolist(), *special.suffix)
            token_rows.chunk[r, at:end] = number
            token_rows.scale[r, at:end] = chunk_tokens.scale[chunk]
            at = end
    return token_rows


def lay_pairs(
    chunk_tokens: ChunkTokens,
    rows: Sequence[NDArray[np.int64]],
    special: SpecialTokens,
    draws: NDArray[np.float64],
) -> TokenRows:
    """Lay out pairs: the halves of a chunk, or its first half and another's second half."""
    # In both cases the second text is as long as the shorter of the two chunks' second
    # halves, so that its length does not give the label away. The token of a one-token chunk
    # is its second half.
    # A pair has the weight of its first text, and its second text is drawn as often as weight
    # counts it. So, but for draws of the first text itself, which are left out, the expected
    # loss of a chunk's tokens is in proportion to the chunk's weight in either half, and that
    # of a pair of two texts to the product of both weights.
    # Reference: Devlin et al. (2019), BERT, section 3.1; TADPOLE, equation 1.
    specials = len(special.prefix) + 2 * len(special.suffix)
    width = max(int(chunk_tokens.chunks.length[row[0]]) for row in rows) + specials
    token_rows = _empty(len(rows), width, special.pad)
    follows = np.zeros(len(rows), np.int64)
    for r, row in enumerate(rows):
        chunk = int(row[0])
        first, second = _halves(chunk_tokens.ids(chunk))
        other = chunk_tokens.elsewhere(chunk, draws[r, 1:])
        if other is not None:
            own, others = second, _halves(chunk_tokens.ids(other))[1]
            follows[r] = draws[r, 0] >= 0.5
            second = (others if follows[r] else own)[: min(len(own), len(others))]
        one = [*special.prefix, *first.tolist(), *special.suffix]
        both = [*one, *second.tolist(), *special.suffix]
        end = len(both)
        token_rows.ids[r, :end], token_rows.chunk[r, :end] = both, 0
        token_rows.kind[r, len(one) : end] = 1
        token_rows.scale[r] = chunk_tokens.scale[chunk]
    return replace(token_rows, follows=follows)


def _halves(ids: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Both halves of one or more ids; the second is never empty."""
    half = len(ids) // 2
    return ids[:half], ids[half:]


def prefetch(make: Callable[[int], T], first: int, last: int) -> Iterator[tuple[int, T]]:
    """Step numbers and batches; a thread makes each batch while the previous one is trained on."""
    with ThreadPoolExecutor(1, "batches") as pool:
        waiting = pool.submit(make, first) if first < last else None
        for step in range(first, last):
            assert waiting is not None  # noqa: S101
            batch = waiting.result()
            waiting = pool.submit(make, step + 1) if step + 1 < last else None
            yield step, batch
