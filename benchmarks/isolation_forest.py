"""Scoring with isolation forests on one thread: corpusfit, scikit-learn, isotree.

100 trees on 256 of 3,300 vectors, 768 dimensions. Reports rows per second and the rank
correlation. corpusfit and scikit-learn use the same trees; isotree grows its own, so its ranks
agree only as far as those of two random forests.

Run: python benchmarks/isolation_forest.py
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numba
import numpy as np
from isotree import IsolationForest as IsotreeForest
from scipy.stats import spearmanr
from sklearn.ensemble import IsolationForest as SklearnForest
from threadpoolctl import threadpool_limits

from corpusfit.scoring.methods.isolation_forest import IsolationForest
from harness import paired

WIDTH = 768
TARGET = 3000
ROWS = 20_000
TREES = 100
SAMPLE = 256


def vectors(rng: np.random.Generator, n: int, mix: np.ndarray, shift: float) -> np.ndarray:
    """Correlated vectors, like embeddings; float32 [n, 768]."""
    return (rng.standard_normal((n, len(mix))) @ mix + shift).astype(np.float32)


def main() -> None:
    """Compare with scikit-learn, then with isotree."""
    numba.set_num_threads(1)
    rng = np.random.default_rng(0)
    mix = rng.standard_normal((100, WIDTH)) / 10
    target = vectors(rng, TARGET, mix, 0.0)
    background = vectors(rng, TARGET, mix, 0.5)
    corpus = np.concatenate(
        [vectors(rng, ROWS // 2, mix, 0.0), vectors(rng, ROWS // 2, 1.3 * mix, 0.5)]
    )
    scorer = IsolationForest(trees=TREES, subsample=SAMPLE).fit(target, background, seed=0)
    chosen = np.sort(np.random.default_rng(0).choice(TARGET, TARGET // 10, replace=False))
    seen = np.concatenate([target, background[chosen]])
    sklearn = SklearnForest(n_estimators=TREES, max_samples=SAMPLE, n_jobs=1, random_state=0)
    sklearn.fit(seen)
    isotree = IsotreeForest(
        ntrees=TREES, sample_size=SAMPLE, ndim=1, missing_action="fail", nthreads=1, random_seed=0
    )
    isotree.fit(seen)
    note = (
        f"{ROWS} float32 rows, {WIDTH}-d, {TREES} trees of {SAMPLE}; one thread each; scoring only"
    )
    got = scorer.score(corpus)
    with threadpool_limits(1):
        for peer, answer in (
            ("scikit-learn", lambda: sklearn.score_samples(corpus)),
            ("isotree", lambda: -isotree.predict(corpus)),
        ):
            want = answer()
            agree = {"spearman": float(spearmanr(got, want).statistic)}
            if peer == "scikit-learn":
                agree["largest_difference"] = float(np.abs(got - want).max())
            name = f"isolation_forest_{peer.replace('-', '_')}"
            paired(
                name,
                lambda: scorer.score(corpus),
                answer,
                runs=7,
                note=f"ours against {peer}: {note}",
                work=ROWS,
                extra=agree,
            )
            print("   ", agree)


if __name__ == "__main__":
    main()
