"""Texts cut into chunks, and which of these are held out."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from corpusfit.kernels.chance import uniform, value_keys
from corpusfit.training.token_store import PairTokens, Tokens

_TEXT, _CHUNK = range(2)  # streams of random numbers


@dataclass(frozen=True, eq=False)
class Chunks:
    """n chunks, ordered by text and position."""

    text: NDArray[np.int64]  # [n], number of the text
    begin: NDArray[np.int64]  # [n], first token in the text
    length: NDArray[np.int32]  # [n], number of tokens, 1 or more, without special tokens
    weight: NDArray[np.float32]  # [n], weight of the text
    store: NDArray[np.int8]  # [n], which of several `Tokens` holds the text

    def __len__(self) -> int:
        return len(self.text)

    def take(self, places: NDArray[np.int64] | NDArray[np.bool_]) -> Chunks:
        """Select chunks by position, int64 [k], or by mask, bool [n]."""
        return Chunks(*(getattr(self, f.name)[places] for f in fields(self)))

    def followed_by(self, others: Chunks) -> Chunks:
        """Concatenate with other chunks."""
        pairs = ((getattr(self, f.name), getattr(others, f.name)) for f in fields(self))
        return Chunks(*map(np.concatenate, pairs))


def chunks_of(
    tokens: Tokens, max_length: int, weights: NDArray[np.float32] | None = None, *, store: int = 0
) -> Chunks:
    """The chunks of texts, or one chunk for each pair, all of weight 1 without weights."""
    if weights is None:
        weights = np.ones(len(tokens), np.float32)
    if isinstance(tokens, PairTokens):
        return whole_pairs(tokens.sides, weights, max_length, store=store)
    return cut_chunks(tokens.lengths, weights, max_length, store=store)


def cut_chunks(
    lengths: NDArray[np.int64], weights: NDArray[np.float32], max_length: int, *, store: int = 0
) -> Chunks:
    """Cut each text into chunks of `max_length` tokens; the last one holds the rest."""
    counts = -(-lengths // max_length)
    text = np.repeat(np.arange(len(lengths)), counts)
    number = np.arange(len(text)) - np.repeat(np.cumsum(counts) - counts, counts)
    begin = number * max_length
    length = np.minimum(max_length, lengths[text] - begin).astype(np.int32)
    return Chunks(text, begin, length, weights[text], np.full(len(text), store, np.int8))


def whole_pairs(
    sides: NDArray[np.int64], weights: NDArray[np.float32], max_length: int, *, store: int = 0
) -> Chunks:
    """One chunk for each pair: its second text, which begins where its first text ends."""
    text = np.flatnonzero((sides.max(1, initial=0) <= max_length) & (sides.min(1, initial=1) > 0))
    begin = sides[text, 0]
    length = sides[text, 1].astype(np.int32)
    return Chunks(text, begin, length, weights[text], np.full(len(text), store, np.int8))


def split_heldout(
    chunks: Chunks, keys: NDArray[np.uint64], max_heldout: int, seed: int, share: float = 0.05
) -> tuple[Chunks, Chunks]:
    """Hold whole texts out, with their copies; the draw depends on seed and keys alone."""
    # A copy has the same letters and digits; an edited copy is not recognized.
    exact = keys if keys.ndim == 1 else keys[:, 0]
    different, first = np.unique(exact[chunks.text], return_index=True)
    count = min(max_heldout, max(int(len(different) * share), 1 if len(different) > 1 else 0))
    if count < 1:
        return chunks, chunks.take(np.empty(0, np.int64))
    heldout = np.argsort(value_keys(seed, _TEXT, different), kind="stable")[:count]
    heldout = heldout[np.argsort(first[heldout], kind="stable")]
    texts = chunks.text[first[heldout]]  # the first of several copies
    begin = np.searchsorted(chunks.text, texts)
    counts = np.searchsorted(chunks.text, texts, side="right") - begin
    draw = uniform(value_keys(seed, _CHUNK, different[heldout]))
    places = begin + (draw * counts).astype(np.int64)
    return exclude_keys(chunks, keys, keys[chunks.text[places]].reshape(-1)), chunks.take(places)


def exclude_keys(chunks: Chunks, keys: NDArray[np.uint64], heldout: NDArray[np.uint64]) -> Chunks:
    """The chunks of texts of whose keys, uint64 [n] or [n, sides], none is in `heldout`."""
    held_keys = np.isin(keys[chunks.text], heldout)
    copies = np.asarray(held_keys if held_keys.ndim == 1 else held_keys.any(axis=1))
    return chunks.take(~copies)
