"""`cluster_ratio`: how much more frequent a text's clusters are in the target than in the corpus.

What: the background is clustered by k-means, coarsely and finely. A text's score is the mean over
the clusterings of the log ratio of its cluster's share of the target to its share of the corpus.
Why: a density ratio without a model of either density: several topics of a target stay separate,
where a mean would blur them, and topics that fill the corpus count less.
Trade-off: each text belongs to every cluster to some degree, most to the nearest; with hard
assignment all texts of a cluster would tie, and average precision was lower (benchmarks/log.md).
Clusters depend on the background and the random seed, never on the target, so another target needs
only new ratios (`for_target`). Still, every fit clusters again, which takes seconds. Differences
finer than the corpus's clusters are found only coarsely.
Reference: Grangier, Fan, Seto and Ablin (2024), Task-Adaptive Pretrained Language Models via
Clustered-Importance Sampling (CRISP, arXiv 2410.03735): importance weights by cluster.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.contracts import (
    Method,
    Scorer,
    bad_setting,
    blockwise,
    lengths,
    plain_rows,
    products,
    require_fit,
    setting,
)

_ROWS = 256
_TEXTS = 10
"""Fewest background texts per cluster, on average."""
_STEPS = 15
"""Most steps of k-means."""


@dataclass(frozen=True)
class ClusterRatioScorer(Scorer[NDArray[np.float32]]):
    """Clusters of all clusterings, concatenated."""

    centroids: NDArray[np.float32]  # [k, d], of length 1
    # [k], log of the target's share over the corpus's share, both smoothed
    ratio: NDArray[np.float32]
    corpus: NDArray[np.float64]  # [k], the corpus's share, smoothed
    added: tuple[float, ...]  # smoothing added to the shares, for each clustering
    sizes: tuple[int, ...]  # number of clusters in each clustering; they add up to k
    temperatures: tuple[float, ...]  # of each clustering; see `memberships`

    def __post_init__(self) -> None:
        k = len(self.centroids)
        require_fit(
            self.centroids.ndim == 2,
            self.ratio.shape == self.corpus.shape == (k,),
            sum(self.sizes) == k and min(self.sizes) > 0,
            len(self.sizes) == len(self.temperatures) == len(self.added),
        )

    def for_target(self, target: NDArray[np.float32]) -> ClusterRatioScorer:
        """The same clusters with the ratios of another target, float32 [n, d]; n above 0."""
        near = plain_rows(target) / lengths(plain_rows(target))
        ends = np.cumsum(self.sizes)
        ratios = []
        parts = zip(ends, self.sizes, self.temperatures, self.added, strict=True)
        for end, size, temperature, added in parts:
            part = slice(end - size, end)
            p = _shares(near, self.centroids[part], temperature) + added
            ratios.append(np.log(p / self.corpus[part]).astype(np.float32))
        return dataclasses.replace(self, ratio=np.concatenate(ratios))

    def score(self, batch: NDArray[np.float32]) -> NDArray[np.float32]:
        """Score float32 [n, d]: a mean of log ratios, float32 [n]; 0 is the corpus's average.

        Clusters are weighted by memberships, clusterings equally.
        """
        ends = np.cumsum(self.sizes)

        def block(x: NDArray[np.float32]) -> NDArray[np.float32]:
            cosines = products(x, self.centroids) / lengths(x)
            total = np.zeros(len(x), np.float32)
            for end, size, temperature in zip(ends, self.sizes, self.temperatures, strict=True):
                part = slice(end - size, end)
                total += (memberships(cosines[:, part], temperature) * self.ratio[part]).sum(axis=1)
            return total / np.float32(len(self.sizes))

        return blockwise(batch, self.centroids.shape[1], block, _ROWS)


def memberships(cosines: NDArray[np.float32], temperature: float) -> NDArray[np.float32]:
    """Membership of each text in each cluster, float32 [n, k]; each row sums to 1.

    Proportional to exp(cosine / temperature); temperature 0 assigns only the nearest cluster.
    """
    behind = cosines - cosines.max(axis=1, keepdims=True)
    if temperature == 0.0:
        belongs = (behind == 0.0).astype(np.float32)
    else:
        belongs = np.exp(behind / np.float32(temperature))
    return np.asarray(belongs / belongs.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class ClusterRatio(Method[NDArray[np.float32]]):
    """Log ratio of the target's to the corpus's share of a text's clusters.

    Attributes:
        clusters: Numbers of clusters, one per clustering, separated by commas; at most one cluster
            per ten background texts (default: 32,64,128,256).
        softness: Temperature of memberships, in standard deviations of a background text's cosines
            to the centroids; 0 assigns each text to its nearest cluster only. Higher values rank
            better if much of the corpus is like the target, lower values if little is (default:
            0.35).
        smoothing: Share spread evenly over the clusters and added to the shares of target and
            corpus, each of which sums to 1 (default: 3.0).
    """

    reads = "embedding"
    family = "cluster"
    scorer: ClassVar[type] = ClusterRatioScorer
    cost: ClassVar[str] = "120,000/s"

    clusters: str = "32,64,128,256"
    softness: float = setting(0.35, minimum=0)
    smoothing: float = setting(3.0, above=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not all(k.strip().isdecimal() and int(k) > 0 for k in self.clusters.split(",")):
            allowed = "whole numbers above 0, separated by commas"
            raise bad_setting("`method.clusters`", allowed, self.clusters)

    def fit(
        self, target: NDArray[np.float32], background: NDArray[np.float32], *, seed: int
    ) -> ClusterRatioScorer:
        """Cluster the background's directions, then count both sets in the clusters."""
        far = plain_rows(background) / lengths(plain_rows(background))
        centroids = []
        shares = []
        added = []
        temperatures = []
        for k in map(int, self.clusters.split(",")):
            rng = np.random.default_rng(seed % 2**64)
            max_centers = max(1, len(far) // _TEXTS)
            centers = spherical_k_means(far, min(k, max_centers), rng)
            temperature = self.softness * _spread(far, centers)
            centroids.append(centers)
            added.append(self.smoothing / len(centers))
            shares.append(_shares(far, centers, temperature) + added[-1])
            temperatures.append(temperature)
        corpus = np.concatenate(shares)
        return ClusterRatioScorer(
            np.concatenate(centroids),
            np.zeros(len(corpus), np.float32),
            corpus,
            tuple(added),
            tuple(len(centers) for centers in centroids),
            tuple(temperatures),
        ).for_target(target)


def _spread(x: NDArray[np.float32], centroids: NDArray[np.float32]) -> float:
    parts = [part.std(axis=1, dtype=np.float64) for part in _cosines(x, centroids)]
    return float(np.concatenate(parts).mean())


def _shares(
    x: NDArray[np.float32], centroids: NDArray[np.float32], temperature: float
) -> NDArray[np.float64]:
    """Each cluster's share of the rows by membership, float64 [k]."""
    parts = (
        memberships(part, temperature).sum(axis=0, dtype=np.float64)
        for part in _cosines(x, centroids)
    )
    return np.asarray(sum(parts) / len(x))


def _cosines(x: NDArray[np.float32], centroids: NDArray[np.float32]) -> list[NDArray[np.float32]]:
    """Cosines to the centroids, block by block."""
    return [products(x[i : i + _ROWS], centroids) for i in range(0, len(x), _ROWS)]


def spherical_k_means(
    x: NDArray[np.float32], k: int, rng: np.random.Generator
) -> NDArray[np.float32]:
    """The directions of k clusters; the same for any number of threads.

    Plain Lloyd steps from one start. Reference: Dhillon and Modha (2001), Concept Decompositions
    for Large Sparse Text Data; Arthur and Vassilvitskii (2007), k-means++.

    Args:
        x: float32 [n, d], rows of length 1 (or zero); n at least 1.
        k: clusters, at least 1; fewer if there are fewer different rows.
        rng: chooses the start.

    Returns:
        float32 [at most k, d], each the mean of its rows, scaled to length 1. At most 15 steps.
    """
    # choose rows far from each other, in proportion to 1 - cosine to the nearest chosen row
    chosen_rows = [int(rng.integers(len(x)))]
    far = np.full(len(x), np.inf)
    while len(chosen_rows) < k:
        last = 1.0 - products(x, x[chosen_rows[-1:]])[:, 0].astype(np.float64)
        far = np.minimum(far, np.where(last > 1e-6, last, 0.0))
        if not far.any():
            break
        up_to = np.cumsum(far)
        chosen_rows.append(int(np.searchsorted(up_to, rng.random() * up_to[-1], side="right")))
    centers = x[chosen_rows].copy()
    before = np.full(len(x), -1)
    for _ in range(_STEPS):
        cluster_of = products(x, centers).argmax(axis=1)
        if (cluster_of == before).all():
            break
        # the sum of each cluster's rows, in the rows' order
        order = np.argsort(cluster_of, kind="stable")
        clusters, first = np.unique(cluster_of[order], return_index=True)
        centers[clusters] = np.add.reduceat(x[order], first, axis=0, dtype=np.float64)
        centers /= lengths(centers)
        before = cluster_of
    return centers
