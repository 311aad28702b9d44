"""Texts cut into chunks, and some of them kept back.

What: `cut_chunks` cuts texts of tokens into pieces that fit a sequence; `split_heldout` keeps
whole texts back to measure the loss on.
Why: what is held out must not be trained on in part either, so it is chosen by texts.
Trade-off: the last chunk of a text is as long as what is left, however short; packing makes that
cheap. A copy of a held-out text is known by its letters and digits; one with other words in it is
not.
Reference: Kish (1965), Survey Sampling, section 11.7, for the effective size.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from corpusfit.kernels.chance import uniform, value_keys

_TEXT, _CHUNK = range(2)  # what is drawn


@dataclass(frozen=True, eq=False)
class Chunks:
    """n pieces of texts, by text and place in it.

    Attributes:
        text: int64 [n], the number of its text.
        begin: int64 [n], its first token there.
        length: int32 [n], its tokens, 1 or more, special ones not counted.
        weight: float32 [n], its text's.
        store: int8 [n], which of several `Tokens` its text is in.
    """

    text: NDArray[np.int64]
    begin: NDArray[np.int64]
    length: NDArray[np.int32]
    weight: NDArray[np.float32]
    store: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.text)

    def take(self, places: NDArray[np.int64] | NDArray[np.bool_]) -> Chunks:
        """Those at some places, int64 [k], or where bool [n] says so."""
        return Chunks(*(getattr(self, f.name)[places] for f in fields(self)))

    def followed_by(self, others: Chunks) -> Chunks:
        """These, and then others."""
        pairs = ((getattr(self, f.name), getattr(others, f.name)) for f in fields(self))
        return Chunks(*map(np.concatenate, pairs))


def cut_chunks(
    lengths: NDArray[np.int64],
    weights: NDArray[np.float32],
    room: int,
    *,
    store: int = 0,
) -> Chunks:
    """Cut texts one after the other; a text without tokens gives no chunk.

    Args:
        lengths: int64 [n], tokens of each text.
        weights: float32 [n], of each text.
        room: the most tokens of a chunk, 1 or more.
        store: which of several `Tokens` the texts are in.
    """
    counts = -(-lengths // room)
    text = np.repeat(np.arange(len(lengths)), counts)
    number = np.arange(len(text)) - np.repeat(np.cumsum(counts) - counts, counts)
    begin = number * room
    length = np.minimum(room, lengths[text] - begin).astype(np.int32)
    return Chunks(text, begin, length, weights[text], np.full(len(text), store, np.int8))


def split_heldout(
    chunks: Chunks, keys: NDArray[np.uint64], most: int, seed: int, share: float = 0.05
) -> tuple[Chunks, Chunks]:
    """Keep whole texts back, with their copies, by a draw that depends on the seed and the keys.

    Args:
        chunks: as `cut_chunks` gave them.
        keys: uint64, of each text that chunks are numbered by; copies of a text share one.
        most: the most different texts that are held out.
        seed: the only source of chance.
        share: nor more than this share of the different texts, but one where there are two.

    Returns:
        The chunks of all other texts, and of every held-out text one chunk, drawn too.
    """
    different, first = np.unique(keys[chunks.text], return_index=True)
    count = min(most, max(int(len(different) * share), 1 if len(different) > 1 else 0))
    if count < 1:
        return chunks, chunks.take(np.empty(0, np.int64))
    held = np.argsort(value_keys(seed, _TEXT, different), kind="stable")[:count]
    held = held[np.argsort(first[held], kind="stable")]
    texts = chunks.text[first[held]]  # the first of its copies stands for all
    begin = np.searchsorted(chunks.text, texts)
    counts = np.searchsorted(chunks.text, texts, side="right") - begin
    chance = uniform(value_keys(seed, _CHUNK, different[held]))
    places = begin + (chance * counts).astype(np.int64)
    return without(chunks, keys, different[held]), chunks.take(places)


def without(chunks: Chunks, keys: NDArray[np.uint64], held: NDArray[np.uint64]) -> Chunks:
    """The chunks of texts that are no copy of one of those held out, given their keys."""
    return chunks.take(~np.isin(keys[chunks.text], held))


def effective_size(weights: NDArray[np.float32]) -> float:
    """How many equally weighted texts or chunks are worth as much: (sum w)² / sum w².

    Args:
        weights: float32 [n], 0 or more.

    Returns:
        At most n; 0 if all weights are 0.
    """
    w = weights.astype(np.float64)
    squares = float(w @ w)
    return float(w.sum()) ** 2 / squares if squares else 0.0
