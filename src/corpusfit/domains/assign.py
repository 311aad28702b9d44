"""The folder of `clusters`, and the shares of its clusters in every segment of the corpus."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from corpusfit.core.artifacts import is_local, remove
from corpusfit.core.engine import Job
from corpusfit.core.errors import InputError
from corpusfit.core.manifest import OutFolder
from corpusfit.core.types import in_file
from corpusfit.domains.mixture import read_domains
from corpusfit.embed.store import VectorStore
from corpusfit.scoring.table import column, columns_of, source_column, write_parquet
from corpusfit.text.reading import Tally, join_units


class ClustersFolder(OutFolder):
    """The folder of the domains found in a corpus."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.domains = path / "domains.safetensors"
        self.sample = path / "sample.parquet"
        self.assigned = path / "assigned"
        self.drawn = self.work / "drawn"
        self.fits = self.work / "fits"

    def _has_work(self) -> bool:
        return self.fits.is_dir() or self.finished() is not None

    def _clear(self) -> None:
        super()._clear()
        remove(self.drawn, self.fits, self.assigned, self.domains, self.sample)

    def require(self) -> dict[str, Any]:
        """The manifest."""
        manifest = self.finished()
        if manifest is None or manifest.get("command") != "clusters" or not self.domains.exists():
            raise InputError(
                f"{self.path} holds no clusters. Run `corpusfit clusters` for this folder first."
            )
        return manifest


def assigned_path(folder: Path, shard: int) -> Path:
    """File of a shard's assignments."""
    return folder / f"part-{shard:05d}.parquet"


@dataclass(frozen=True)
class Assign(Job[int, int]):
    """Write the share of each cluster in every segment of a stored shard; returns their number."""

    domains: Path  # file of the fitted domains
    store: Path  # store of the corpus's vectors
    names: tuple[str, ...]
    gamma: int  # units per segment
    out: Path

    def start(self) -> Callable[[int], int]:
        """Read the domains, open the store."""
        domains, store = read_domains(self.domains), VectorStore(self.store)

        def work(shard: int) -> int:
            units, vectors, tally = store.read(shard)
            segments = join_units(units, self.gamma)
            of_units = domains.shares(vectors).astype(np.float64)
            if len(segments):  # the mean of a segment's units
                sums = np.add.reduceat(of_units, segments.first_unit, axis=0)
                of_units = sums / segments.units[:, None]
            shares = of_units.astype(np.float32)
            names = Tally(**tally).sources(self.names)
            table = pa.table(
                {
                    "source": source_column(names, segments.row),
                    "row": column(in_file(segments.row), pa.int64()),
                    "segment": column(segments.segment, pa.int32()),
                    "start": column(segments.start, pa.int64()),
                    "end": column(segments.end, pa.int64()),
                    "tokens": column(segments.tokens, pa.int64()),
                    "cluster": column(shares.argmax(axis=1).astype(np.int32), pa.int32()),
                    "shares": pa.FixedSizeListArray.from_arrays(
                        column(shares.ravel(), pa.float32()), domains.k
                    ),
                }
            )
            write_parquet(assigned_path(self.out, shard), table)
            return len(segments)

        return work


def read_shares(path: Path) -> NDArray[np.float32]:
    """The shares of a part's segments: float32 [m, k]."""
    shares = _column(path, "shares").combine_chunks()
    flat = np.asarray(shares.flatten().to_numpy(), np.float32)
    return flat.reshape(-1, shares.type.list_size)


def read_clusters(path: Path) -> NDArray[np.int64]:
    """The main cluster of a part's segments, from 0: int64 [m]."""
    return np.asarray(_column(path, "cluster").to_numpy(), np.int64)


def _column(path: Path, name: str) -> pa.ChunkedArray:
    opened = path if is_local(path) else pa.BufferReader(path.read_bytes())
    return columns_of(pq.ParquetFile(opened), [name]).column(name)
