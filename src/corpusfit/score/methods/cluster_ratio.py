"""`cluster_ratio`: how much commoner the text's clusters are in the target than in the corpus.

What: the background is clustered by k-means, coarsely and finely; a text scores the mean over the
clusterings of the log of its cluster's share of the target over its share of the corpus.
Why: a density ratio without a model of either: several topics in a target stay apart, where its
mean would blur them, and what the corpus is full of counts for less.
Trade-off: a text belongs a little to every cluster, most to the nearest; otherwise all texts of a
cluster would tie, and average precision was lower (docs/log.md). Clusters come from the background
and the seed alone, never from the target: with another target the centroids are the same and only
one number a cluster is new (`for_target`). Every fit still clusters anew, in seconds; nothing is
kept between runs. A cluster is what the corpus groups together, so a target finer than that is
found coarsely.
Reference: Grangier, Fan, Seto and Ablin (2024), Task-Adaptive Pretrained Language Models via
Clustered-Importance Sampling (CRISP, arXiv 2410.03735): importance weights by cluster.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.errors import bad_setting
from corpusfit.kernels.spherical import spherical_k_means
from corpusfit.kernels.vectors import lengths, products
from corpusfit.score.blocks import blockwise, plain_rows
from corpusfit.score.contract import Family, Method, Scorer
from corpusfit.types import Reads, Vectors

_ROWS = 256
_TEXTS = 10
"""Background texts that a cluster holds on average, at least."""


@dataclass(frozen=True)
class ClusterRatioScorer(Scorer[Vectors]):
    """Clusters of all clusterings, one clustering after the other.

    Attributes:
        centroids: float32 [k, d], at length one.
        ratio: float32 [k], log of the target's share over the corpus's, both smoothed.
        corpus: float64 [k], the corpus's share, smoothed.
        added: what smoothing adds to the shares, for each clustering.
        sizes: clusters in each clustering; they add up to k.
        temperatures: of each clustering; see `memberships`.
    """

    centroids: Vectors
    ratio: NDArray[np.float32]
    corpus: NDArray[np.float64]
    added: tuple[float, ...]
    sizes: tuple[int, ...]
    temperatures: tuple[float, ...]

    def for_target(self, target: Vectors) -> ClusterRatioScorer:
        """The same clusters, with the ratios of another target, float32 [n, d]; n above 0."""
        near = plain_rows(target) / lengths(plain_rows(target))
        ends, ratios = np.cumsum(self.sizes), []
        each = zip(ends, self.sizes, self.temperatures, self.added, strict=True)
        for end, size, temperature, added in each:
            of = slice(end - size, end)
            p = _shares(near, self.centroids[of], temperature) + added
            ratios.append(np.log(p / self.corpus[of]).astype(np.float32))
        return dataclasses.replace(self, ratio=np.concatenate(ratios))

    def score(self, batch: Vectors) -> NDArray[np.float32]:
        """Score float32 [n, d]: a mean of log ratios, float32 [n]; 0 is as common as in the corpus.

        By memberships within a clustering, with equal weight across clusterings.
        """
        ends = np.cumsum(self.sizes)

        def block(x: Vectors) -> NDArray[np.float32]:
            cosines = products(x, self.centroids) / lengths(x)
            total = np.zeros(len(x), np.float32)
            for end, size, temperature in zip(ends, self.sizes, self.temperatures, strict=True):
                of = slice(end - size, end)
                total += (memberships(cosines[:, of], temperature) * self.ratio[of]).sum(axis=1)
            return total / np.float32(len(self.sizes))

        return blockwise(batch, self.centroids.shape[1], block, _ROWS)


def memberships(cosines: NDArray[np.float32], temperature: float) -> NDArray[np.float32]:
    """How far each text belongs to each cluster, float32 [n, k], each row's sum being 1.

    In proportion to exp(cosine / temperature); to the nearest alone at temperature 0.
    """
    behind = cosines - cosines.max(axis=1, keepdims=True)
    if temperature == 0.0:
        belongs = (behind == 0.0).astype(np.float32)
    else:
        belongs = np.exp(behind / np.float32(temperature))
    return np.asarray(belongs / belongs.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class ClusterRatio(Method[Vectors]):
    """In clusters that the target fills more than the corpus does.

    Attributes:
        clusters: how many, by commas for several clusterings; in each, at most one for ten
            background texts.
        softness: the temperature of memberships, in standard deviations of a background text's
            cosines to the centroids; 0 puts each text into its nearest cluster alone. More ranks
            better where much of the corpus is like the target, worse where little is.
        smoothing: share that is spread evenly over the clusters and added to the target's and to
            the corpus's, which are 1 each.
    """

    reads: ClassVar[Reads] = "embedding"
    family: ClassVar[Family] = "cluster"
    scorer: ClassVar[type] = ClusterRatioScorer
    cost: ClassVar[str] = "120,000/s"

    clusters: str = "32,64,128,256"
    softness: float = 0.35
    smoothing: float = 3.0

    def __post_init__(self) -> None:
        if not all(k.strip().isdecimal() and int(k) > 0 for k in self.clusters.split(",")):
            allowed = "whole numbers above 0 with commas between"
            raise bad_setting("method.clusters", allowed, self.clusters)
        if not self.softness >= 0.0:
            raise bad_setting("method.softness", "at least 0", self.softness)
        if not self.smoothing > 0.0:
            raise bad_setting("method.smoothing", "above 0", self.smoothing)

    def fit(self, target: Vectors, background: Vectors, *, seed: int) -> ClusterRatioScorer:
        """Cluster the background's directions, then count both in the clusters."""
        far = plain_rows(background) / lengths(plain_rows(background))
        centroids, shares, added, temperatures = [], [], [], []
        for k in map(int, self.clusters.split(",")):
            chance = np.random.default_rng(seed % 2**64)
            most = max(1, len(far) // _TEXTS)
            found = spherical_k_means(far, min(k, most), chance)
            temperature = self.softness * _spread(far, found)
            centroids.append(found)
            added.append(self.smoothing / len(found))
            shares.append(_shares(far, found, temperature) + added[-1])
            temperatures.append(temperature)
        corpus = np.concatenate(shares)
        return ClusterRatioScorer(
            np.concatenate(centroids),
            np.zeros(len(corpus), np.float32),
            corpus,
            tuple(added),
            tuple(len(found) for found in centroids),
            tuple(temperatures),
        ).for_target(target)


def _spread(x: Vectors, centroids: Vectors) -> float:
    """Standard deviation of a row's cosines to the centroids, mean over rows at length one."""
    each = [part.std(axis=1, dtype=np.float64) for part in _cosines(x, centroids)]
    return float(np.concatenate(each).mean())


def _shares(x: Vectors, centroids: Vectors, temperature: float) -> NDArray[np.float64]:
    """Each cluster's share of the rows, float64 [k], by their memberships."""
    each = (
        memberships(part, temperature).sum(axis=0, dtype=np.float64)
        for part in _cosines(x, centroids)
    )
    return np.asarray(sum(each) / len(x))


def _cosines(x: Vectors, centroids: Vectors) -> list[NDArray[np.float32]]:
    """Cosines to the centroids, a block of rows after the other."""
    return [products(x[i : i + _ROWS], centroids) for i in range(0, len(x), _ROWS)]
