"""Domains found in a corpus: the projection and the mixture, as one thing that can be stored.

What: says of any vector how much each domain explains it, and where it lies on a map.
Why: a corpus is told apart by what a sample of it taught, today or in another run.
Trade-off: principal components of the sample stand for those of the corpus.
Reference: Aharoni and Goldberg (2020), section 2.2 and Figure 3; Pearson (1901).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpusfit.artifacts import read_arrays, write_arrays
from corpusfit.explore.mixture import Mixture, fit_mixture
from corpusfit.kernels.gaussians import Gaussians

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]


@dataclass(frozen=True)
class Projection:
    """Principal components.

    Attributes:
        mean: float64 [d] of the vectors they were found in.
        axes: float64 [c, d], the direction of most variance first, with signs that do not vary.
    """

    mean: F64
    axes: F64

    def place(self, vectors: NDArray[np.floating]) -> F32:
        """Vectors [n, d] in these components: float32 [n, c]."""
        return np.asarray((vectors - self.mean) @ self.axes.T, np.float32)


def principal(vectors: NDArray[np.floating], components: int) -> Projection:
    """The first principal components of vectors [n, d]."""
    mean = vectors.mean(axis=0, dtype=np.float64)
    centred = vectors - mean
    _, axes = np.linalg.eigh(centred.T @ centred)
    first = axes.T[::-1][:components]
    signs = np.sign(first[np.arange(len(first)), np.abs(first).argmax(axis=1)])
    return Projection(mean, first * signs[:, None])


@dataclass(frozen=True)
class Domains:
    """A mixture in principal components."""

    projection: Projection
    mixture: Mixture

    @property
    def k(self) -> int:
        """How many."""
        return len(self.mixture.gaussians.weights)

    def shares(self, vectors: NDArray[np.floating]) -> F32:
        """How much each domain explains each vector [n, d]: float32 [n, k], adding up to one."""
        return self.mixture.shares(self.projection.place(vectors))

    def ellipses(self, points: int = 48) -> list[F64]:
        """Of each domain the ellipse [points, 2] two deviations from its mean, on the map.

        The map is the first two components (a single one lies on a line): what a Gaussian is in
        them is read off its parameters.
        """
        m = self.mixture
        factors = np.linalg.inv(m.gaussians.factors)  # covariance = factor.T^-1 factor^-1
        turn = np.linspace(0.0, 2.0 * np.pi, points)
        circle = np.stack([np.cos(turn), np.sin(turn)])
        found = []
        for mean, factor in zip(m.gaussians.means, factors, strict=True):
            spread = (factor.T @ factor)[:2, :2] * np.outer(m.scale[:2], m.scale[:2])
            values, vectors = np.linalg.eigh(spread)
            around = 2.0 * (vectors * np.sqrt(np.maximum(values, 0.0))) @ circle[: len(values)]
            centre = mean[:2] * m.scale[:2] + m.centre[:2]
            outline = (centre[:, None] + around).T
            found.append(np.pad(outline, ((0, 0), (0, 2 - outline.shape[1]))))
        return found


def fit_domains(
    vectors: NDArray[np.floating], k: int, *, components: int, steps: int, seed: int
) -> Domains:
    """Fit k domains to vectors [n, d], the largest first; raises as `fit_mixture`."""
    n, d = vectors.shape
    projection = principal(vectors, max(1, min(components or d, d, n - 1)))
    placed = projection.place(vectors)
    return Domains(projection, fit_mixture(placed, k, seed=seed, steps=steps, ridge=_RIDGE))


_RIDGE = 1e-4
"""Of a dimension's variance: texts that are nearly copies would else make a cluster of no width."""


def write_domains(path: Path, domains: Domains) -> None:
    """Store domains as one safetensors file."""
    mixture, gaussians = domains.mixture, domains.mixture.gaussians
    arrays = {
        **vars(domains.projection),
        **vars(gaussians),
        "centre": mixture.centre,
        "scale": mixture.scale,
    }
    plain = {name: getattr(mixture, name) for name in _PLAIN}
    write_arrays(path, arrays, plain)


_PLAIN = ("likelihood", "rows", "steps", "converged")


def read_domains(path: Path) -> Domains:
    """Read what `write_domains` wrote.

    Raises:
        ModelError: the file is not one of ours.
    """
    arrays, plain = read_arrays(path)
    gaussians = Gaussians(arrays["weights"], arrays["means"], arrays["factors"])
    mixture = Mixture(gaussians, arrays["centre"], arrays["scale"], **plain)
    return Domains(Projection(arrays["mean"], arrays["axes"]), mixture)
