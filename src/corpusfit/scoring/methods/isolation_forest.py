"""`isolation_forest`: hard to isolate by random splits, as the target is.

What: trees split a random feature at a random value; a text that needs many splits to be isolated
is where the target is dense.
Why: TADPOLE's choice among six detectors (section 3.1, Table 1, appendices C and D), and the
cheapest detector to score with.
Trade-off: splits are parallel to the axes, so structure along other directions is lost; with a
general sentence encoder the centroid methods rank better. scikit-learn grows the trees, which are
then stored as arrays, so that scoring needs neither scikit-learn nor its float64 input.
Reference: Liu, Ting and Zhou (2008), Isolation Forest; TADPOLE, Algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.settings import setting
from corpusfit.core.types import Reads, Vectors
from corpusfit.kernels.forest import complete_heap, fits, walk
from corpusfit.scoring.blocks import blockwise, plain_rows
from corpusfit.scoring.contract import Family, Method, Scorer, require_fit

_ROWS = 4096


def _average_path(n: NDArray[np.int64]) -> NDArray[np.float64]:
    """c(n), mean path length of an unsuccessful search among n, each 1 or more.

    By harmonic numbers, as in TADPOLE's appendix C; Liu and scikit-learn estimate them by
    log(n - 1) + 0.577, which gives 1.21 for c(3) in place of 1.67, and 10.245 for c(256) in place
    of 10.249.
    """
    harmonic = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, n.max()))])
    return 2.0 * harmonic[n - 1] - 2.0 * (n - 1.0) / n


@dataclass(frozen=True)
class IsolationForestScorer(Scorer[Vectors]):
    """Trees as complete heaps; see `kernels/forest.py`."""

    feature: NDArray[np.int32]  # [trees, 2^depth - 1]
    threshold: NDArray[np.float32]  # [trees, 2^depth - 1]
    path: NDArray[np.float32]  # [trees, 2^depth], splits to the leaf plus c(texts in it)
    normal: float  # sum over the trees of c(subsample)
    width: int

    def __post_init__(self) -> None:
        require_fit(fits(self.feature, self.threshold, self.path, self.width))

    def score(self, batch: Vectors) -> NDArray[np.float32]:
        """Score float32 [n, d]: Liu's anomaly score, negated, float32 [n] in (-1, 0)."""

        def block(x: Vectors) -> NDArray[np.float64]:
            cuts = walk(x, self.feature, self.threshold, self.path)
            return np.asarray(-np.exp2(-cuts / self.normal))

        return blockwise(batch, self.width, block, _ROWS)


@dataclass(frozen=True)
class IsolationForest(Method[Vectors]):
    """Isolation forest on the target and some background texts (TADPOLE, Algorithm 1).

    Attributes:
        trees: Number of trees (default: 100).
        subsample: Texts per tree, 2 to 4096; the depth is at most its logarithm (default: 256).
        background: Random corpus texts added to the target, as a share of its size, at most
            `fit.background` in all; 0 for none, as in TADPOLE's section 3.1 (default: 0.1).
    """

    reads: ClassVar[Reads] = "embedding"
    family: ClassVar[Family] = "detector"
    scorer: ClassVar[type] = IsolationForestScorer
    cost: ClassVar[str] = "1,300,000/s"

    trees: int = setting(100, minimum=1)
    subsample: int = setting(256, minimum=2, maximum=4096)
    background: float = setting(0.1, minimum=0, maximum=10)

    def fit(self, target: Vectors, background: Vectors, *, seed: int) -> IsolationForestScorer:
        """Grow the trees on the target and, unless the share is 0, one background text or more."""
        from sklearn.ensemble import IsolationForest as Grower

        wanted = max(1, round(self.background * len(target))) if self.background else 0
        count = min(len(background), wanted)
        chosen = np.random.default_rng(seed % 2**64).choice(len(background), count, replace=False)
        x = plain_rows(np.concatenate([target, background[np.sort(chosen)]]))
        grown = Grower(
            n_estimators=self.trees,
            max_samples=min(self.subsample, len(x)),
            random_state=seed % 2**32,
        ).fit(x)
        return _laid_out([e.tree_ for e in grown.estimators_], grown.max_samples_, x.shape[1])


def _laid_out(trees: list[Any], subsample: int, width: int) -> IsolationForestScorer:
    depth = max(1, *(t.max_depth for t in trees))
    heaps = []
    for t in trees:
        cuts = np.zeros(t.node_count)
        # scikit-learn numbers parents before their children
        for node in np.flatnonzero(t.children_left >= 0):
            cuts[t.children_left[node]] = cuts[t.children_right[node]] = cuts[node] + 1
        path = cuts + _average_path(t.n_node_samples)
        arrays = (t.children_left, t.children_right, t.feature, t.threshold, path)
        heaps.append(complete_heap(*arrays, depth=depth))
    features, thresholds, paths = zip(*heaps, strict=True)
    normal = len(trees) * float(_average_path(np.array(subsample)))
    stacks = np.stack(features), np.stack(thresholds), np.stack(paths)
    return IsolationForestScorer(*stacks, normal, width)
