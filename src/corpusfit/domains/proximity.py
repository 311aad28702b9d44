"""Proximity of domains: the cosine between their centroids."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def proximity(
    vectors: NDArray[np.floating], domains: NDArray[np.int64], t: int
) -> NDArray[np.float64]:
    """Cosines between the mean vectors of t domains: float64 [t, t].

    The nearer two centroids, the better a model of one domain does on the other.

    Reference: Aharoni and Goldberg (2020), section 3.2 and Figure 4.
    """
    sums = np.zeros((t, vectors.shape[1]))
    np.add.at(sums, domains, vectors)
    means = sums / np.bincount(domains, minlength=t)[:, None]
    means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)
    return np.asarray(means @ means.T, np.float64)
