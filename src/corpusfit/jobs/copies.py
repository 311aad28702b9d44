"""Keys of the documents of a shard, by which copies are found: hashes of their texts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise, repeat
from pathlib import Path

import numpy as np
import xxhash
from numpy.typing import NDArray

from corpusfit.artifacts import write_arrays
from corpusfit.corpus import documents
from corpusfit.engine import PlainJob
from corpusfit.plan import ReadPlan
from corpusfit.types import Shard, Texts, buffers


def keys_path(folder: Path, shard: int) -> Path:
    """File of the keys of a shard's documents."""
    return folder / f"part-{shard:05d}.safetensors"


def write_keys(folder: Path, shard: int, keys: NDArray[np.uint64]) -> None:
    """Write the keys of a shard's documents, in reading order."""
    write_arrays(keys_path(folder, shard), {"keys": keys}, {})


def keys_of(row: NDArray[np.int64], texts: Texts, seeds: Iterable[int] = ()) -> NDArray[np.uint64]:
    """The key of each of n documents, uint64 [n]: the XXH3 hash of its text.

    Two different texts share a key with probability 2^-64.

    Args:
        row: int64 [m], the row of each text; those of one document follow each other.
        texts: [m], documents or their units, one after the other in one buffer.
        seeds: [n], what else decides the keys (default: nothing).
    """
    data, offsets = buffers(texts)
    first = np.flatnonzero(np.diff(row, prepend=-1))
    held, spans = data.data, pairwise([*offsets[first].tolist(), int(offsets[-1])])
    hashes = (
        xxhash.xxh3_64_intdigest(held[begin:end], seed)
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
        found, _ = documents(shard, self.read)
        keys = keys_of(found.row, found.texts)
        if self.pairs:
            second, _ = documents(shard, self.read, translations=True)
            keys = keys_of(second.row, second.texts, keys.tolist())
        write_keys(self.out, shard.index, keys)
        return len(keys)
