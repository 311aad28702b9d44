"""Jobs of `clusters`: draw units with their known domains, fit, assign segments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from corpusfit.core.artifacts import is_local, read_arrays, write_arrays
from corpusfit.core.engine import Job, PlainJob
from corpusfit.core.languages import count_words
from corpusfit.core.plan import CutPlan, ReadPlan
from corpusfit.core.types import Shard, file_of, in_file
from corpusfit.domains.baselines import at_random, by_topic, word_vectors
from corpusfit.domains.domains import fit_domains, read_domains, write_domains
from corpusfit.domains.purity import confusion
from corpusfit.embed.store import VectorStore
from corpusfit.scoring.contract import SOURCE
from corpusfit.scoring.table import column, columns_of, source_column, write_parquet
from corpusfit.selection.fit import Sample
from corpusfit.selection.labels import labels_at
from corpusfit.selection.samples import Drawn, below, lowest, strings
from corpusfit.text.reading import Tally
from corpusfit.text.segments import join_units

_LABEL = 200
"""Characters of a domain's name."""


@dataclass(frozen=True)
class Known:
    """A drawn unit with its known domain.

    Attributes:
        row: its row in the source.
        domain: its known domain.
    """

    text: str
    source: str
    row: int
    domain: str


@dataclass(frozen=True)
class DrawKnown(PlainJob[tuple[Shard, int], tuple[Drawn[Known], Tally]]):
    """Draw the different units of a shard with the k smallest keys below a bound.

    Attributes:
        read: how rows become texts; its `id_field` is the domain's field unless `truth` is source.
        k: most units to draw.
        words: least number of words of a unit.
        truth: `source`, or the name of the domain's field.
    """

    read: ReadPlan
    cut: CutPlan
    names: tuple[str, ...]
    k: int
    seed: int
    words: int
    truth: str

    def _work(self, piece: tuple[Shard, int]) -> tuple[Drawn[Known], Tally]:
        shard, bound = piece
        keys, row, drawn, tally = below(shard, bound, self.read, self.cut, self.names, self.seed)
        texts = strings(drawn, np.arange(len(drawn)))
        long = np.array([count_words(text) >= self.words for text in texts], np.bool_)
        texts = [text for text, is_long in zip(texts, long.tolist(), strict=True) if is_long]
        keys, row = keys[long], row[long]
        order = np.argsort(keys, kind="stable")
        first: dict[str, int] = {}
        for place in order.tolist():
            first.setdefault(texts[place].strip(), place)
        places = np.sort(np.fromiter(first.values(), np.int64, len(first)))
        places = places[lowest(keys[places], self.k)]
        files = [self.names[shard.source + i] for i in file_of(row[places]).tolist()]
        domains = files
        if self.truth != SOURCE and len(places):
            domains = labels_at(shard, self.read, row[places])
        units = [
            Known(texts[place].strip(), file, int(in_file(row[place])), domain[:_LABEL])
            for place, file, domain in zip(places.tolist(), files, domains, strict=True)
        ]
        return Drawn(shard.index, keys[places], units), tally


@dataclass(frozen=True)
class Fitted:
    """A fit of k clusters, or a baseline.

    Attributes:
        k: number of clusters.
        seed: random seed of the fit.
        counts: int64 [k, t], units by cluster and known domain.
        likelihood: mean log-likelihood per unit in nats; None for a baseline.
        bic: Bayesian information criterion; None for a baseline.
        converged: whether EM converged; None for a baseline.
    """

    k: int
    seed: int
    counts: NDArray[np.int64]
    likelihood: float | None = None
    bic: float | None = None
    converged: bool | None = None


@dataclass(frozen=True)
class FitDomains(Job[tuple[int, int], Fitted]):
    """Fit k clusters with a seed to a sample's vectors and store them; a stored fit is reused.

    Reference: Aharoni and Goldberg (2020), sections 2.2 to 2.4.

    Attributes:
        sample: sample with the vectors.
        domains: numbers of the units' known domains.
        t: number of known domains.
        components: principal components; 0 for all dimensions.
        steps: most steps of EM.
        out: folder of the fits.
    """

    sample: Sample
    domains: tuple[int, ...]
    t: int
    components: int
    steps: int
    out: Path

    def path(self, k: int, seed: int) -> Path:
        """File of a fit."""
        return self.out / f"{k}-{seed}.safetensors"

    def start(self) -> Callable[[tuple[int, int]], Fitted]:
        """Read the vectors."""
        vectors = read_arrays(self.sample.vectors)[0]["vectors"]
        known = np.array(self.domains, np.int64)

        def work(piece: tuple[int, int]) -> Fitted:
            k, seed = piece
            path = self.path(k, seed)
            if path.exists():
                found = read_domains(path)
            else:
                how = {"components": self.components, "steps": self.steps}
                found = fit_domains(vectors, k, seed=seed, **how)
                write_domains(path, found)
            counts = confusion(found.shares(vectors).argmax(axis=1), known, k, self.t)
            mixture = found.mixture
            return Fitted(k, seed, counts, mixture.likelihood, mixture.bic(), mixture.converged)

        return work


@dataclass(frozen=True)
class Baseline(Job[tuple[str, int, int], tuple[str, Fitted]]):
    """Assign a sample's texts at `random` or by `lda`: (which, k, seed) to the same and its fit."""

    sample: Sample
    domains: tuple[int, ...]
    t: int

    def start(self) -> Callable[[tuple[str, int, int]], tuple[str, Fitted]]:
        """Read the texts."""
        texts = self.sample.read_texts()
        known = np.array(self.domains, np.int64)

        def work(piece: tuple[str, int, int]) -> tuple[str, Fitted]:
            which, k, seed = piece
            of = at_random(len(texts), k, seed) if which == "random" else by_topic(texts, k, seed)
            return which, Fitted(k, seed, confusion(of, known, k, self.t))

        return work


@dataclass(frozen=True)
class TrainWords(PlainJob[tuple[Sample, int], Path]):
    """Write averaged word2vec vectors of a sample's texts, trained with a seed, as another's."""

    sample: Sample

    def _work(self, piece: tuple[Sample, int]) -> Path:
        words, seed = piece
        vectors = word_vectors(self.sample.read_texts(), seed)
        write_arrays(words.vectors, {"vectors": vectors}, {})
        return words.vectors


def assigned_path(folder: Path, shard: int) -> Path:
    """File of a shard's assignments."""
    return folder / f"part-{shard:05d}.parquet"


@dataclass(frozen=True)
class Assign(Job[int, int]):
    """Write the share of each cluster in every segment of a stored shard.

    A segment's share is the mean of its units' shares. Returns the number of segments.

    Attributes:
        domains: file of the fitted domains.
        store: store of the corpus's vectors.
        gamma: units per segment.
        out: folder of the parts.
    """

    domains: Path
    store: Path
    names: tuple[str, ...]
    gamma: int
    out: Path

    def start(self) -> Callable[[int], int]:
        """Read the domains, open the store."""
        domains, store = read_domains(self.domains), VectorStore(self.store)

        def work(shard: int) -> int:
            units, vectors, tally = store.read(shard)
            segments = join_units(units, self.gamma)
            own = domains.shares(vectors).astype(np.float64)
            if len(segments):
                own = np.add.reduceat(own, segments.first_unit, axis=0) / segments.units[:, None]
            shares = own.astype(np.float32)
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
    column = _column(path, "shares").combine_chunks()
    flat = np.asarray(column.flatten().to_numpy(), np.float32)
    return flat.reshape(-1, column.type.list_size)


def read_clusters(path: Path) -> NDArray[np.int64]:
    """The main cluster of a part's segments, from 0: int64 [m]."""
    return np.asarray(_column(path, "cluster").to_numpy(), np.int64)


def _column(path: Path, name: str) -> pa.ChunkedArray:
    opened = path if is_local(path) else pa.BufferReader(path.read_bytes())
    return columns_of(pq.ParquetFile(opened), [name]).column(name)
