"""How far rankings agree, and what share of texts is of the domain by their odds.

What: a weight for each of several rankings by the agreement of its top with the others' tops, and
the depth down to which they agree.
Why: nobody knows which ranking is right, but rankings with independent errors agree with each other
only as far as each of them is right.
Trade-off: rankings with the same errors (of similar methods) seem right, so the methods must be
unlike.
Reference: Parisi et al. (2014), Ranking and Combining Multiple Predictors without Labeled Data
(PNAS 111): the covariance of independent classifiers has rank one, and its leading eigenvector
holds their accuracies; Cohen (1960) for agreement beyond chance.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_ENOUGH = 0.9
"""Share of the highest agreement from which rankings count as agreeing."""


def class_share(odds: Array) -> float:
    """The positives' share among n texts, from their log odds at equal priors.

    By expectation maximization: the share is the mean probability under that share (Saerens,
    Latinne and Decaestecker 2002), between 1 / (2n) and 1 - 1 / (2n).
    """
    edge = 0.5 / len(odds)
    share = 0.5
    for _ in range(1_000):
        before = share
        share = float(_sigmoid(odds + np.log(share / (1.0 - share))).mean())
        share = min(max(share, edge), 1.0 - edge)
        if abs(share - before) < 1e-9:
            break
    return share


def _sigmoid(z: Array) -> Array:
    """1 / (1 + exp(-z)), without overflow."""
    small = np.exp(-np.abs(z))
    return np.asarray(np.where(z >= 0.0, 1.0, small) / (1.0 + small))


def spectral_weights(ranks: Array, top: float, families: Sequence[str]) -> Array:
    """Weight each ranking by its agreement with the others.

    Args:
        ranks: float64 [m, n], higher is better.
        top: share of the texts that counts as found.
        families: m names; rankings of one family share one vote, because they make similar
            errors.

    Returns:
        float64 [m], at least 0, with a sum of 1: the leading eigenvector of the covariance of
            "among the top", divided by the size of the family; equal weights if nothing varies.
    """
    inside = _tops(ranks, [max(1, round(top * ranks.shape[1]))])[0]
    centered = inside - inside.mean(axis=1, keepdims=True)
    values, vectors = np.linalg.eigh(centered @ centered.T)
    leading = vectors[:, -1] * np.sign(vectors[:, -1].sum())
    trusted = np.maximum(leading, 0.0) / np.array([list(families).count(name) for name in families])
    if not values[-1] > 0.0 or not trusted.sum() > 0.0:
        return np.full(len(ranks), 1.0 / len(ranks))
    return np.asarray(trusted / trusted.sum())


def _tops(ranks: Array, depths: list[int]) -> list[Array]:
    """For each depth k, the membership of each text in each ranking's k best, float64 [m, n].

    Ties at the edge share the remaining places, so that the order of the texts does not matter.
    """
    best = -np.sort(-ranks, axis=1)
    memberships = []
    for k in depths:
        edge = best[:, k - 1 : k]
        above = ranks > edge
        equal = ranks == edge
        left = k - above.sum(axis=1, keepdims=True)
        memberships.append(above + equal * (left / equal.sum(axis=1, keepdims=True)))
    return memberships


def kappas(ranks: Array, weights: Array, depths: list[int]) -> Array:
    """Agreement of the rankings' k best beyond chance, for each depth k; float64 [depths].

    The mean overlap of two rankings' k best, as a share of k, weighted by the product of their
    weights; then (overlap - k/n) / (1 - k/n), which is 0 by chance and 1 for equal tops.
    """
    pairs = np.outer(weights, weights)
    np.fill_diagonal(pairs, 0.0)
    pairs /= pairs.sum() or 1.0
    values = []
    for k, inside in zip(depths, _tops(ranks, depths), strict=True):
        chance = k / ranks.shape[1]
        overlap = (inside @ inside.T / k * pairs).sum()
        values.append((overlap - chance) / max(1.0 - chance, 1e-9))
    return np.array(values)


def agreed_depth(ranks: Array, weights: Array, depths: list[int]) -> int:
    """The smallest of the increasing depths at which agreement is near its maximum.

    Within a domain's share of the corpus, rankings disagree on the order; beyond it, on the next
    texts; so agreement peaks there (docs/ranking.md). Nine tenths of the peak suffice.
    """
    agreed = np.maximum(kappas(ranks, weights, depths), 0.0)
    return depths[int(np.flatnonzero(agreed >= _ENOUGH * agreed.max())[0])]
