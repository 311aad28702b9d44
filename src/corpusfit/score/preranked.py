"""Which texts of the corpus may stand for what the target is not.

What: the two thirds that Domain-Cosine ranks lowest.
Why: a corpus sample holds texts of the target's domain; taken as negatives they teach a classifier
to turn its own domain away.
Trade-off: where hardly any of the corpus is of the domain, it takes away the negatives that would
teach most.
Reference: Aharoni and Goldberg (2020), Unsupervised Domain Clusters, section 4.1, "Negative
Sampling with Pre-ranking".
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corpusfit.kernels.vectors import products
from corpusfit.score.blocks import plain_rows
from corpusfit.types import Vectors


def least_like(inside: Vectors, outside: Vectors) -> NDArray[np.int64]:
    """The places of the two thirds of `outside` least like the mean of `inside` by cosine.

    Args:
        inside: float32 [n, d], rows of length 1.
        outside: float32 [m, d], the same.

    Returns:
        int64, at least one place, least like first.
    """
    mean = plain_rows(inside.mean(axis=0, keepdims=True, dtype=np.float64))
    order = np.argsort(products(outside, mean)[:, 0], kind="stable")
    return order[: -(-2 * len(order) // 3)]
