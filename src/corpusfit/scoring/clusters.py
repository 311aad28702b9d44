"""Clusters of a corpus: a Gaussian mixture over principal components of embeddings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from corpusfit.core.artifacts import is_local, read_arrays, remove, write_arrays
from corpusfit.core.engine import Job
from corpusfit.core.errors import InputError
from corpusfit.core.manifest import OutFolder
from corpusfit.core.types import in_file
from corpusfit.embed.store import VectorStore
from corpusfit.kernels.vectors import (
    Gaussians,
    Sums,
    densities,
    gather_sums,
    maximize,
    responsibilities,
)
from corpusfit.scoring.table import column, columns_of, source_column, write_parquet
from corpusfit.text.reading import Tally, join_units

_BLOCK = 1_024
SAMPLE = 20_000  # Rows of the sample that the initial parameters come from
# k-means runs, the steps of each, and the rows on which they are compared
_STARTS = 5
_K_MEANS_STEPS = 30
_START_SAMPLE = 4_000
F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
# Ridge, relative to a dimension's variance: without it near-duplicates make a singular covariance.
_RIDGE = 1e-4
_PLAIN = ("likelihood", "rows", "steps", "converged")


@dataclass(frozen=True)
class Mixture:
    """A fitted mixture of k Gaussians in d dimensions."""

    gaussians: Gaussians  # the components, of standardized rows
    center: NDArray[np.float64]  # float64 [d], subtracted from a row
    scale: NDArray[np.float64]  # float64 [d], divides a row after that
    likelihood: float  # mean log-likelihood of a row before standardization, in nats
    rows: int  # number of rows that it was fitted to
    steps: int  # EM steps over all rows
    converged: bool  # whether the log-likelihood converged

    def shares(self, x: NDArray[np.floating]) -> F32:
        """Posterior probability of each component for each row: float32 [n, k]."""
        shares = np.empty((len(x), len(self.gaussians.weights)), np.float32)
        for begin in range(0, len(x), _BLOCK):
            rows = slice(begin, begin + _BLOCK)
            standardized = _standardize(x[rows], self.center, self.scale)
            shares[rows] = responsibilities(densities(standardized, self.gaussians))[0]
        return shares

    def bic(self) -> float:
        """Bayesian information criterion (Schwarz, 1978); lower is better."""
        k, d = self.gaussians.means.shape
        free = k * (d + d * (d + 1) / 2) + k - 1
        return float(free * np.log(self.rows) - 2.0 * self.rows * self.likelihood)


def fit_mixture(
    x: NDArray[np.floating],
    k: int,
    *,
    seed: int,
    steps: int = 150,
    tolerance: float = 1e-3,
    ridge: float = 1e-6,
) -> Mixture:
    """Fit k Gaussians, in descending order of weight.

    Reference: Aharoni and Goldberg (2020), sections 2.2 and 2.3, appendix A.3: full covariances, at
    most 150 steps; Arthur and Vassilvitskii (2007), k-means++.
    """
    # EM finds a local optimum: fit with several seeds and keep the mixture of the highest
    # likelihood.
    n = len(x)
    if n < k:
        raise ValueError(f"{n} rows are too few for {k} components")
    rng = np.random.default_rng(seed)
    center = x.mean(axis=0, dtype=np.float64)
    scale = x.std(axis=0, dtype=np.float64)
    scale[scale == 0.0] = 1.0
    standardized = _standardize(x, center, scale)
    sample = (
        standardized if n <= SAMPLE else standardized[np.sort(rng.choice(n, SAMPLE, replace=False))]
    )
    # k-means runs on the original scale, where leading components count more
    rescaled = sample * np.asarray(scale, np.float32)
    subsample = rescaled[:: max(1, min(len(sample) // k, len(sample) // _START_SAMPLE))]
    runs = [_k_means(subsample, _k_means_plus_plus(subsample, k, rng)) for _ in range(_STARTS)]
    assignments = _k_means(rescaled, min(runs, key=lambda end: end[2])[1])[0]
    current = _from_assignments(sample, assignments, k, ridge)
    # warm start: EM on the sample leaves few steps over all rows
    if n > SAMPLE:
        current = _expectation_maximization(sample, current, steps, tolerance, ridge)[0]
    fitted, likelihood, steps_taken, converged = _expectation_maximization(
        standardized, current, steps, tolerance, ridge
    )
    order = np.argsort(-fitted.weights, kind="stable")
    fitted = Gaussians(fitted.weights[order], fitted.means[order], fitted.factors[order])
    raw_likelihood = likelihood - float(np.log(scale).sum())
    return Mixture(fitted, center, scale, raw_likelihood, n, steps_taken, converged)


def _standardize(
    x: NDArray[np.floating], center: NDArray[np.float64], scale: NDArray[np.float64]
) -> F32:
    standardized = np.empty(x.shape, np.float32)
    for begin in range(0, len(x), _BLOCK):
        rows = slice(begin, begin + _BLOCK)
        standardized[rows] = (x[rows] - center) / scale
    return standardized


def _expectation_maximization(
    x: F32, current: Gaussians, steps: int, tolerance: float, ridge: float
) -> tuple[Gaussians, float, int, bool]:
    """Run EM; returns parameters, mean log-likelihood, steps, and whether it converged."""
    previous = -np.inf
    step = 0
    while True:
        sums = gather_sums(x[:_BLOCK], current)  # a block fits in the processor's cache
        for begin in range(_BLOCK, len(x), _BLOCK):
            sums.add(gather_sums(x[begin : begin + _BLOCK], current))
        mean = sums.likelihood / sums.rows
        if mean - previous < tolerance or step == steps:
            return current, mean, step, mean - previous < tolerance
        current = maximize(sums, ridge)
        previous = mean
        step = step + 1


def _from_assignments(x: F32, assignments: NDArray[np.int64], k: int, ridge: float) -> Gaussians:
    """Fit a Gaussian to each cluster's rows; an empty cluster gets that of all rows."""
    sums = Sums(
        len(x), 0.0, np.zeros(k), np.zeros((k, x.shape[1])), np.zeros((k, *2 * x.shape[1:]))
    )
    for j in range(k):
        rows = (x[assignments == j] if np.any(assignments == j) else x).astype(np.float64)
        sums.weights[j] = len(rows)
        sums.first[j] = rows.sum(axis=0)
        sums.second[j] = rows.T @ rows
    return maximize(sums, ridge)


def _k_means_plus_plus(x: F32, k: int, rng: np.random.Generator) -> F32:
    """k-means++ initialization: k rows far from each other, float32 [k, d]."""
    drawn = [int(rng.integers(len(x)))]
    distances = np.full(len(x), np.inf)
    while len(drawn) < k:
        offsets = x - x[drawn[-1]]
        distances = np.minimum(distances, np.einsum("nd,nd->n", offsets, offsets))
        share = distances / distances.sum() if distances.sum() else np.full(len(x), 1.0 / len(x))
        drawn.append(int(rng.choice(len(x), p=share)))
    return x[drawn]


def _k_means(x: F32, means: F32) -> tuple[NDArray[np.int64], F32, float]:
    """Lloyd's algorithm: clusters, int64 [n], their means, and the sum of squared distances."""
    k = len(means)
    assignments = np.full(len(x), -1)
    for _ in range(_K_MEANS_STEPS):
        distances = np.einsum("kd,kd->k", means, means) - 2.0 * (x @ means.T)
        nearest = distances.argmin(axis=1)
        if np.array_equal(nearest, assignments):
            break
        assignments = nearest
        counts = np.bincount(assignments, minlength=k)[:, None]
        sums = np.eye(k, dtype=np.float32)[assignments].T @ x
        means = np.where(counts > 0, sums / np.maximum(counts, 1), means).astype(np.float32)
    return assignments, means, float(distances.min(axis=1).sum(dtype=np.float64))


@dataclass(frozen=True)
class Projection:
    """Principal components."""

    mean: F64  # float64 [d], mean of the fitted vectors
    axes: F64  # float64 [c, d], by descending variance; the largest entry of each is positive

    def project(self, vectors: NDArray[np.floating]) -> F32:
        """Project vectors [n, d] on the components: float32 [n, c]."""
        return np.asarray((vectors - self.mean) @ self.axes.T, np.float32)


def principal(vectors: NDArray[np.floating], components: int) -> Projection:
    """The first principal components of vectors [n, d] (Pearson, 1901)."""
    mean = vectors.mean(axis=0, dtype=np.float64)
    centered = vectors - mean
    _, axes = np.linalg.eigh(centered.T @ centered)
    first = axes.T[::-1][:components]
    # the sign of an eigenvector is arbitrary: make the largest entry positive
    signs = np.sign(first[np.arange(len(first)), np.abs(first).argmax(axis=1)])
    return Projection(mean, first * signs[:, None])


@dataclass(frozen=True)
class ClusterModel:
    """Fitted clusters: a mixture of Gaussians in principal components.

    Reference: Aharoni and Goldberg (2020), section 2.2.
    """

    projection: Projection
    mixture: Mixture

    @property
    def k(self) -> int:
        """Number of clusters."""
        return len(self.mixture.gaussians.weights)

    def shares(self, vectors: NDArray[np.floating]) -> F32:
        """Posterior probability of each cluster for vectors [n, d]: float32 [n, k]."""
        return self.mixture.shares(self.projection.project(vectors))


def fit_cluster_model(
    vectors: NDArray[np.floating], k: int, *, components: int, steps: int, seed: int
) -> ClusterModel:
    """Fit k clusters to vectors [n, d], in descending order of weight; see `fit_mixture`."""
    n, d = vectors.shape
    projection = principal(vectors, max(1, min(components or d, d, n - 1)))
    projected = projection.project(vectors)
    return ClusterModel(projection, fit_mixture(projected, k, seed=seed, steps=steps, ridge=_RIDGE))


def write_cluster_model(path: Path, model: ClusterModel) -> None:
    """Write fitted clusters to one safetensors file."""
    mixture = model.mixture
    gaussians = model.mixture.gaussians
    arrays = {
        **vars(model.projection),
        **vars(gaussians),
        "center": mixture.center,
        "scale": mixture.scale,
    }
    plain = {name: getattr(mixture, name) for name in _PLAIN}
    write_arrays(path, arrays, plain)


def read_cluster_model(path: Path) -> ClusterModel:
    """Read what `write_cluster_model` wrote."""
    arrays, plain = read_arrays(path)
    gaussians = Gaussians(arrays["weights"], arrays["means"], arrays["factors"])
    mixture = Mixture(gaussians, arrays["center"], arrays["scale"], **plain)
    return ClusterModel(Projection(arrays["mean"], arrays["axes"]), mixture)


class ClustersFolder(OutFolder):
    """The folder of the clusters found in a corpus."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.model = path / "domains.safetensors"
        self.sample = path / "sample.parquet"
        self.assigned = path / "assigned"
        self.tables = [path / f"{name}.csv" for name in ("clusters", "tried", "points")]
        self.drawn = self.work / "drawn"
        self.fits = self.work / "fits"

    def _has_work(self) -> bool:
        return self.fits.is_dir() or self.finished() is not None

    def _clear(self) -> None:
        super()._clear()
        remove(self.drawn, self.fits, self.assigned, self.model, self.sample, *self.tables)

    def require(self) -> dict[str, Any]:
        """The manifest; raises `InputError` if there are no finished clusters."""
        manifest = self.finished()
        if manifest is None or manifest.get("command") != "clusters" or not self.model.exists():
            raise InputError(
                f"{self.path} holds no clusters. Run `corpusfit clusters` for this folder first."
            )
        return manifest


def assigned_path(folder: Path, shard: int) -> Path:
    """File of a shard's assignments."""
    return folder / f"part-{shard:05d}.parquet"


@dataclass(frozen=True)
class Assign(Job[int, int]):
    """Write cluster shares of a stored shard's segments; returns the number of segments."""

    model: Path  # file of the fitted clusters
    store: Path  # store of the corpus's vectors
    names: tuple[str, ...]
    gamma: int  # units per segment
    out: Path

    def start(self) -> Callable[[int], int]:
        """Open the clusters and the store."""
        model = read_cluster_model(self.model)
        store = VectorStore(self.store)

        def work(shard: int) -> int:
            units, vectors, tally = store.read(shard)
            segments = join_units(units, self.gamma)
            shares = model.shares(vectors).astype(np.float64)
            if len(segments):  # of a segment, the mean of its units
                sums = np.add.reduceat(shares, segments.first_unit, axis=0)
                shares = sums / segments.units[:, None]
            shares = shares.astype(np.float32)
            names = Tally.stored(tally).sources(self.names)
            table = pa.table(
                {
                    "source": source_column(names, segments.row),
                    "row": column(in_file(segments.row), pa.int64()),
                    "segment": column(segments.segment, pa.int32()),
                    "start": column(segments.start, pa.int64()),
                    "end": column(segments.end, pa.int64()),
                    "tokens": column(segments.tokens, pa.int64()),
                    # numbered from 1, as everywhere a reader sees clusters
                    "cluster": column(shares.argmax(axis=1).astype(np.int32) + 1, pa.int32()),
                    "shares": pa.FixedSizeListArray.from_arrays(
                        column(shares.ravel(), pa.float32()), model.k
                    ),
                }
            )
            write_parquet(assigned_path(self.out, shard), table)
            return len(segments)

        return work


def read_shares(path: Path) -> NDArray[np.float32]:
    """The shares of a part's segments: float32 [m, k]."""
    opened = path if is_local(path) else pa.BufferReader(path.read_bytes())
    shares = columns_of(pq.ParquetFile(opened), ["shares"]).column("shares").combine_chunks()
    flat = np.asarray(shares.flatten().to_numpy(), np.float32)
    return flat.reshape(-1, shares.type.list_size)


def read_clusters(path: Path) -> NDArray[np.int64]:
    """The main cluster of a part's segments, from 0: int64 [m]."""
    return np.asarray(read_shares(path).argmax(axis=1), np.int64)
