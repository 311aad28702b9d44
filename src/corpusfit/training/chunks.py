"""Cut texts of tokens into chunks, and hold some texts out."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from corpusfit.kernels.chance import uniform, value_keys

_TEXT, _CHUNK = range(2)  # streams of random numbers


@dataclass(frozen=True, eq=False)
class Chunks:
    """n chunks, ordered by text and position.

    Attributes:
        text: int64 [n], number of the text.
        begin: int64 [n], first token in the text.
        length: int32 [n], number of tokens, 1 or more, without special tokens.
        weight: float32 [n], weight of the text.
        store: int8 [n], which of several `Tokens` holds the text.
    """

    text: NDArray[np.int64]
    begin: NDArray[np.int64]
    length: NDArray[np.int32]
    weight: NDArray[np.float32]
    store: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.text)

    def take(self, places: NDArray[np.int64] | NDArray[np.bool_]) -> Chunks:
        """Select chunks by position, int64 [k], or by mask, bool [n]."""
        return Chunks(*(getattr(self, f.name)[places] for f in fields(self)))

    def followed_by(self, others: Chunks) -> Chunks:
        """Concatenate with other chunks."""
        pairs = ((getattr(self, f.name), getattr(others, f.name)) for f in fields(self))
        return Chunks(*map(np.concatenate, pairs))


def cut_chunks(
    lengths: NDArray[np.int64], weights: NDArray[np.float32], room: int, *, store: int = 0
) -> Chunks:
    """Cut each text into chunks of `room` tokens; the last one holds the rest."""
    counts = -(-lengths // room)
    text = np.repeat(np.arange(len(lengths)), counts)
    number = np.arange(len(text)) - np.repeat(np.cumsum(counts) - counts, counts)
    begin = number * room
    length = np.minimum(room, lengths[text] - begin).astype(np.int32)
    return Chunks(text, begin, length, weights[text], np.full(len(text), store, np.int8))


def whole_pairs(
    sides: NDArray[np.int64], weights: NDArray[np.float32], longest: int, *, store: int = 0
) -> Chunks:
    """One chunk for each pair: its target text, which begins where its source text ends."""
    text = np.flatnonzero((sides.max(1, initial=0) <= longest) & (sides.min(1, initial=1) > 0))
    begin, length = sides[text, 0], sides[text, 1].astype(np.int32)
    return Chunks(text, begin, length, weights[text], np.full(len(text), store, np.int8))


def split_heldout(
    chunks: Chunks, keys: NDArray[np.uint64], most: int, seed: int, share: float = 0.05
) -> tuple[Chunks, Chunks]:
    """Hold whole texts out, with their copies; the draw depends on the seed and the keys alone.

    A copy has the same letters and digits; an edited copy is not recognised.
    """
    own = keys if keys.ndim == 1 else keys[:, 0]
    different, first = np.unique(own[chunks.text], return_index=True)
    count = min(most, max(int(len(different) * share), 1 if len(different) > 1 else 0))
    if count < 1:
        return chunks, chunks.take(np.empty(0, np.int64))
    held = np.argsort(value_keys(seed, _TEXT, different), kind="stable")[:count]
    held = held[np.argsort(first[held], kind="stable")]
    texts = chunks.text[first[held]]  # the first of several copies
    begin = np.searchsorted(chunks.text, texts)
    counts = np.searchsorted(chunks.text, texts, side="right") - begin
    draw = uniform(value_keys(seed, _CHUNK, different[held]))
    places = begin + (draw * counts).astype(np.int64)
    return exclude_keys(chunks, keys, keys[chunks.text[places]].reshape(-1)), chunks.take(places)


def exclude_keys(chunks: Chunks, keys: NDArray[np.uint64], held: NDArray[np.uint64]) -> Chunks:
    """The chunks of texts of whose keys, uint64 [n] or [n, sides], none is in `held`."""
    found = np.isin(keys[chunks.text], held)
    copies = np.asarray(found if found.ndim == 1 else found.any(axis=1))
    return chunks.take(~copies)


def effective_size(weights: NDArray[np.float32]) -> float:
    """Effective sample size of weighted texts or chunks: (sum w)² / sum w².

    Reference: Kish (1965), Survey Sampling, section 11.7.
    """
    w = weights.astype(np.float64)
    squares = float(w @ w)
    return float(w.sum()) ** 2 / squares if squares else 0.0
