"""Fit clusters to the vectors of a sample."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.artifacts import read_arrays
from corpusfit.core.engine import Job
from corpusfit.domains.describe import confusion
from corpusfit.scoring.clusters import fit_cluster_model, read_cluster_model, write_cluster_model
from corpusfit.selection.fit import Sample


@dataclass(frozen=True)
class Fitted:
    """A fit of k clusters."""

    k: int
    seed: int
    counts: NDArray[np.int64]  # int64 [k, t], units by cluster and known domain
    likelihood: float  # mean log-likelihood per unit in nats
    bic: float  # Bayesian information criterion
    converged: bool


@dataclass(frozen=True)
class FitClusters(Job[tuple[int, int], Fitted]):
    """Fit k clusters with a seed to a sample's vectors and store them; a stored fit is reused.

    Reference: Aharoni and Goldberg (2020), sections 2.2 to 2.4.
    """

    sample: Sample
    labels: tuple[int, ...]  # the number of each unit's known domain
    t: int  # number of known domains
    components: int  # principal components; 0 for all dimensions
    steps: int  # most steps of EM
    out: Path

    def path(self, k: int, seed: int) -> Path:
        return self.out / f"{k}-{seed}.safetensors"

    def start(self) -> Callable[[tuple[int, int]], Fitted]:
        vectors = read_arrays(self.sample.vectors)[0]["vectors"]
        labels = np.array(self.labels, np.int64)

        def work(piece: tuple[int, int]) -> Fitted:
            k, seed = piece
            path = self.path(k, seed)
            if path.exists():
                fit = read_cluster_model(path)
            else:
                fit = fit_cluster_model(
                    vectors, k, seed=seed, components=self.components, steps=self.steps
                )
                write_cluster_model(path, fit)
            counts = confusion(fit.shares(vectors).argmax(axis=1), labels, k, self.t)
            mixture = fit.mixture
            return Fitted(k, seed, counts, mixture.likelihood, mixture.bic(), mixture.converged)

        return work
