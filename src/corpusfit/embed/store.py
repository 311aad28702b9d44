"""Embeddings on disk, computed once per corpus, unit settings and encoder."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from corpusfit.core.artifacts import names_in, read_arrays, write_arrays
from corpusfit.core.errors import ModelError
from corpusfit.core.types import Units, Vectors

_PART = re.compile(r"part-(\d+)\.safetensors")
_LARGEST = float(np.finfo(np.float16).max)


def rounded(vectors: Vectors) -> NDArray[np.float16]:
    """Round embeddings to float16 [n, d] for storage; large values are clipped."""
    return np.clip(vectors, -_LARGEST, _LARGEST).astype(np.float16)


_ARRAYS = ("row", "start", "end", "pieces", "vectors", "rejects")


class VectorStore:
    """The units and embeddings of a corpus in a folder, one file per shard."""

    # Embeddings are stored as float16: the rounding (about 5e-4 relative) is far below the
    # differences that rank texts.
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _part(self, shard: int) -> Path:
        return self.folder / f"part-{shard:05d}.safetensors"

    def finished(self) -> set[int]:
        """The shards with a stored file, by one listing."""
        parts = filter(None, map(_PART.fullmatch, names_in(self.folder)))
        return {int(part[1]) for part in parts}

    def write(self, shard: int, units: Units, vectors: Vectors, tally: dict[str, Any]) -> None:
        """Store a shard's n units, its embeddings [n, d], and the counts from reading it."""
        plain = {name: value for name, value in tally.items() if name != "rejects"}
        arrays: dict[str, NDArray[Any]] = {
            "row": units.row,
            "start": units.start,
            "end": units.end,
            "pieces": units.pieces,
            "vectors": rounded(vectors),
            # not in the header, as its size is limited and a shard can have millions of rejects
            "rejects": np.frombuffer(orjson.dumps(tally["rejects"]), np.uint8),
        }
        write_arrays(self._part(shard), arrays, plain)

    def read(self, shard: int) -> tuple[Units, Vectors, dict[str, Any]]:
        """Units, float32 embeddings [n, d] and counts of one shard."""
        arrays, plain = read_arrays(self._part(shard), _ARRAYS)
        tally = self._tally(shard, plain, arrays["rejects"])
        vectors = arrays["vectors"]
        lengths = {len(arrays[name]) for name in _ARRAYS[:-1]}
        if len(lengths) > 1 or vectors.ndim != 2 or vectors.dtype != np.float16:
            raise self._damaged(shard, "its arrays do not belong together")
        if not np.isfinite(vectors).all():
            raise self._damaged(shard, "it holds vectors that are no numbers")
        units = Units(arrays["row"], arrays["start"], arrays["end"], arrays["pieces"])
        return units, arrays["vectors"].astype(np.float32), tally

    def tally(self, shard: int) -> dict[str, Any]:
        """The counts of one shard."""
        arrays, plain = read_arrays(self._part(shard), ["rejects"])
        return self._tally(shard, plain, arrays["rejects"])

    def _tally(self, shard: int, plain: dict[str, Any], rejects: NDArray[Any]) -> dict[str, Any]:
        try:
            return {**plain, "rejects": orjson.loads(rejects.tobytes())}
        except ValueError as e:
            raise self._damaged(shard, e) from e

    def _damaged(self, shard: int, why: object) -> ModelError:
        part = self._part(shard)
        return ModelError(
            f"{part} is damaged: {why}. Delete it, then run the same command again; the shard is "
            "read again."
        )

    def gather(self, places: Sequence[tuple[int, NDArray[np.int64]]]) -> Vectors:
        """Read the embeddings at (shard, positions within it), in that order; float32 [k, d]."""
        return np.concatenate([self.read(shard)[1][at] for shard, at in places])
