"""Keys of the documents of a shard, by which copies are found: hashes of their texts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise, repeat
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.artifacts import write_arrays
from corpusfit.core.engine import PlainJob
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Shard, Texts, buffers, text_array
from corpusfit.kernels import characters
from corpusfit.kernels.chance import place_keys
from corpusfit.kernels.grams import count_each, grams_of
from corpusfit.kernels.overlap import band_keys
from corpusfit.text import documents
from corpusfit.text.same_text import exact_key, folded, form_keys

EXACT = "keys"
"""Name of the array of keys that exact copies share."""
_ORDER = 5
"""Words of an n-gram, as for contamination and `split --near`."""
_FEWEST = 4
"""Different n-grams without which a text is only like the same text."""
_BANDS, _ROWS = 20, 10
NEAR = tuple(f"near{i}" for i in range(_BANDS + 1))
"""Names of the arrays of keys that near-duplicates share."""


def keys_path(folder: Path, shard: int) -> Path:
    """File of the keys of a shard's documents."""
    return folder / f"part-{shard:05d}.safetensors"


def write_keys(folder: Path, shard: int, keys: NDArray[np.uint64]) -> None:
    """Write the keys of a shard's documents, in reading order."""
    write_arrays(keys_path(folder, shard), {EXACT: keys}, {})


def keys_of(row: NDArray[np.int64], texts: Texts, seeds: Iterable[int] = ()) -> NDArray[np.uint64]:
    """The key of each of n documents, uint64 [n]: the hash of its text, in any Unicode form.

    Two different texts share a key with probability 2^-64.
    """
    data, offsets = buffers(texts)
    first = np.flatnonzero(np.diff(row, prepend=-1))
    held, spans = data.data, pairwise([*offsets[first].tolist(), int(offsets[-1])])
    hashes = (
        exact_key(bytes(held[begin:end]), seed)
        for (begin, end), seed in zip(spans, seeds or repeat(0), strict=False)
    )
    return np.fromiter(hashes, np.uint64, len(first))


@dataclass(frozen=True)
class KeyDocuments(PlainJob[Shard, int]):
    """Write the keys of a shard's documents, of aligned pairs by both sides; returns their number.

    Attributes:
        out: folder of the keys.
        pairs: whether the corpus has aligned pairs.
    """

    read: ReadPlan
    out: Path
    pairs: bool

    def _work(self, shard: Shard) -> int:
        first, other = self.read.sides()
        found, _ = documents(shard, first)
        keys = keys_of(found.row, found.texts)
        if self.pairs:
            second, _ = documents(shard, other)
            keys = keys_of(second.row, second.texts, keys.tolist())
        write_keys(self.out, shard.index, keys)
        return len(keys)


@dataclass(frozen=True)
class KeyNear(PlainJob[Shard, int]):
    """Write the keys that near-duplicates share, `NEAR`, uint64 [n] each; returns n.

    The first is that of the same text, the others are of its 5-grams of words and symbols: two
    texts with the Jaccard similarity 0.8 share one with the probability 0.90, with 0.7 of 0.43,
    with 0.6 of 0.11, with 0.9 of 0.9998. A text with fewer than 4 different 5-grams has the first.

    Reference: see `kernels/minhash.py`; Lee et al. (2022), Deduplicating Training Data Makes
    Language Models Better.
    """

    read: ReadPlan
    out: Path

    def _work(self, shard: Shard) -> int:
        found, _ = documents(shard, self.read)
        texts = [folded(text) for text in found.texts.to_pylist()]
        data, offsets = buffers(text_array(texts))
        grams, _, bounds = count_each(
            *grams_of(data, offsets, characters.symbol_table(), _ORDER, True)
        )
        drawn = place_keys(0, 0, 2 * _BANDS * _ROWS).astype(np.uint32)
        factors, added = drawn[::2] | np.uint32(1), drawn[1::2]
        same = form_keys(texts)
        alike = band_keys(grams, bounds, factors, added, _ROWS)
        keys = np.where(np.diff(bounds) < _FEWEST, same, alike)
        arrays = dict(zip(NEAR, [same, *keys], strict=True))
        write_arrays(keys_path(self.out, shard.index), arrays, {})
        return len(same)
