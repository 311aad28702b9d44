"""Domains found in a corpus: principal components and a mixture, stored as one file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.artifacts import read_arrays, write_arrays
from corpusfit.domains.mixture import Mixture, fit_mixture
from corpusfit.kernels.gaussians import Gaussians

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]


@dataclass(frozen=True)
class Projection:
    """Principal components.

    Attributes:
        mean: float64 [d], mean of the fitted vectors.
        axes: float64 [c, d], by descending variance; the largest entry of each is positive.
    """

    mean: F64
    axes: F64

    def place(self, vectors: NDArray[np.floating]) -> F32:
        """Project vectors [n, d] on the components: float32 [n, c]."""
        return np.asarray((vectors - self.mean) @ self.axes.T, np.float32)


def principal(vectors: NDArray[np.floating], components: int) -> Projection:
    """The first principal components of vectors [n, d] (Pearson, 1901)."""
    mean = vectors.mean(axis=0, dtype=np.float64)
    centred = vectors - mean
    _, axes = np.linalg.eigh(centred.T @ centred)
    first = axes.T[::-1][:components]
    signs = np.sign(first[np.arange(len(first)), np.abs(first).argmax(axis=1)])
    return Projection(mean, first * signs[:, None])


@dataclass(frozen=True)
class Domains:
    """A mixture of Gaussians in principal components (Aharoni and Goldberg, 2020, section 2.2)."""

    projection: Projection
    mixture: Mixture

    @property
    def k(self) -> int:
        """Number of domains."""
        return len(self.mixture.gaussians.weights)

    def shares(self, vectors: NDArray[np.floating]) -> F32:
        """Posterior probability of each domain for vectors [n, d]: float32 [n, k]."""
        return self.mixture.shares(self.projection.place(vectors))

    def ellipses(self, points: int = 48) -> list[F64]:
        """The ellipse [points, 2] of each domain, two standard deviations from its mean.

        The axes are the first two components; with a single one, all points are on a line.

        Reference: Aharoni and Goldberg (2020), Figure 3.
        """
        m = self.mixture
        factors = np.linalg.inv(m.gaussians.factors)  # covariance = factor.T^-1 factor^-1
        angles = np.linspace(0.0, 2.0 * np.pi, points)
        circle = np.stack([np.cos(angles), np.sin(angles)])
        found = []
        for mean, factor in zip(m.gaussians.means, factors, strict=True):
            spread = (factor.T @ factor)[:2, :2] * np.outer(m.scale[:2], m.scale[:2])
            values, vectors = np.linalg.eigh(spread)
            outline_offsets = (
                2.0 * (vectors * np.sqrt(np.maximum(values, 0.0))) @ circle[: len(values)]
            )
            centre = mean[:2] * m.scale[:2] + m.centre[:2]
            outline = (centre[:, None] + outline_offsets).T
            found.append(np.pad(outline, ((0, 0), (0, 2 - outline.shape[1]))))
        return found


def fit_domains(
    vectors: NDArray[np.floating], k: int, *, components: int, steps: int, seed: int
) -> Domains:
    """Fit k domains to vectors [n, d], in descending order of weight; raises as `fit_mixture`."""
    n, d = vectors.shape
    projection = principal(vectors, max(1, min(components or d, d, n - 1)))
    projected = projection.place(vectors)
    return Domains(projection, fit_mixture(projected, k, seed=seed, steps=steps, ridge=_RIDGE))


_RIDGE = 1e-4
"""Ridge in units of a dimension's variance; near-duplicates would make a degenerate cluster."""


def write_domains(path: Path, domains: Domains) -> None:
    """Write domains to one safetensors file."""
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
    """Read what `write_domains` wrote."""
    arrays, plain = read_arrays(path)
    gaussians = Gaussians(arrays["weights"], arrays["means"], arrays["factors"])
    mixture = Mixture(gaussians, arrays["centre"], arrays["scale"], **plain)
    return Domains(Projection(arrays["mean"], arrays["axes"]), mixture)
