"""Relevance weights from scores, and the keys of weighted draws."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.kernels.chance import place_keys, uniform


@dataclass(frozen=True, slots=True)
class Moments:
    """Mean and standard deviation of the scores of all segments."""

    mean: float
    deviation: float


def moments(parts: Iterable[NDArray[np.float32]]) -> Moments:
    """Mean and population standard deviation over all parts (Chan et al. 1979, pairwise).

    Sums run in float64 in the order of the parts, so the result is the same for any number of
    workers.
    """
    n, mean, squares = 0, 0.0, 0.0
    for part in parts:
        if not len(part):
            continue
        wide = part.astype(np.float64)
        part_mean = float(wide.mean())
        delta = part_mean - mean
        both = n + len(wide)
        mean += delta * len(wide) / both
        squares += float(((wide - part_mean) ** 2).sum()) + delta**2 * n * len(wide) / both
        n = both
    return Moments(mean, float(np.sqrt(squares / n)) if n else 0.0)


def relevance(
    scores: NDArray[np.float32], over: Moments, *, c: float, alpha: float
) -> NDArray[np.float32]:
    """float32 [n] in [0, 1]: lambda = 1 / (1 + exp(-C (alpha - A))).

    A is the anomaly score: the negated score, normalised to mean 0 and variance 1 over the corpus's
    segments. If all scores of a corpus are equal, A = 0 everywhere.

    Reference: TADPOLE, section 3.2 and Algorithm 1.
    """
    spread = over.deviation or 1.0
    anomaly = (over.mean - scores.astype(np.float64)) / spread
    exponent = np.clip(c * (alpha - anomaly), -700, 700)
    return (1.0 / (1.0 + np.exp(-exponent))).astype(np.float32)


def importance(scores: NDArray[np.float32], highest: float) -> NDArray[np.float32]:
    """float32 [n] in [0, 1]: importance weights from their logarithms; the highest is 1.

    Reference: Xie et al. 2023 (DSIR), section 3.
    """
    return np.exp(scores.astype(np.float64) - highest).astype(np.float32)


def draw_keys(logs: NDArray[Any], *, seed: int, part: int) -> NDArray[np.float32]:
    """float32 [n]: log weight [n] plus Gumbel noise; the k largest are a weighted draw of k.

    The noise is a hash of seed, part and position, so it does not depend on which worker computes
    it.

    Reference: Gumbel top-k (Vieira 2014; Kool et al. 2019).
    """
    noise = uniform(place_keys(seed, part, len(logs)))
    return (logs.astype(np.float64) - np.log(-np.log(noise))).astype(np.float32)
