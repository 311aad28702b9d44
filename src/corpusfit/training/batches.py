"""Rows of every pass over the chunks, and their layout as tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.errors import EmptyInputError, InputError
from corpusfit.kernels.batches import fill_rows
from corpusfit.training.chunks import Chunks
from corpusfit.training.special_tokens import SpecialTokens
from corpusfit.training.token_store import ChatTokens, Tokens

if TYPE_CHECKING:
    import torch

_WINDOW = 64  # batches within which chunks are sorted by length
_PASS, _REPLAY = range(2)  # streams of random numbers


Arrange = Callable[
    [Chunks, NDArray[np.int64], np.random.Generator],
    tuple[NDArray[np.int64], NDArray[np.int64]] | None,
]


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of chunks."""

    order: NDArray[np.int64]  # [m], chunk numbers
    begins: NDArray[np.int64]  # [rows + 1]; row r is `order[begins[r] : begins[r + 1]]`

    def __len__(self) -> int:
        return len(self.begins) - 1

    def between(self, begin: int, end: int) -> list[NDArray[np.int64]]:
        """The chunk numbers of each row from `begin` to `end`, at least one row."""
        at = self.begins[begin : end + 1]
        return np.split(self.order[at[0] : at[-1]], at[1:-1] - at[0])


class Passes:
    """Passes over chunks; pass p is a pure function of the arguments and p.

    A row is identified by its pass and number, so a killed training resumes without reading from
    the start.
    """

    # One pass is kept in memory, 8 bytes per chunk and 8 per row.
    # Reference: TADPOLE, equation 1 (weights) and appendix E (DANA, appendix C), whose open
    # question `resample` answers.

    def __init__(
        self,
        chunks: Chunks,
        replay: Chunks | None,
        share: float,  # of replay tokens in a pass, which continues the last one's
        *,
        length: int,  # tokens of a row
        overhead: int,  # special tokens that each chunk needs besides its own
        resample: bool,  # sample chunks by weight, with replacement; otherwise take each once
        pack: bool,  # pack rows; otherwise rows are single chunks, batched by length
        batch: int,  # rows of a batch
        seed: int,
        # int64 [n], tokens of each chunk of the data that the loss is on; None for all
        counted: NDArray[np.int64] | None = None,
        arrange: Arrange | None = None,  # an objective's own rows, as `Objective.arrange`
    ) -> None:
        if not len(chunks):
            raise EmptyInputError("The training data is empty: no text has a token. Check `data`.")
        if replay is not None and not len(replay):
            raise EmptyInputError("The replay text is empty: no text has a token. Check `replay`.")
        if not (np.isfinite(chunks.weight) & (chunks.weight >= 0)).all():
            raise InputError(
                "A relevance weight of the data is negative or not finite. Run the selection again."
            )
        if not chunks.weight.any():
            raise InputError(
                "All relevance weights of the data are 0, so nothing would be learned. Select with "
                "a lower `choose.alpha`, or train with `weights.policy=off`."
            )
        self._own = len(chunks)
        self._resample = resample
        self._pack = pack
        self._arrange = arrange
        self.length = length
        self._batch = batch
        self._seed = seed
        w = chunks.weight.astype(np.float64)
        n = chunks.length.astype(np.float64)
        tokens = float(w @ n / w.sum()) * len(chunks) if resample else float(n.sum())
        # the mean weight is one of the tokens that the loss is on
        of_mean = n if counted is None else counted.astype(np.float64)
        of_loss = np.ones(len(w)) if resample else w / ((w @ of_mean) / of_mean.sum())
        self._general = _Round(replay, round(tokens * share / (1 - share)), seed)
        # the data's chunks, then those of the replay text, as rows number them
        self.chunks = chunks.followed_by(replay) if replay is not None else chunks
        more = np.ones(len(self.chunks) - len(chunks))
        # factor of a chunk's loss: its weight over the mean weight of the data
        self.scale = np.concatenate([of_loss, more]).astype(np.float32)
        # expected number of times that a chunk is in a pass, times its scale
        counts = len(w) * w / w.sum() if resample else of_loss
        self.frequency = np.concatenate([counts, more * self._general.rounds]).astype(np.float32)
        self._taken = self.chunks.length + np.int32(overhead)
        self._last: tuple[int, Rows] | None = None

    def fill(self) -> float:
        """Share of packed rows that is tokens, special tokens included; the rest is padding."""
        rows = self.rows(0)
        return int(self._taken[rows.order].sum()) / (len(rows) * self.length)

    def rows(self, number: int) -> Rows:
        """The rows of a pass, by its number from 0; the last result is cached."""
        if self._last is not None and self._last[0] == number:
            return self._last[1]
        # free the old pass first, as two of them would need twice the memory
        self._last = None
        rng = np.random.default_rng((self._seed, _PASS, number))
        data = np.arange(self._own)
        if self._resample:
            mixed = rng.permutation(data)
            data = np.repeat(mixed, drawn_counts(self.chunks.weight[mixed], rng.random()))
        order = rng.permutation(np.concatenate([data, self._own + self._general.taken(number)]))
        rows = self._in_rows(order, number, rng)
        self._last = number, rows
        return rows

    def _in_rows(self, order: NDArray[np.int64], number: int, rng: np.random.Generator) -> Rows:
        """The rows of a pass, from its chunks in random order."""
        arranged = self._arrange(self.chunks, order, rng) if self._arrange else None
        if arranged is not None:
            return Rows(*arranged)
        if self._pack:
            return Rows(*fill_rows(order, self._taken, self.length))
        # by length into batches, after the chunks that complete the last batch of the pass before
        rest = order[self._head(number) :]
        window = _WINDOW * self._batch
        for begin in range(0, len(rest), window):
            in_window = rest[begin : begin + window]
            rest[begin : begin + window] = in_window[
                np.argsort(self._taken[in_window], kind="stable")
            ]
        whole = len(rest) // self._batch * self._batch
        batches = rest[:whole].reshape(-1, self._batch)
        rest[:whole] = batches[rng.permutation(len(batches))].reshape(-1)
        return Rows(order, np.arange(len(order) + 1))

    def _head(self, number: int) -> int:
        """Number of rows, one chunk each, that complete the last batch of the previous pass."""
        return -(number * self._own + self._general.before(number)) % self._batch


class _Round:
    """Replay text in a cycle: pass p takes the chunks that begin in the p-th range of tokens."""

    def __init__(self, chunks: Chunks | None, tokens: int, seed: int) -> None:
        n = len(chunks) if chunks is not None else 0
        self._order = np.random.default_rng((seed, _REPLAY)).permutation(n)
        lengths = chunks.length[self._order] if chunks is not None else np.empty(0, np.int32)
        ends = np.cumsum(lengths, dtype=np.int64)
        self._begins = ends - lengths
        self._tokens = tokens
        self._round = int(ends[-1]) if n else 0
        self.rounds = tokens / self._round if n else 0.0

    def before(self, number: int) -> int:
        """Number of chunks in all earlier passes."""
        if not self._round:
            return 0
        rounds, token = divmod(number * self._tokens, self._round)
        return rounds * len(self._order) + int(np.searchsorted(self._begins, token))

    def taken(self, number: int) -> NDArray[np.int64]:
        """int64 [k]: the chunks of a pass; a chunk may repeat."""
        places = np.arange(self.before(number), self.before(number + 1))
        return self._order[places % max(1, len(self._order))]


def drawn_counts(weights: NDArray[np.float32], offset: float) -> NDArray[np.int64]:
    """How often each of n items is drawn in n draws, by systematic resampling of residuals."""
    # The integer part of an item's expected count is certain and only the rest is random,
    # which keeps the variance as low as possible.
    # Reference: Douc, Cappé and Moulines (2005), Comparison of Resampling Schemes.
    n = len(weights)
    expected = weights.astype(np.float64)
    expected *= n / expected.sum()
    whole = np.rint(expected)
    # a whole number that rounding made 2.999… is that number again
    expected = np.where(np.abs(expected - whole) <= 1e-12 * whole, whole, expected)
    counts = np.floor(expected)
    ends = np.cumsum(expected - counts)
    missing = n - int(counts.sum())
    if missing > 0:
        # the points of systematic resampling are offset, 1 + offset, 2 + offset …
        passed = np.ceil(ends * (missing / ends[-1]) - offset)
        passed[ends == ends[-1]] = missing
        counts += np.diff(passed, prepend=0.0)
    return counts.astype(np.int64)


class Feed:
    """Rows in order, pass after pass."""

    def __init__(self, passes: Passes, at: tuple[int, int] = (0, 0)) -> None:
        self._passes = passes
        self.at = at

    def take(self, k: int) -> list[NDArray[np.int64]]:
        """The next k rows as arrays of chunk numbers; they may span passes."""
        taken: list[NDArray[np.int64]] = []
        while len(taken) < k:
            number, row = self.at
            rows = self._passes.rows(number)
            end = min(len(rows), row + k - len(taken))
            taken += rows.between(row, end)
            self.at = (number + 1, 0) if end == len(rows) else (number, end)
        return taken


PADDING = -1


@dataclass(frozen=True, eq=False)
class ChunkTokens:
    """Chunks and the tokens of their texts."""

    chunks: Chunks  # n chunks
    tokens: tuple[Tokens, ...]  # tokens of the training data, then of the replay text if any
    scale: NDArray[np.float32]  # [n], factor of each chunk's loss
    frequency: NDArray[np.float32]  # [n], as in `Passes`; not all 0

    def ids(self, chunk: int, *, first: bool = False) -> NDArray[Any]:
        """Token ids of a chunk without special tokens, or of the first text of its pair."""
        begin = int(self.chunks.begin[chunk])
        length = int(self.chunks.length[chunk])
        start, stop = (0, begin) if first else (begin, begin + length)
        store = self.tokens[int(self.chunks.store[chunk])]
        return store.ids(int(self.chunks.text[chunk]), start, stop)

    def counted(self, chunk: int) -> NDArray[np.bool_] | None:
        """Whether the loss is on each token of a chunk; None if it is on all."""
        store = self.tokens[int(self.chunks.store[chunk])]
        if not isinstance(store, ChatTokens):
            return None
        begin = int(self.chunks.begin[chunk])
        length = int(self.chunks.length[chunk])
        return store.counted(int(self.chunks.text[chunk]), begin, begin + length)

    @cached_property
    def _cumulative(self) -> NDArray[np.float64]:
        return np.cumsum(self.frequency, dtype=np.float64)

    def elsewhere(self, chunk: int, draws: NDArray[np.float64]) -> int | None:
        """The first drawn chunk of another text that is not a copy; None if there is none."""
        chunks = self.chunks
        drawn = np.searchsorted(self._cumulative, draws * self._cumulative[-1], side="right")
        same_text = chunks.text[drawn] == chunks.text[chunk]
        others = drawn[~(same_text & (chunks.store[drawn] == chunks.store[chunk]))]
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
    # bool [r, l], whether a causal loss is on the token
    counted: NDArray[np.bool_]


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
        return cls.from_arrays(
            ids=inputs,
            chunk=token_rows.chunk,
            kind=token_rows.kind,
            at=places,
            labels=labels,
            scale=token_rows.scale.reshape(-1)[places],
            follows=token_rows.follows,
            row_scale=token_rows.scale[:, 0],
        )

    @classmethod
    def from_arrays(cls, **arrays: NDArray[Any]) -> MicroBatch:
        """Arrays as tensors."""
        import torch

        return cls(**{k: torch.from_numpy(np.ascontiguousarray(a)) for k, a in arrays.items()})

    def pinned(self) -> MicroBatch:
        """Copy to memory that a GPU reads while it computes."""
        return MicroBatch(**{k: v.pin_memory() for k, v in vars(self).items() if v is not None})

    def to(self, device: torch.device) -> MicroBatch:
        """Copy to a device."""
        tensors = {k: v for k, v in vars(self).items() if v is not None}
        # a copy to mps that nobody waits for may read memory that is free again
        unwaited = device.type != "mps"
        return MicroBatch(**{k: v.to(device, non_blocking=unwaited) for k, v in tensors.items()})


def _empty(rows: int, width: int, pad: int) -> TokenRows:
    shape = (rows, width)
    return TokenRows(
        ids=np.full(shape, pad, np.int64),
        chunk=np.full(shape, PADDING, np.int64),
        scale=np.zeros(shape, np.float32),
        kind=np.zeros(shape, np.int64),
        follows=np.empty(0, np.int64),
        counted=np.ones(shape, np.bool_),
    )


def lay_out(
    chunk_tokens: ChunkTokens, rows: Sequence[NDArray[np.int64]], special: SpecialTokens, width: int
) -> TokenRows:
    """Lay out rows of chunks, each chunk between the model's special tokens."""
    # Reference: Krell et al. (2021), Efficient Sequence Packing without Cross-contamination.
    before = len(special.prefix)
    after = len(special.suffix)
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
            counted = chunk_tokens.counted(chunk)
            if counted is not None:
                token_rows.counted[r, at + before : at + before + len(ids)] = counted
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
        ids = chunk_tokens.ids(chunk)
        first = ids[: len(ids) // 2]
        second = ids[len(ids) // 2 :]
        other = chunk_tokens.elsewhere(chunk, draws[r, 1:])
        if other is not None:
            ids = chunk_tokens.ids(other)
            others = ids[len(ids) // 2 :]
            follows[r] = draws[r, 0] >= 0.5
            second = (others if follows[r] else second)[: min(len(second), len(others))]
        one = [*special.prefix, *first.tolist(), *special.suffix]
        both = [*one, *second.tolist(), *special.suffix]
        end = len(both)
        token_rows.ids[r, :end] = both
        token_rows.chunk[r, :end] = 0
        token_rows.kind[r, len(one) : end] = 1
        token_rows.scale[r] = chunk_tokens.scale[chunk]
    return replace(token_rows, follows=follows)
