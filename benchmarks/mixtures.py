"""Fitting Gaussian mixtures with full covariance on one thread: corpusfit and scikit-learn.

Reports seconds of a whole fit including the start, log-likelihood, and peak memory of the process
with the rows. Rows are synthetic: more clouds than components, with heavier tails than a
Gaussian, as in embeddings. scikit-learn gets the start that corpusfit computes, so that both
reach the same likelihood; the time of k-means counts for corpusfit only. scikit-learn gets
float64: in float32 it fails on some of these rows (1.9.0: "ill-defined empirical covariance").

Run: python benchmarks/mixtures.py [--rows 300000] [--runs 3] [--k 5 15]
"""

from __future__ import annotations

import argparse
import os
import resource

os.environ.setdefault("OMP_NUM_THREADS", "1")

import multiprocessing as mp

import numpy as np
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

from corpusfit.scoring.clusters import fit_mixture
from harness import paired

WIDTH = 50
CLOUDS = 12


def rows_of(n: int) -> np.ndarray:
    """Clouds of different size and shape: float32 [n, 50]."""
    rng = np.random.default_rng(0)
    sizes = rng.multinomial(n, rng.dirichlet(np.full(CLOUDS, 3.0)))
    x = np.empty((n, WIDTH), np.float32)
    begin = 0
    for size in sizes:
        shape = np.eye(WIDTH) + rng.normal(size=(WIDTH, WIDTH)) * 0.1
        center = rng.normal(size=WIDTH)
        for at in range(begin, begin + size, 50_000):
            rest = min(50_000, begin + size - at)
            tail = np.sqrt(6.0 / rng.chisquare(6.0, rest))[:, None]  # Student's t
            x[at : at + rest] = (rng.normal(size=(rest, WIDTH)) * tail) @ shape + center
        begin += size
    return x[rng.permutation(n)]


def ours(x: np.ndarray, k: int) -> float:
    """Mean log-likelihood in nats per row."""
    return fit_mixture(x, k, seed=0).likelihood


def theirs(x: np.ndarray, start: GaussianMixture) -> float:
    """Mean log-likelihood of scikit-learn's mixture."""
    return float(start.fit(x).lower_bound_)


def wide(x: np.ndarray, kind: str) -> np.ndarray:
    """The rows in the type that a side uses."""
    return x if kind == "ours" else x.astype(np.float64)


def start_of(x: np.ndarray, k: int) -> GaussianMixture:
    """scikit-learn's mixture with the start of corpusfit's."""
    found = fit_mixture(x, k, seed=0, steps=0)
    of = found.gaussians
    scale = found.scale
    factors = of.factors / scale[:, None]
    return GaussianMixture(
        k,
        max_iter=150,
        weights_init=of.weights / of.weights.sum(),
        means_init=of.means * scale + found.center,
        precisions_init=factors @ factors.transpose(0, 2, 1),
    )


def peak(n: int, k: int, kind: str) -> tuple[float, float, float]:
    """In a separate process: likelihood, MB with only the rows, peak MB."""
    start = start_of(rows_of(n), k)
    x = wide(rows_of(n), kind)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    with threadpool_limits(1):
        likelihood = ours(x, k) if kind == "ours" else theirs(x, start)
    return likelihood, before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Compare for each k, after measuring memory."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--k", type=int, nargs="+", default=[5, 15])
    asked = parser.parse_args()
    x = rows_of(asked.rows)
    for k in asked.k:
        extra = {}
        for kind in ("ours", "scikit-learn"):
            with mp.get_context("spawn").Pool(1) as pool:
                likelihood, before, most = pool.apply(peak, (asked.rows, k, kind))
            extra[kind] = {"likelihood": likelihood, "rows_mb": before, "peak_mb": most}
            print(
                f"    {kind}: {likelihood:.3f} nats per row, {most:,.0f} MB (rows: {before:,.0f})"
            )
        with threadpool_limits(1):
            start = start_of(x, k)
            double = x.astype(np.float64)
            paired(
                f"mixtures_{asked.rows}_k{k}",
                lambda k=k: ours(x, k) and None,
                lambda start=start, double=double: theirs(double, start) and None,
                runs=asked.runs,
                note=f"a fit from one start, {asked.rows} x {WIDTH}, k = {k}, one thread each",
                work=asked.rows,
                extra=extra,
            )


if __name__ == "__main__":
    main()
