"""Tokenise examples, pack batches of them into rows, and reduce the vocabulary that is trained."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.embed.prediction import TOLERANCE, evaluation_mode, relative_difference
from corpusfit.embed.transformer import position_limit
from corpusfit.evaluation.learned import load_learned
from corpusfit.evaluation.task import Examples
from corpusfit.training.special_tokens import SpecialTokens

if TYPE_CHECKING:
    import torch

NOWHERE = -1  # Position of a piece that was truncated or has no token
_AT_ONCE = 1_000
_WIDTHS = 16  # row widths to try between the longest example and twice its length
# Row width at which a token takes twice the time of one in a short row, because of attention: 440
# to 1,600 on a CPU at hidden size 384, more for larger models. The choice of rows hardly depends on
# it.
_DOUBLING_WIDTH = 1_000
# Tokens of the text that probes whether a model has ids built in: they get the smallest numbers,
# which are those of special tokens.
_PROBE_TOKENS = 60


@dataclass(frozen=True, eq=False)
class Encoded:
    """n tokenised examples.

    Attributes:
        ids: token ids of each example, int32 [l], special tokens included.
        places: for each example, int64 [pieces], the token that predicts a piece's label, or
            `NOWHERE`.
        targets: for each example, [pieces, …], the labels in the form that the loss takes.
        truncated: bool [n], which examples were truncated.
    """

    ids: list[NDArray[np.int32]]
    places: list[NDArray[np.int64]]
    targets: list[NDArray[Any]]
    truncated: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.fromiter(map(len, self.ids), np.int64, len(self))


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows that go through the model together, as tensors."""

    ids: torch.Tensor  # int64 [r, l], padding at the end of rows
    # int64 [r, l], number of the token's example within its row, -1 for padding
    chunk: torch.Tensor
    # int64 [m], predicted positions in the flattened rows, by example and piece, without `NOWHERE`
    at: torch.Tensor
    targets: torch.Tensor  # [m, …]


def encode(
    examples: Examples, kind: str, tokenizer: Any, special: SpecialTokens, length: int
) -> Encoded:
    """Tokenise examples."""
    # Words of a sentence are joined by spaces and tokenised together.
    task = load_learned(kind)
    max_tokens = length - len(special.prefix) - len(special.suffix)
    ids_of: list[NDArray[np.int32]] = []
    places_of: list[NDArray[np.int64]] = []
    cut: list[bool] = []
    for first in range(0, len(examples), _AT_ONCE):
        pieces = examples.pieces[first : first + _AT_ONCE]
        texts = [" ".join(words) for words in pieces]
        encodings = tokenizer.encode_batch(texts, add_special_tokens=False)
        for words, encoding in zip(pieces, encodings, strict=True):
            ids = [*special.prefix, *encoding.ids[:max_tokens], *special.suffix] or [special.pad]
            cut.append(len(encoding.ids) > max_tokens)
            ids_of.append(np.array(ids, np.int32))
            places_of.append(task.places(words, encoding.offsets[:max_tokens], len(ids), special))
    targets = list(map(task.targets, examples.labels))
    return Encoded(ids_of, places_of, targets, np.array(cut, np.bool_))


def packed_rows(lengths: NDArray[np.int64], widest: int = 0) -> list[list[int]]:
    """Pack n examples into rows: first fit by decreasing length.

    Reference: Krell et al. (2021), Efficient Sequence Packing without Cross-contamination.
    """
    # A batch has few examples, and rows as wide as the longest one are often badly filled, so wider
    # rows are tried and the fastest packing is used. Only examples of one batch are packed
    # together, so a step learns from the same examples as a padded one.
    longest = int(lengths.max())
    max_width = max(longest, min(widest, 2 * longest))

    def cost(rows: list[list[int]]) -> float:
        """The estimated time, in that of a token in a short row."""
        width = max(int(lengths[row].sum()) for row in rows)
        return len(rows) * width * (1 + width / _DOUBLING_WIDTH)

    widths = range(longest, max_width + 1, max(1, longest // _WIDTHS))
    return min((_first_fit(lengths, width) for width in widths), key=cost)


def _first_fit(lengths: NDArray[np.int64], width: int) -> list[list[int]]:
    """Rows of at most `width` tokens."""
    rows: list[list[int]] = []
    left: list[int] = []
    for number in np.argsort(-lengths, kind="stable").tolist():
        size = int(lengths[number])
        at = next((r for r, space in enumerate(left) if space >= size), len(rows))
        if at == len(rows):
            rows.append([])
            left.append(width)
        rows[at].append(number)
        left[at] -= size
    return rows


def to_batch(
    encoded: Encoded, numbers: NDArray[np.int64], rows: list[list[int]], vocabulary: TaskVocabulary
) -> Batch:
    """Rows of examples as tensors."""
    import torch

    sizes = [sum(len(encoded.ids[numbers[i]]) for i in row) for row in rows]
    ids = np.full((len(rows), max(sizes)), vocabulary.pad, np.int64)
    chunk = np.full(ids.shape, -1, np.int64)
    at: list[NDArray[np.int64]] = [np.empty(0, np.int64)] * len(numbers)
    targets: list[NDArray[Any]] = list(at)
    for r, row in enumerate(rows):
        begin = 0
        for position, i in enumerate(row):
            number = int(numbers[i])
            end = begin + len(encoded.ids[number])
            ids[r, begin:end] = vocabulary.number[encoded.ids[number]]
            chunk[r, begin:end] = position
            has_token = encoded.places[number] != NOWHERE
            at[i] = encoded.places[number][has_token] + (r * ids.shape[1] + begin)
            targets[i] = encoded.targets[number][has_token]
            begin = end
    tensors = (ids, chunk, np.concatenate(at), np.concatenate(targets))
    return Batch(*map(torch.from_numpy, tensors))


class TaskVocabulary:
    """The embedding matrix of a model, reduced to the tokens of the training examples.

    Reference: Loshchilov and Hutter (2019), AdamW, algorithm 2, with zero gradients of a row.
    """

    # AdamW updates the whole matrix in every step, which takes most of a step of a small model. A
    # row without a gradient only decays, by the same factor for all such rows, so the result equals
    # that of the whole matrix. Token ids are renumbered; a model whose logits change with that
    # (ESM, which has a fixed id for its mask token) keeps the whole matrix. The model is changed
    # permanently.

    def __init__(self, model: Any, tokens: NDArray[Any], pad: int) -> None:
        # how much the rows without a gradient have decayed
        self.decay_factor = 1.0
        self._model = model
        self._table = model.get_input_embeddings()
        whole = self._table.weight
        padding = self._table.padding_idx
        rows = np.arange(len(whole))
        self._number(rows, pad, whole)
        probe = np.setdiff1d(tokens, [pad])[: min(_PROBE_TOKENS, position_limit(model))]
        if not whole.requires_grad or not len(probe):
            return
        before = self._logits(probe)
        self._number(np.union1d(tokens, [pad]), pad, whole)
        # if renumbered tokens change the logits, the model has ids built in
        if relative_difference(self._logits(probe), before) > TOLERANCE:
            self._number(rows, pad, whole)
            self._table.padding_idx = padding

    def _number(self, seen: NDArray[Any], pad: int, whole: torch.nn.Parameter) -> None:
        """Reduce the matrix to the rows of some ids, and renumber ids so that these come first."""
        import torch

        # the padding keeps its id if it can, because RoBERTa derives positions from it
        if pad < len(seen):
            seen = np.insert(seen[seen != pad], pad, pad)
        others = np.setdiff1d(np.arange(len(whole)), seen)
        # the row that each id now has
        self.number = np.argsort(np.concatenate([seen, others]))
        self.pad = self._model.config.pad_token_id = int(self.number[pad])
        indices = torch.from_numpy(seen).to(whole.device), torch.from_numpy(others).to(whole.device)
        self._others = whole.detach()[indices[1]]
        reduced = whole
        if len(seen) < len(whole):
            reduced = torch.nn.Parameter(whole.detach()[indices[0]])
        self._table.weight = reduced
        if self._table.padding_idx is not None:
            self._table.padding_idx = self.pad

    def _logits(self, ids: NDArray[Any]) -> torch.Tensor:
        import torch

        row = torch.from_numpy(self.number[ids])[None].to(self._model.device)
        with evaluation_mode(self._model):
            logits: torch.Tensor = self._model(input_ids=row).logits.flatten(0, -2)
        return logits

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Context with the whole matrix, for predictions on any example."""
        import torch

        reduced = self._table.weight
        everything = torch.cat([reduced.detach(), self._others * self.decay_factor])
        self._table.weight = torch.nn.Parameter(everything, requires_grad=False)
        try:
            yield
        finally:
            self._table.weight = reduced
