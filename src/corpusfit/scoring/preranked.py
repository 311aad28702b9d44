"""Negative sampling with pre-ranking: background texts that are unlike the target."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.types import Vectors
from corpusfit.kernels.vectors import products
from corpusfit.scoring.blocks import plain_rows


def least_similar(inside: Vectors, outside: Vectors) -> NDArray[np.int64]:
    """The positions of the two thirds of `outside` least similar to the mean of `inside` by cosine.

    A corpus sample holds texts of the target's domain; as negatives they would teach a classifier
    to reject its own domain. If hardly any of the corpus is of the domain, pre-ranking removes the
    most informative negatives.

    Reference: Aharoni and Goldberg (2020), Unsupervised Domain Clusters, section 4.1, "Negative
    Sampling with Pre-ranking".
    """
    mean = plain_rows(inside.mean(axis=0, keepdims=True, dtype=np.float64))
    order = np.argsort(products(outside, mean)[:, 0], kind="stable")
    return order[: -(-2 * len(order) // 3)]
