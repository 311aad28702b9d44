"""How near domains are to each other: the cosine between their centroids.

Why: the nearer two domains' centroids, the better a model of one does on the other; so it is a
first look at what may help what.
Trade-off: one direction stands for a whole domain, however wide.
Reference: Aharoni and Goldberg (2020), section 3.2 and Figure 4.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def proximity(
    vectors: NDArray[np.floating], domains: NDArray[np.int64], t: int
) -> NDArray[np.float64]:
    """Cosines between the means of t domains' vectors: float64 [t, t].

    Args:
        vectors: [n, d].
        domains: int64 [n], of which each is; every one of t occurs.
        t: how many domains.
    """
    sums = np.zeros((t, vectors.shape[1]))
    np.add.at(sums, domains, vectors)
    means = sums / np.bincount(domains, minlength=t)[:, None]
    means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)
    return np.asarray(means @ means.T, np.float64)
