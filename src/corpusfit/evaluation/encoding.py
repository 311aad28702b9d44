"""Tokenise examples, and pack batches of them into rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.evaluation.registry import load
from corpusfit.evaluation.task import Examples
from corpusfit.evaluation.vocabulary import TaskVocabulary
from corpusfit.training.special_tokens import SpecialTokens

if TYPE_CHECKING:
    import torch

NOWHERE = -1
"""Position of a piece that was truncated or has no token."""

_AT_ONCE = 1_000
_TRIES = 16  # row widths to try between the longest example and twice its length
_DOUBLE = 1_000
"""Row width at which a token takes twice the time of one in a short row, because of attention:
440 to 1,600 on a CPU at hidden size 384, more for larger models. The choice of rows hardly depends
on it."""


@dataclass(frozen=True, eq=False)
class Encoded:
    """n tokenised examples.

    Attributes:
        ids: token ids of each, int32 [l], special tokens included.
        places: of each, int64 [pieces], the token that predicts a piece's label, or `NOWHERE`.
        targets: of each, [pieces, …], the labels in the form of the loss.
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
        """int64 [n]: number of tokens of each example."""
        return np.fromiter(map(len, self.ids), np.int64, len(self))


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows that go through the model together, as tensors.

    Attributes:
        ids: int64 [r, l], padding at the end of rows.
        chunk: int64 [r, l], number of the token's example within its row, -1 for padding.
        at: int64 [m], predicted positions in the flattened rows, by example and piece, without
            `NOWHERE`.
        targets: [m, …].
    """

    ids: torch.Tensor
    chunk: torch.Tensor
    at: torch.Tensor
    targets: torch.Tensor


def encode(
    examples: Examples, kind: str, tokenizer: Any, special: SpecialTokens, length: int
) -> Encoded:
    """Tokenise examples.

    Words of a sentence are joined by spaces and tokenised together.
    """
    task = load(kind)
    room = length - len(special.prefix) - len(special.suffix)
    ids_of: list[NDArray[np.int32]] = []
    places_of: list[NDArray[np.int64]] = []
    cut: list[bool] = []
    for first in range(0, len(examples), _AT_ONCE):
        pieces = examples.pieces[first : first + _AT_ONCE]
        texts = [" ".join(words) for words in pieces]
        encodings = tokenizer.encode_batch(texts, add_special_tokens=False)
        for words, encoding in zip(pieces, encodings, strict=True):
            ids = [*special.prefix, *encoding.ids[:room], *special.suffix] or [special.pad]
            cut.append(len(encoding.ids) > room)
            ids_of.append(np.array(ids, np.int32))
            places_of.append(task.places(words, encoding.offsets[:room], len(ids), special))
    targets = list(map(task.targets, examples.labels))
    return Encoded(ids_of, places_of, targets, np.array(cut, np.bool_))


def packed_rows(lengths: NDArray[np.int64], widest: int = 0) -> list[list[int]]:
    """Pack n examples into rows: first fit by decreasing length.

    A batch has few examples, and rows as wide as the longest one are often badly filled, so wider
    rows are tried and the fastest packing is used. Only examples of one batch are packed together,
    so a step learns from the same examples as a padded one.

    Reference: Krell et al. (2021), Efficient Sequence Packing without Cross-contamination.
    """
    longest = int(lengths.max())
    most = max(longest, min(widest, 2 * longest))

    def cost(rows: list[list[int]]) -> float:  # estimated time, in tokens of a short row
        width = max(int(lengths[row].sum()) for row in rows)
        return len(rows) * width * (1 + width / _DOUBLE)

    widths = range(longest, most + 1, max(1, longest // _TRIES))
    return min((_first_fit(lengths, width) for width in widths), key=cost)


def _first_fit(lengths: NDArray[np.int64], width: int) -> list[list[int]]:
    """Rows of at most `width` tokens."""
    rows: list[list[int]] = []
    left: list[int] = []
    for number in np.argsort(-lengths, kind="stable").tolist():
        size = int(lengths[number])
        at = next((r for r, room in enumerate(left) if room >= size), len(rows))
        if at == len(rows):
            rows.append([])
            left.append(width)
        rows[at].append(number)
        left[at] -= size
    return rows


def to_batch(
    encoded: Encoded, numbers: NDArray[np.int64], rows: list[list[int]], words: TaskVocabulary
) -> Batch:
    """Rows of examples as tensors."""
    import torch

    sizes = [sum(len(encoded.ids[numbers[i]]) for i in row) for row in rows]
    ids = np.full((len(rows), max(sizes)), words.pad, np.int64)
    chunk = np.full(ids.shape, -1, np.int64)
    at: list[NDArray[np.int64]] = [np.empty(0, np.int64)] * len(numbers)
    targets: list[NDArray[Any]] = list(at)
    for r, row in enumerate(rows):
        begin = 0
        for place, i in enumerate(row):
            number = int(numbers[i])
            end = begin + len(encoded.ids[number])
            ids[r, begin:end], chunk[r, begin:end] = words.number[encoded.ids[number]], place
            there = encoded.places[number] != NOWHERE
            at[i] = encoded.places[number][there] + (r * ids.shape[1] + begin)
            targets[i] = encoded.targets[number][there]
            begin = end
    tensors = (ids, chunk, np.concatenate(at), np.concatenate(targets))
    return Batch(*map(torch.from_numpy, tensors))
