"""`blend`: the mean rank that several methods give a text.

What: each member method scores the text; its score becomes a rank among the background sample's;
the weighted mean of the ranks is the score.
Why: methods that err differently are together better than each; ranks need no common unit, so
cosines, log odds and log ratios can be added.
Trade-off: costs what its members cost together, and a member that is badly wrong counts as much as
the others unless weighted down. Ranks forget by how much a text is ahead: between two background
scores they go by straight lines, and beyond the extremes ever more slowly towards 0 and 1.
Reference: Borda's count; Aslam and Montague (2001), Models for Metasearch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.errors import UsageError, bad_setting
from corpusfit.kernels.agreement import mid_ranks
from corpusfit.plan import MethodPlan
from corpusfit.score import registry
from corpusfit.score.contract import Family, Method, Scorer
from corpusfit.types import Reads, read_as


@dataclass(frozen=True)
class BlendScorer(Scorer[Any]):
    """The members' scorers, and how the background sample scored.

    Attributes:
        scorers: uint8, each member's scorer as stored, one after the other.
        ends: int64 [m], where each one ends.
        reads: what each member reads.
        weights: float64 [m], their sum being 1.
        known: float32, each member's different scores of the sample, increasing.
        ranks: float64, the rank of each of those in (0, 1): (mid-rank - 1/2) / sample size.
        knots: int64 [m], where each member's part of `known` and `ranks` ends.
    """

    scorers: NDArray[np.uint8]
    ends: NDArray[np.int64]
    reads: tuple[Reads, ...]
    weights: NDArray[np.float64]
    known: NDArray[np.float32]
    ranks: NDArray[np.float64]
    knots: NDArray[np.int64]

    @cached_property
    def members(self) -> list[Scorer[Any]]:
        """The members' scorers, opened once in a process."""
        return [registry.from_array(self.scorers[own]) for own in _parts(self.ends)]

    def score(self, batch: Any) -> NDArray[np.float32]:
        """Score n texts, or float32 [n, d], or both: the mean rank, float32 [n] in [0, 1]."""
        total = np.zeros(len(batch))
        each = zip(self.members, self.reads, self.weights, _parts(self.knots), strict=True)
        for member, reads, weight, own in each:
            scores = member.score(read_as(batch, reads))
            total += weight * rank_among(scores, self.known[own], self.ranks[own])
        return total.astype(np.float32)


def _parts(ends: NDArray[np.int64]) -> list[slice]:
    """Where each part is, of parts that lie one after the other."""
    begins = [0, *ends[:-1]]
    return [slice(begin, end) for begin, end in zip(begins, ends, strict=True)]


def rank_among(
    scores: NDArray[np.float32], known: NDArray[np.float32], ranks: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The rank of each score among known ones, float64 [n] in [0, 1], increasing with it.

    Straight lines between known scores. Beyond the highest, at a distance of t times the known
    scores' range, t / (1 + t) of what is left up to 1; beyond the lowest, of what is left to 0.

    Args:
        scores: float32 [n].
        known: float32 [k], increasing, no two equal; at least one.
        ranks: float64 [k], increasing, in (0, 1).
    """
    x, at = scores.astype(np.float64), known.astype(np.float64)
    unit = (at[-1] - at[0]) or 1.0
    inside = np.interp(x, at, ranks)
    above, below = (np.maximum(d, 0.0) / unit for d in (x - at[-1], at[0] - x))
    return np.asarray(
        inside + (1.0 - ranks[-1]) * above / (1.0 + above) - ranks[0] * below / (1.0 + below)
    )


@dataclass(frozen=True)
class Blend(Method[Any]):
    """The mean of several methods' ranks.

    Attributes:
        methods: names with commas between; each with its own defaults.
        weights: as many numbers with commas between; equal ones if empty.
        embedder: for members that tune one; the run's --embedder unless set.
    """

    reads: ClassVar[Reads] = "both"
    family: ClassVar[Family] = "ensemble"
    scorer: ClassVar[type] = BlendScorer

    methods: str = "domain_classifier,cluster_ratio,tfidf"
    weights: str = ""
    embedder: str = "minilm"

    def __post_init__(self) -> None:
        members, _ = self._members(), self._shares()
        reads = _union(m.reads for m in members)
        learns = _union([reads, *(m.fits_on for m in members)])
        exact = all(m.exact for m in members)
        # What it reads depends on its settings: shadow what the class says of the defaults.
        for name, value in (("reads", reads), ("learns", learns), ("exact", exact)):
            object.__setattr__(self, name, value)

    @property
    def files(self) -> tuple[str, ...]:
        """Those of the members."""
        return tuple(dict.fromkeys(file for m in self._members() for file in m.files))

    def _names(self) -> list[str]:
        return [name.strip() for name in self.methods.split(",")]

    def _members(self) -> list[Method[Any]]:
        try:
            plans = [registry.given(MethodPlan(n), self.embedder) for n in self._names()]
            return [registry.fitting(plan.name, plan.options) for plan in plans]
        except UsageError as e:
            allowed = "names of methods that score each unit by itself, with commas between"
            raise bad_setting("method.methods", allowed, self.methods, str(e)) from e

    def _shares(self) -> NDArray[np.float64]:
        """float64 [m], the weights with a sum of 1."""
        count = len(self._names())
        try:
            given = [float(w) for w in self.weights.split(",")] if self.weights else [1.0] * count
        except ValueError:
            given = []
        usable = len(given) == count and min(given) >= 0.0 and 0.0 < math.fsum(given) < math.inf
        if not usable:
            allowed = f"{count} numbers with commas between, none below 0 and not all 0"
            raise bad_setting("method.weights", allowed, self.weights)
        return np.array(given) / math.fsum(given)

    def fit(self, target: Any, background: Any, *, seed: int) -> BlendScorer:
        """Fit each member on what it learns from, then let it score the background."""
        stored, knots = [], []
        members = self._members()
        for name, member in zip(self._names(), members, strict=True):
            parts = (read_as(part, member.fits_on) for part in (target, background))
            scorer = member.fit(*parts, seed=seed)
            stored.append(registry.as_array(name, scorer))
            knots.append(_ranked(scorer.score(read_as(background, member.reads))))
        return BlendScorer(
            np.concatenate(stored),
            np.cumsum([len(part) for part in stored]),
            tuple(m.reads for m in members),
            self._shares(),
            np.concatenate([known for known, _ in knots]),
            np.concatenate([ranks for _, ranks in knots]),
            np.cumsum([len(known) for known, _ in knots]),
        )


def _union(kinds: Iterable[Reads]) -> Reads:
    """What gives all of these."""
    found = set(kinds)
    return found.pop() if len(found) == 1 else "both"


def _ranked(scores: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """The different scores, increasing, and the rank of each: its place in the middle of equals."""
    known, at = np.unique(scores, return_index=True)
    return known, mid_ranks(scores)[at]
